package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
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

// CompleteMapping completes a sign-up, and reports that. Fields that the registration does not have get example values.
// It fails if there is no such registration.
func (s *Service) CompleteMapping(partnerKey, memberID, merchantID string) error {
	return s.withMapping(mappingKey{partnerKey, memberID, merchantID}, func(t *tables, m *mapping) error {
		t.complete(*m)
		return nil
	})
}

// NotifyMapping sends the callback of a registration's status, which the registration need not have.
func (s *Service) NotifyMapping(partnerKey, memberID, merchantID, status string) error {
	return s.withMapping(mappingKey{partnerKey, memberID, merchantID}, func(t *tables, m *mapping) error {
		switch {
		case !slices.Contains(statuses, status):
			return badRequest("status: expected one of " + strings.Join(statuses, ", "))
		case m.CallbackURL == "":
			return fmt.Errorf("%w with a callback: member %q, merchant %q", errNoMapping, memberID, merchantID)
		}
		t.report(m, status)
		return nil
	})
}

// statuses are those that callbacks of registrations report (field notes, Registration status callbacks).
var statuses = strings.Fields(
	"INITIALIZED MEMBER_MAPPED MERCHANT_OPENING PENDING PAUSED COMPLETED LEGACY MAPPED FAILED REJECTED")

// withMapping runs f on a registration, and sends callbacks that are due then.
func (s *Service) withMapping(k mappingKey, f func(*tables, *mapping) error) error {
	err := s.update(func(t *tables) error {
		m := t.Mappings.get(k)
		if m == nil {
			return fmt.Errorf("%w: member %q, merchant %q", errNoMapping, k.member, k.merchant)
		}
		return f(t, m)
	})
	if err == nil {
		s.sendDue()
	}
	return err
}

// signUpPage shows a registration, or completes it when its button was pressed.
func (s *Service) signUpPage(k mappingKey, token string, form url.Values) screen {
	var m mapping
	err := s.withMapping(k, func(t *tables, now *mapping) error {
		if m = *now; form != nil {
			t.complete(m)
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

// complete completes a sign-up, and reports that if it is news. Empty fields get an example.
func (t *tables) complete(m mapping) {
	isNews := m.Status != mappingCompleted
	m.Company = cmp.Or(m.Company, "데모상사")
	m.Branch = cmp.Or(m.Branch, "신규점")
	m.CEO = cmp.Or(m.CEO, "김가입")
	m.Email = cmp.Or(m.Email, "signup@example.com")
	m.Number = cmp.Or(m.Number, "0000000000")
	m.Status, m.Updated = mappingCompleted, t.now
	t.Mappings.put(m)
	if isNews {
		t.report(&m, mappingCompleted)
	}
}

// report adds the callback of a registration's status, if there is an address. The document shows no such callback: it
// has the fields of a read of the status, and the status.
func (t *tables) report(m *mapping, status string) {
	c := Callback{
		Partner: m.Partner, BillState: status, Member: m.MemberID, Merchant: m.MerchantID, Form: string(formV2),
		URL: m.CallbackURL, Made: t.now, Attempts: []Attempt{},
	}
	if c.URL == "" {
		return
	}
	if before := t.Callbacks.get(c.key()); before != nil { // a status can come back
		c.Attempts = before.Attempts
	}
	told := *m
	told.Status = status
	c.Body = string(told.record(
		"apiKey member merchant companyNm branchNm businessNumber mappingStatus reviewStatus regDt updDt"))
	c.schedule(t)
	t.Callbacks.put(c)
}

// ofPartner returns the merchants of a partner, in the order of registration.
func (t *tables) ofPartner(key string) []mapping {
	return slices.DeleteFunc(t.Mappings.all(), func(m mapping) bool { return m.Partner != key })
}

// record returns fields of a registration, for a reply or a callback.
func (m *mapping) record(fields string) json.RawMessage {
	values := map[string]any{
		"apiKey": m.Partner, "mappingStatus": m.Status, "reviewStatus": reviewShown,
		"regDt": m.Registered.In(seoul).Format(timestampLayout), "updDt": m.Updated.In(seoul).Format(timestampLayout),
	}
	eachText(m, func(name string, text *string) { values[name] = *text })
	return formV2.object(fields, values)
}

// list lists the registered merchants of a partner ("/read/mapping"), or those that are mapped ("/read/merchant").
func (c *call) list() error {
	list := []json.RawMessage{}
	for _, m := range c.t.ofPartner(c.Partner) {
		if m.Status == mappingCompleted || c.op.name == opMappings {
			list = append(list, m.record(c.op.reply))
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
	c.data = m.record(c.op.reply)
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
	c.t.complete(*m)
	return nil
}
