package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	sendTalk = "TALK"
	sendURL  = "URL"

	maxMerchant   = 60 // "Limits"
	maxBillID     = 20
	minAmount     = "100"
	minAmountTest = "20000" // in the development environment

	dateLayout  = "2006-01-02"
	stampLayout = "20060102150405"
)

// mobile matches Korean mobile numbers, with or without hyphens. The document has a code for wrong numbers, but no
// format.
var mobile = regexp.MustCompile(`^01[016789]-?[0-9]{3,4}-?[0-9]{4}$`)

// seoul is the zone of all times of the interface.
var seoul = time.FixedZone("KST", 9*60*60)

// stamp formats a time with 14 digits, as the interface does.
func stamp(t time.Time) string { return t.In(seoul).Format(stampLayout) }

// goodKey matches well-formed keys. The document does not define a malformed key; here a key is printable ASCII without
// spaces, within its limit.
var goodKey = regexp.MustCompile(`^[!-~]{1,32}$`)

// check makes the checks that the operations share, and finds the partner ("Authentication", 4 and 5).
func (s *Service) check(t *tables, c *call) error {
	onBill := strings.HasPrefix(c.op.name, "bill.")
	c.partner = t.Contracts.get(c.Partner)
	p := c.partner
	switch {
	case c.checks("key") && (c.op.name == opRegister || c.op.name == opMapMerchant) && c.wrongType == "" &&
		(c.Partner == "" || c.Member == "" || c.Merchant == ""):
		return refuse(codeMappingMissing) // also for a missing key
	case !goodKey.MatchString(c.Partner):
		return refuse(codeBadKey)
	case p == nil:
		return refuse(codeUnknownKey)
	case p.Removed:
		return refuse(codeNoPartner)
	case c.checks("contract") && p.NoContract:
		return refuse(codeNoContract)
	case onBill && p.NoBilling:
		return refuse(codeNotGranted)
	case !onBill && p.NotLinked:
		return refuse(codeNotLinked)
	case c.checks("types") && c.wrongType != "":
		return refusal{codeInvalid, c.wrongType}
	case !onBill && c.op.name != opStatus:
		return nil
	case c.checks("merchant") && (c.Member == "" || utf8.RuneCountInString(c.Member) > maxMerchant):
		return refusal{codeInvalid, "member"}
	case c.Merchant == "" || utf8.RuneCountInString(c.Merchant) > maxMerchant:
		return refusal{codeInvalid, "merchant"}
	case onBill && !t.allowsMerchant(p, c.Member, c.Merchant):
		return refuse(codeUnknownKey)
	case onBill && c.checks("fields") && c.ID == "":
		return c.invalid("billId")
	}
	return nil
}

// create creates a bill in state W ("Bill creation input").
func (s *Service) create(t *tables, c *call) error {
	if err := s.checkInput(c, t.now); err != nil {
		return err
	}
	switch {
	case c.checks("type") && c.SendType == sendTalk && c.partner.NoTalk:
		return refuse(codeNoTalk)
	case c.SendType == sendURL && c.partner.NoURL:
		return refuse(codeNoURL)
	case c.checks("unique") && t.Bills.get(c.Bill.key()) != nil:
		return refuse(codeDuplicate)
	}
	c.found = c.Bill
	b := &c.found
	b.Form, b.State, b.Created = string(c.form), stateUnpaid, t.now
	b.ShortURL = c.base + payPath + s.token("bill", b.Partner, b.ID)
	if c.SendType == sendTalk && c.checks("message") {
		if err := t.send(c.partner, b); err != nil {
			return err
		}
	}
	t.Bills.put(*b)
	return nil
}

// checkInput checks what depends on the input of a create and the time only.
func (s *Service) checkInput(c *call, now time.Time) error {
	switch {
	case utf8.RuneCountInString(c.ID) > maxBillID:
		return refuse(codeLongID)
	case !goodBillID.MatchString(c.ID):
		return c.invalid("billId")
	case c.SendType != sendTalk && c.SendType != sendURL:
		return refuse(codeBadSendType)
	case !isDigits(c.Price):
		return c.invalid("price")
	case c.Phone != "" && !mobile.MatchString(c.Phone):
		return refuse(codeBadPhone)
	case c.ExpireDt != "" && !isDate(c.ExpireDt), expired(c.ExpireDt, now):
		return c.invalid("expireDt")
	}
	if err := s.checkHash(c); err != nil {
		return err
	}
	switch {
	case c.checks("amount") && below(c.Price, minAmount):
		return refuse(codeBelowMinimum)
	case s.opt.Environment == Development && below(c.Price, minAmountTest):
		return refuse(codeBelowDevelopment)
	}
	return nil
}

