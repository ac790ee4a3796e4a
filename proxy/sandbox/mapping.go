package sandbox

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// The states of a mapping. The document shows COMPLETED only; the other word is
// ours, for a registration whose sign-up is not finished.
const (
	mappingRequested = "REQUESTED"
	mappingCompleted = "COMPLETED"

	// reviewShown is the only review state that the document shows, and does not explain.
	reviewShown = "P"

	maxRegistered    = 30 // memberId and merchantId on registration ("Limits")
	timestampLayout  = "2006-01-02T15:04:05"
	businessNumberNo = 10
)

type registered struct {
	URL string `json:"url"`
}

// mappingRecord is "Sub-business mapping record (list result)".
type mappingRecord struct {
	PartnerMember   string `json:"partnerMember"`
	PartnerMerchant string `json:"partnerMerchant"`
	CompanyNm       string `json:"companyNm"`
	BranchNm        string `json:"branchNm"`
	BusinessNumber  string `json:"businessNumber"`
	CEOName         string `json:"ceoName"`
	Email           string `json:"email"`
	MappingStatus   string `json:"mappingStatus"`
	RegDt           string `json:"regDt"`
	UpdDt           string `json:"updDt"`
}

// statusRecord is "Sub-business publication status record".
type statusRecord struct {
	APIKey         string `json:"apiKey"`
	Member         string `json:"member"`
	Merchant       string `json:"merchant"`
	CompanyNm      string `json:"companyNm"`
	BranchNm       string `json:"branchNm"`
	BusinessNumber string `json:"businessNumber"`
	ReviewStatus   string `json:"reviewStatus"`
}

// storeRecord is "Sub-business record (lookup result)".
type storeRecord struct {
	MemberID       string `json:"memberId"`
	MerchantID     string `json:"merchantId"`
	CompanyName    string `json:"companyName"`
	BranchName     string `json:"branchName"`
	CEOName        string `json:"ceoName"`
	Email          string `json:"email"`
	BusinessNumber string `json:"businessNumber"`
}

// linker is partner for the sub-business operations.
func (t *tables) linker(c *call) (*account, result) {
	a, code := t.partner(c.key)
	switch {
	case code != codeSuccess:
		return nil, refuse(code)
	case a.NotLinked:
		return nil, refuse(codeNotLinked)
	case c.wrongType != "":
		return nil, refuseField(codeInvalid, c.wrongType)
	}
	return a, result{code: codeSuccess}
}

// named is linker for the two mapping requests, where a missing key has the
// code of a missing name.
func (t *tables) named(c *call) (*account, result) {
	if c.wrongType == "" && (c.key == "" || c.member == "" || c.merchant == "") {
		return nil, refuse(codeMappingMissing)
	}
	return t.linker(c)
}

// register starts a sign-up, or names the one that is under way
// ("/auth/mapping"). The mapping is REQUESTED until the sign-up is completed.
func (s *Service) register(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.named(&c); res.code != codeSuccess {
			return
		}
		switch {
		case utf8.RuneCountInString(c.member) > maxRegistered:
			res = refuseField(codeInvalid, "memberId")
			return
		case utf8.RuneCountInString(c.merchant) > maxRegistered:
			res = refuseField(codeInvalid, "merchantId")
			return
		case c.businessNumber != "" && !isBusinessNumber(c.businessNumber):
			res = refuse(codeBadBusinessNumber)
			return
		case c.callbackURL == "":
			res = refuseField(codeInvalid, "callbackUrl")
			return
		}
		now := s.opt.Clock()
		m := a.mapping(c.member, c.merchant)
		if m == nil {
			m = &mapping{status: mappingRequested, registered: now}
			m.Member, m.Merchant = c.member, c.merchant
			a.mappings = append(a.mappings, m)
		}
		if c.businessNumber != "" {
			m.Number = c.businessNumber
		}
		m.callbackURL, m.redirect, m.updated = c.callbackURL, c.redirectURL, now
		res.data = registered{URL: c.base + "/signup/" + token("signup", c.key, c.member, c.merchant)}
	})
	return res
}

