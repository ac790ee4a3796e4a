package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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

// register starts a sign-up, or returns the URL of the current one ("/auth/mapping").
func (c *call) register() error {
	number := c.texts["businessNumber"]
	switch {
	case utf8.RuneCountInString(c.Member) > maxRegistered:
		return invalid("memberId")
	case utf8.RuneCountInString(c.Merchant) > maxRegistered:
		return invalid("merchantId")
	case number != "" && (len(number) != businessNumberDigits || !isDigits(number)):
		return codeBadBusinessNumber
	case c.CallbackURL == "":
		return invalid("callbackUrl")
	}
	m := mapping{Partner: c.Partner, Status: mappingRequested, Registered: c.t.now}
	m.MemberID, m.MerchantID = c.Member, c.Merchant
	if existing := c.t.Mappings.get(m.key()); existing != nil {
		m = *existing
	}
	m.Number = cmp.Or(number, m.Number)
	m.CallbackURL, m.RedirectURL, m.Updated = c.CallbackURL, c.texts["redirectUrl"], c.t.now
	c.t.Mappings.put(m)
	token := c.opt.token("signup", m.Partner, m.MemberID, m.MerchantID)
	c.data = map[string]string{"url": c.x.base + signUpPath + token}
	return nil
}

// CompleteMapping completes a sign-up. Fields that the registration does not have get example values. It fails if there
// is no such registration.
func (s *Service) CompleteMapping(partnerKey, memberID, merchantID string) error {
	return s.update(func(t *tables) error {
		m := t.Mappings.get(mappingKey{partnerKey, memberID, merchantID})
		if m == nil {
			return fmt.Errorf("%w: member %q, merchant %q", errNoMapping, memberID, merchantID)
		}
		t.Mappings.put(completeMapping(*m, t.now))
		return nil
	})
}

// signUpPage shows a registration, or completes it when its button was pressed.
func (s *Service) signUpPage(k mappingKey, token string, form url.Values) screen {
	var m mapping
	err := s.update(func(t *tables) error {
		if m = *t.Mappings.get(k); form != nil {
			t.Mappings.put(completeMapping(m, t.now))
		}
		return nil
	})
	switch {
	case err != nil:
		return s.opt.failedScreen(err)
	case form != nil:
		return screen{to: redirectTarget(m.RedirectURL, token)}
	}
	return screen{status: http.StatusOK, template: "signup", data: m}
}

// completeMapping returns m completed. Empty fields get an example.
func completeMapping(m mapping, now time.Time) mapping {
	m.Company = cmp.Or(m.Company, "데모상사")
	m.Branch = cmp.Or(m.Branch, "신규점")
	m.CEO = cmp.Or(m.CEO, "김가입")
	m.Email = cmp.Or(m.Email, "signup@example.com")
	m.Number = cmp.Or(m.Number, "0000000000")
	m.Status, m.Updated = mappingCompleted, now
	return m
}

// ofPartner returns the merchants of a partner, in the order of registration.
func (t *tables) ofPartner(key string) []mapping {
	return slices.DeleteFunc(t.Mappings.all(), func(m mapping) bool { return m.Partner != key })
}

// record returns the reply of an operation about one merchant.
func (c *call) record(m *mapping) json.RawMessage {
	values := map[string]any{
		"apiKey": c.Partner, "mappingStatus": m.Status, "reviewStatus": reviewShown,
		"regDt": m.Registered.In(seoul).Format(timestampLayout), "updDt": m.Updated.In(seoul).Format(timestampLayout),
	}
	eachText(m, func(name string, text *string) { values[name] = *text })
	return formV2.object(c.op.reply, values)
}

// list lists the registered merchants of a partner ("/read/mapping"), or those that are mapped ("/read/merchant").
func (c *call) list() error {
	list := []json.RawMessage{}
	for _, m := range c.t.ofPartner(c.Partner) {
		if m.Status == mappingCompleted || c.op.name == opMappings {
			list = append(list, c.record(&m))
		}
	}
	c.data = list
	return nil
}

// status returns the review status of a merchant ("/auth/mapping/status").
func (c *call) status() error {
	m := c.t.Mappings.get(mappingKey{c.Partner, c.Member, c.Merchant})
	if m == nil {
		return codeNoReview
	}
	c.data = c.record(m)
	return nil
}

// mapMerchant maps a merchant, to a temporary business location if one is named ("/auth/merchant/mapping"). "Errors"
// defines the refusals.
func (c *call) mapMerchant() error {
	m := c.t.Mappings.get(mappingKey{c.Partner, c.Member, c.Merchant})
	place := c.texts["temporaryMerchantCd"]
	switch {
	case m == nil:
		return codeNoMerchant
	case m.Suspended:
		return codeMemberState
	case m.Closed, place == "" && m.Status != mappingCompleted:
		return codeNotOpened
	case place == "":
		return nil
	}
	at := slices.IndexFunc(c.partner.Temporary, func(l TemporaryMerchant) bool { return l.Code == place })
	a := *c.t.Accounts.get(c.Partner)
	switch {
	case at < 0:
		return codeNoReview
	case c.partner.Temporary[at].Deleted:
		return codeTemporaryDeleted
	case slices.Contains(a.Mapped, place):
		return codeTemporaryMapped
	}
	a.Mapped = append(slices.Clip(a.Mapped), place)
	c.t.Accounts.put(a)
	c.t.Mappings.put(completeMapping(*m, c.t.now))
	return nil
}