// checkHash checks the hash of a call. The phone is that of the call, not of the bill: only a create has one.
func (s *Service) checkHash(c *call) error {
	if c.checks("hash") && c.hash == "" {
		return c.invalid("hash")
	}
	want := Hash(c.ID, c.Phone, c.Price)
	if subtle.ConstantTimeCompare([]byte(c.hash), []byte(want)) != 1 {
		c.hashText, c.hashWant = hashText(c.ID, c.Phone, c.Price), want
		return refuse(codeBadHash)
	}
	return nil
}

// goodBillID matches bill ids, besides their limit. The document has letters and digits; clients also use - and _.
var goodBillID = regexp.MustCompile(`^[\pL\p{Nd}_-]*$`)

// webURL parses an http or https URL with a host. It returns nil for any other text.
func webURL(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil
	}
	return u
}

// findBill finds the bill that a call names, in any state, or refuses with BILL_003.
func (s *Service) findBill(t *tables, c *call) error {
	b := t.Bills.get(c.Bill.key())
	if c.checks("bill") && b == nil || b.Member != c.Member || b.Merchant != c.Merchant {
		return refuse(codeNotFound)
	}
	c.found = *b
	return nil
}

// resend sends the message of an unpaid bill again.
func (s *Service) resend(t *tables, c *call) error {
	err := s.findBill(t, c)
	switch {
	case err != nil:
		return err
	case c.checks("state") && c.found.State != stateUnpaid:
		return refuse(codeNotSendable)
	}
	c.checks("message")
	if err := t.send(c.partner, &c.found); err != nil {
		return err
	}
	t.Bills.put(c.found)
	return nil
}

// destroy changes the state from W to D.
func (s *Service) destroy(t *tables, c *call) error {
	return s.end(t, c, stateUnpaid, stateDestroyed)
}

// cancel changes the state from F to C.
func (s *Service) cancel(t *tables, c *call) error {
	return s.end(t, c, statePaid, stateCancelled)
}

// end changes the state of a bill, if the call is signed and the price is the whole amount. Another price is not
// PAYMENT_002, because clients retry that.
func (s *Service) end(t *tables, c *call, from, to string) error {
	if !isDigits(c.Price) {
		return c.invalid("price")
	}
	if err := s.checkHash(c); err != nil {
		return err
	}
	err := s.findBill(t, c)
	b := &c.found
	switch {
	case err != nil:
		return err
	case c.checks("state") && b.State != from:
		return refuse(codeNotCancellable)
	case c.checks("whole") && trimZeros(b.Price) != trimZeros(c.Price):
		return c.invalid("price")
	}
	s.finish(t, b, to, c.cancelNote)
	return nil
}

// finish changes the state of a bill to C or D.
func (s *Service) finish(t *tables, b *Bill, to, reason string) {
	if b.State = to; to == stateCancelled {
		b.Cancel = &Cancel{Num: approvalNumber(t.nextApproval()), At: t.now, Reason: reason}
	}
	t.Bills.put(*b)
	if s.opt.CallbackCancelDestroy {
		s.notify(t, b)
	}
}

// token returns the name of a page in a URL. It is the same in every run, and does not reveal the key. With a control
// token only who knows that can compute it.
func (st *store) token(kind string, parts ...string) string {
	sum := sha256.New()
	if key := st.opt.ControlToken; key != "" {
		sum = hmac.New(sha256.New, []byte(key))
	}
	_, _ = io.WriteString(sum, kind+"\x00"+strings.Join(parts, "\x00")) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isDate(s string) bool {
	_, err := time.Parse(dateLayout, s)
	return err == nil
}

// below compares amounts of any length, as digits.
func below(amount, limit string) bool {
	amount = trimZeros(amount)
	if len(amount) != len(limit) {
		return len(amount) < len(limit)
	}
	return amount < limit
}

func trimZeros(digits string) string { return strings.TrimLeft(digits, "0") }
