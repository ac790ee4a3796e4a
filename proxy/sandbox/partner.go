package sandbox

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Partner is a partner and its contract. The zero value of the flags is a partner without restrictions.
type Partner struct {
	Key  string `json:"api_key"` // at most 32 characters
	Name string `json:"name"`
	// ControlToken is a bearer token of the control API that shows and changes what this partner has, and nothing else;
	// none if empty.
	ControlToken string `json:"control_token,omitempty"`
	// Merchants are mapped from the start.
	Merchants []Merchant `json:"merchants,omitempty"`
	// Strict accepts bill calls for mapped merchants only; another member or merchant is PARTNER_003. Otherwise any
	// member and merchant is accepted.
	Strict bool `json:"strict"`
	// Temporary are the temporary business locations that a merchant can be mapped to.
	Temporary []TemporaryMerchant `json:"temporary,omitempty"`

	NotLinked  bool `json:"not_linked"`  // PARTNER_001 on every sub-business operation
	Removed    bool `json:"removed"`     // PARTNER_005 on every operation
	NoContract bool `json:"no_contract"` // PARTNER_006 on every operation
	NoBilling  bool `json:"no_billing"`  // PARTNER_007 on every bill operation
	NoTalk     bool `json:"no_talk"`     // BILL_009 on a TALK bill and on any legacy bill
	NoURL      bool `json:"no_url"`      // BILL_010 on a URL bill
	// Prepaid partners pay one point for each message: POINT_001 when Points are used up. Other partners ignore Points.
	Prepaid bool `json:"prepaid"`
	Points  int  `json:"points"`
}

func (p Partner) key() string { return p.Key }

// ParsePartners reads a list of partners in JSON. Each needs a key and a control token of its own.
func ParsePartners(text []byte) (list []Partner, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, err
	}
	for _, p := range list {
		switch {
		case !goodKey.MatchString(p.Key):
			return nil, errBadKey
		case len(p.ControlToken) < minToken:
			return nil, fmt.Errorf("control_token of %q: expected at least %d characters", p.Name, minToken)
		}
	}
	return list, nil
}

var errBadKey = badRequest("api_key: expected 1 to 32 printable ASCII characters")

// minToken is the length of a control token in a file: such a token is for a sign-in over a network.
const minToken = 16

var errTokenTaken = badRequest("control_token: it is that of another partner, or that of the operator")

// checkPartners refuses keys and control tokens that two have.
func (o *Options) checkPartners(list []Partner) error {
	keys, tokens := map[string]bool{}, map[string]bool{"": false, o.ControlToken: o.ControlToken != ""}
	for _, p := range list {
		switch {
		case keys[p.Key]:
			return badRequest("api_key: two partners have the same key")
		case tokens[p.ControlToken]:
			return errTokenTaken
		}
		keys[p.Key], tokens[p.ControlToken] = true, p.ControlToken != ""
	}
	return nil
}

// Partners returns all partners, also removed ones.
func (s *Service) Partners() (list []Partner) {
	s.view(func(t *tables) { list = t.Contracts.all() })
	return list
}

// AddPartner adds a partner, or changes the contract of one. Points and merchants that it already has stay. A control
// token that another partner or the operator has is refused.
func (s *Service) AddPartner(p Partner) error {
	if !goodKey.MatchString(p.Key) {
		return errBadKey
	}
	return s.update(func(t *tables) error { return t.addPartners(p) })
}

// addPartners adds or changes partners. Their points and merchants are added if they are new. A control token is of one
// partner, or of the operator.
func (t *tables) addPartners(list ...Partner) error {
	if err := t.opt.checkPartners(list); err != nil {
		return err
	}
	others := slices.DeleteFunc(t.Contracts.all(), func(p Partner) bool {
		return p.Removed || slices.ContainsFunc(list, func(next Partner) bool { return next.Key == p.Key })
	})
	for _, p := range append(list, Partner{ControlToken: t.opt.ControlToken}) {
		if p.ControlToken != "" && slices.ContainsFunc(others, func(o Partner) bool {
			return o.ControlToken == p.ControlToken
		}) {
			return errTokenTaken
		}
	}
	for _, p := range list {
		if old := t.Contracts.get(p.Key); old == nil || !reflect.DeepEqual(*old, p) {
			t.Contracts.put(p)
		}
		if t.Accounts.get(p.Key) == nil {
			t.Accounts.put(account{Partner: p.Key, Points: p.Points})
		}
		for _, one := range p.Merchants {
			m := mapping{Partner: p.Key, Merchant: one, Status: mappingCompleted, Registered: t.now, Updated: t.now}
			if t.Mappings.get(m.key()) == nil {
				t.Mappings.put(m)
			}
		}
	}
	return nil
}

// RemovePartner removes a partner: its calls return PARTNER_005, and its control token is refused. Its bills stay. One
// of Options.Partners is back after the next start.
func (s *Service) RemovePartner(key string) error {
	return s.update(func(t *tables) error {
		p := t.Contracts.get(key)
		if p == nil {
			return errNoPartner
		}
		removed := *p
		removed.Removed = true
		t.Contracts.put(removed)
		return nil
	})
}

// Merchant is a merchant (sub-business) of a partner.
type Merchant struct {
	MemberID   string `json:"member" v2:"member memberId partnerMember"`
	MerchantID string `json:"merchant" v2:"merchant merchantId partnerMerchant"`
	Company    string `json:"company_name" v2:"companyNm companyName"`
	Branch     string `json:"branch_name" v2:"branchNm branchName"`
	CEO        string `json:"ceo_name" v2:"ceoName"`
	Email      string `json:"email" v2:"email"`
	Number     string `json:"business_number" v2:"businessNumber"`
	Closed     bool   `json:"closed"`    // PARTNER_MAPPING_006 on a merchant mapping
	Suspended  bool   `json:"suspended"` // PARTNER_MAPPING_007 on a merchant mapping
}

// TemporaryMerchant is a temporary business location (temporaryMerchantCd).
type TemporaryMerchant struct {
	Code    string `json:"code"`
	Deleted bool   `json:"deleted"` // PARTNER_MAPPING_004 if a merchant is mapped to it
}

// DefaultPartners returns the partners of a sandbox whose Options have none. The keys are public. Each partner has the
// merchant demo-store of the member demo-member.
//
//	demo-partner-key   has no restrictions; any member and merchant is accepted
//	demo-strict-key    only its own merchants, else PARTNER_003; also has demo-closed
//	                   (PARTNER_MAPPING_006), demo-suspended (PARTNER_MAPPING_007) and
//	                   the temporary locations TEMP0001 and TEMP0002 (deleted)
//	demo-unlinked-key  PARTNER_001 on sub-business operations
//	demo-removed-key   PARTNER_005
//	demo-expired-key   PARTNER_006
//	demo-nobill-key    PARTNER_007 on bill operations
//	demo-notalk-key    BILL_009: its contract has URL bills only
//	demo-nourl-key     BILL_010: its contract has TALK bills only
//	demo-nopoint-key   POINT_001: its points are used up
func DefaultPartners() (list []Partner) {
	if err := json.Unmarshal(demoPartners, &list); err != nil {
		panic(err) // impossible: the file is embedded
	}
	return list
}

//go:embed partners.json
var demoPartners []byte
