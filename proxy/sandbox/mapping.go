package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// The states of a mapping. The document has COMPLETED only; REQUESTED is the sandbox's, before the sign-up is
// completed.
const (
	mappingRequested = "REQUESTED"
	mappingCompleted = "COMPLETED"

	// reviewShown is the only review status in the document, which does not explain it.
	reviewShown = "P"

	maxRegistered        = 30 // memberId and merchantId on registration ("Limits")
	timestampLayout      = "2006-01-02T15:04:05"
	businessNumberDigits = 10
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

// merchantRecord is "Sub-business record (lookup result)".
type merchantRecord struct {
	MemberID       string `json:"memberId"`
	MerchantID     string `json:"merchantId"`
	CompanyName    string `json:"companyName"`
	BranchName     string `json:"branchName"`
	CEOName        string `json:"ceoName"`
	Email          string `json:"email"`
	BusinessNumber string `json:"businessNumber"`
}

// register starts a sign-up, or returns the URL of the current one ("/auth/mapping").
func (s *Service) register(t *tables, c *call) result {
	switch {
	case utf8.RuneCountInString(c.Member) > maxRegistered:
		return refuseField(codeInvalid, "memberId")
	case utf8.RuneCountInString(c.Merchant) > maxRegistered:
		return refuseField(codeInvalid, "merchantId")
	case c.businessNumber != "" && !isBusinessNumber(c.businessNumber):
		return refuse(codeBadBusinessNumber)
	case c.CallbackURL == "" || !s.validCallbackURL(c.CallbackURL):
		return refuseField(codeInvalid, "callbackUrl")
	}
	m := mapping{Partner: c.Partner, Status: mappingRequested, Registered: t.now}
	m.MemberID, m.MerchantID = c.Member, c.Merchant
	if existing := t.Mappings.get(m.key()); existing != nil {
		m = *existing
	}
	if c.businessNumber != "" {
		m.Number = c.businessNumber
	}
	m.CallbackURL, m.RedirectURL, m.Updated = c.CallbackURL, c.redirectURL, t.now
	t.Mappings.put(m)
	token := t.token("signup", m.Partner, m.MemberID, m.MerchantID)
	return result{code: codeSuccess, data: registered{URL: c.base + signUpPath + token}}
}

// CompleteMapping completes a sign-up. Fields that the registration does not have get example values. It fails if there
// is no such registration.
func (s *Service) CompleteMapping(partnerKey, memberID, merchantID string) error {
	return s.store.update(func(t *tables) error {
		m := t.Mappings.get(mappingKey{partnerKey, memberID, merchantID})
		if m == nil {
			return fmt.Errorf("%w: member %q, merchant %q", errNoMapping, memberID, merchantID)
		}
		t.Mappings.put(completeMapping(*m, Merchant{}, t.now))
		return nil
	})
}

// completeMapping returns m completed with the fields of input. Empty fields keep their value, or get an example.
func completeMapping(m mapping, input Merchant, now time.Time) mapping {
	m.Company = cmp.Or(input.Company, m.Company, "데모상사")
	m.Branch = cmp.Or(input.Branch, m.Branch, "신규점")
	m.CEO = cmp.Or(input.CEO, m.CEO, "김가입")
	m.Email = cmp.Or(input.Email, m.Email, "signup@example.com")
	m.Number = cmp.Or(input.Number, m.Number, "0000000000")
	m.Status, m.Updated = mappingCompleted, now
	return m
}

// ofPartner returns the merchants of a partner, in the order of registration.
func (t *tables) ofPartner(key string) []*mapping {
	list := []*mapping{}
	for _, k := range t.merchants[key] {
		list = append(list, t.Mappings.get(k))
	}
	return list
}

// listMappings lists the registered merchants of a partner ("/read/mapping").
func (s *Service) listMappings(t *tables, c *call) result {
	list := []mappingRecord{}
	for _, m := range t.ofPartner(c.Partner) {
		list = append(list, mappingRecord{
			m.MemberID, m.MerchantID, m.Company, m.Branch, m.Number, m.CEO, m.Email, m.Status,
			m.Registered.In(seoul).Format(timestampLayout), m.Updated.In(seoul).Format(timestampLayout),
		})
	}
	return result{code: codeSuccess, data: list}
}

// status returns the review status of a merchant ("/auth/mapping/status").
func (s *Service) status(t *tables, c *call) result {
	m := t.Mappings.get(mappingKey{c.Partner, c.Member, c.Merchant})
	if m == nil {
		return refuse(codeNoReview)
	}
	return result{code: codeSuccess, data: statusRecord{
		c.Partner, m.MemberID, m.MerchantID, m.Company, m.Branch, m.Number, reviewShown,
	}}
}

// mapMerchant maps a merchant, to a temporary business location if one is named ("/auth/merchant/mapping"). "Errors"
// defines the refusals.
func (s *Service) mapMerchant(t *tables, c *call) result {
	m := t.Mappings.get(mappingKey{c.Partner, c.Member, c.Merchant})
	switch {
	case m == nil:
		return refuse(codeNoMerchant)
	case m.Suspended:
		return refuse(codeMemberState)
	case m.Closed:
		return refuse(codeNotOpened)
	case c.temporaryCode == "" && m.Status != mappingCompleted:
		return refuse(codeNotOpened)
	case c.temporaryCode == "":
		return succeeded
	}
	at := slices.IndexFunc(c.partner.Temporary, func(l TemporaryMerchant) bool { return l.Code == c.temporaryCode })
	a := *t.Accounts.get(c.Partner)
	switch {
	case at < 0:
		return refuse(codeNoReview)
	case c.partner.Temporary[at].Deleted:
		return refuse(codeTemporaryDeleted)
	case slices.Contains(a.Mapped, c.temporaryCode):
		return refuse(codeTemporaryMapped)
	}
	a.Mapped = append(slices.Clip(a.Mapped), c.temporaryCode)
	t.Accounts.put(a)
	t.Mappings.put(completeMapping(*m, Merchant{}, t.now))
	return succeeded
}

// listMerchants lists the mapped merchants of a partner ("/read/merchant").
func (s *Service) listMerchants(t *tables, c *call) result {
	list := []merchantRecord{}
	for _, m := range t.ofPartner(c.Partner) {
		if m.Status == mappingCompleted {
			list = append(list, merchantRecord{m.MemberID, m.MerchantID, m.Company, m.Branch, m.CEO, m.Email, m.Number})
		}
	}
	return result{code: codeSuccess, data: list}
}

func isBusinessNumber(s string) bool { return len(s) == businessNumberDigits && isDigits(s) }