// CompleteMapping finishes a sign-up: the mapping becomes COMPLETED, with a
// made-up company where the registration named none.
func (s *Service) CompleteMapping(partnerKey, memberID, merchantID string) error {
	err := fmt.Errorf("no registration of %q / %q", memberID, merchantID)
	s.store.do(func(t *tables) {
		a := t.accounts[partnerKey]
		if a == nil {
			return
		}
		m := a.mapping(memberID, merchantID)
		if m == nil {
			return
		}
		complete(m, s.opt.Clock())
		err = nil
	})
	return err
}

func complete(m *mapping, now time.Time) {
	if m.Company == "" {
		m.Company, m.Branch, m.CEO, m.Email = "데모상사", "신규점", "김가입", "signup@example.com"
	}
	if m.Number == "" {
		m.Number = "0000000000"
	}
	m.status, m.updated = mappingCompleted, now
}

// mappings lists every sub-business of the partner ("/read/mapping").
func (s *Service) mappings(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.linker(&c); res.code != codeSuccess {
			return
		}
		list := []mappingRecord{}
		for _, m := range a.mappings {
			list = append(list, mappingRecord{
				m.Member, m.Merchant, m.Company, m.Branch, m.Number, m.CEO, m.Email, m.status,
				m.registered.In(seoul).Format(timestampLayout), m.updated.In(seoul).Format(timestampLayout),
			})
		}
		res.data = list
	})
	return res
}

// status is the stage of one sub-business ("/auth/mapping/status").
func (s *Service) status(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.linker(&c); res.code != codeSuccess {
			return
		}
		switch {
		case c.member == "" || utf8.RuneCountInString(c.member) > maxStore:
			res = refuseField(codeInvalid, "member")
			return
		case c.merchant == "" || utf8.RuneCountInString(c.merchant) > maxStore:
			res = refuseField(codeInvalid, "merchant")
			return
		}
		m := a.mapping(c.member, c.merchant)
		if m == nil {
			res = refuse(codeNoReview)
			return
		}
		res.data = statusRecord{c.key, m.Member, m.Merchant, m.Company, m.Branch, m.Number, reviewShown}
	})
	return res
}

// mapStore maps a store of the partner, to a temporary business location if one
// is named ("/auth/merchant/mapping"; which refusal is whose is in "Errors").
func (s *Service) mapStore(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.named(&c); res.code != codeSuccess {
			return
		}
		m := a.mapping(c.member, c.merchant)
		switch {
		case m == nil:
			res = refuse(codeNoReview)
			return
		case m.Suspended:
			res = refuse(codeMemberState)
			return
		case m.Closed:
			res = refuse(codeNotOpened)
			return
		}
		if c.temporaryCode == "" {
			if m.status != mappingCompleted {
				res = refuse(codeNotOpened)
			}
			return
		}
		switch location := a.temporary[c.temporaryCode]; {
		case location == nil:
			res = refuse(codeNoReview)
		case location.Deleted:
			res = refuse(codeTemporaryDeleted)
		case location.mapped:
			res = refuse(codeTemporaryMapped)
		default:
			location.mapped = true
			complete(m, s.opt.Clock())
		}
	})
	return res
}

// stores lists the stores of the partner that are mapped ("/read/merchant").
func (s *Service) stores(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.linker(&c); res.code != codeSuccess {
			return
		}
		list := []storeRecord{}
		for _, m := range a.mappings {
			if m.status == mappingCompleted {
				list = append(list, storeRecord{m.Member, m.Merchant, m.Company, m.Branch, m.CEO, m.Email, m.Number})
			}
		}
		res.data = list
	})
	return res
}

func isBusinessNumber(s string) bool { return len(s) == businessNumberNo && isDigits(s) }
