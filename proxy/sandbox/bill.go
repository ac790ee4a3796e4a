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
func (c *call) check() error {
	onBill := c.onBill()
	p := c.t.Contracts.get(c.Partner)
	c.partner = p
	switch {
	case c.checks("key") && (c.op.name == opRegister || c.op.name == opMapMerchant) && c.wrongType == "" &&
		(c.Partner == "" || c.Member == "" || c.Merchant == ""):
		return codeMappingMissing // also for a missing key
	case !goodKey.MatchString(c.Partner):
		return codeBadKey
	case p == nil:
		return codeUnknownKey
	case p.Removed:
		return codeNoPartner
	case c.checks("contract") && p.NoContract:
		return codeNoContract
	case onBill && p.NoBilling:
		return codeNotGranted
	case !onBill && p.NotLinked:
		return codeNotLinked
	case c.checks("types") && c.wrongType != "":
		return invalid(c.wrongType)
	case !onBill && c.op.name != opStatus:
		return nil
	case c.checks("merchant") && (c.Member == "" || utf8.RuneCountInString(c.Member) > maxMerchant):
		return invalid("member")
	case c.Merchant == "" || utf8.RuneCountInString(c.Merchant) > maxMerchant:
		return invalid("merchant")
	case !onBill:
		return nil
	case p.Strict:
		m := c.t.Mappings.get(mappingKey{p.Key, c.Member, c.Merchant})
		if m == nil || m.Status != mappingCompleted || m.Closed || m.Suspended {
			return codeUnknownKey
		}
	}
	if c.checks("fields") && c.ID == "" {
		return c.invalid("billId")
	}
	return nil
}

// create creates a bill in state W ("Bill creation input").
func (c *call) create() error {
	_, notDate := time.Parse(dateLayout, c.ExpireDt)
	switch {
	case utf8.RuneCountInString(c.ID) > maxBillID:
		return codeLongID
	case !goodBillID.MatchString(c.ID):
		return c.invalid("billId")
	case c.SendType != sendTalk && c.SendType != sendURL:
		return codeBadSendType
	case !isDigits(c.Price):
		return c.invalid("price")
	case c.Phone != "" && !mobile.MatchString(c.Phone):
		return codeBadPhone
	case c.ExpireDt != "" && notDate != nil, expired(c.ExpireDt, c.t.now):
		return c.invalid("expireDt")
	}
	if err := c.checkHash(); err != nil {
		return err
	}
	switch {
	case c.checks("amount") && below(c.Price, minAmount):
		return codeBelowMinimum
	case c.opt.Environment == Development && below(c.Price, minAmountTest):
		return codeBelowDevelopment
	case c.checks("type") && c.SendType == sendTalk && c.partner.NoTalk:
		return codeNoTalk
	case c.SendType == sendURL && c.partner.NoURL:
		return codeNoURL
	case c.checks("unique") && c.t.Bills.get(c.Bill.key()) != nil:
		return codeDuplicate
	}
	c.found = c.Bill
	b := &c.found
	b.Form, b.State, b.Created = string(c.form), stateUnpaid, c.t.now
	b.ShortURL = c.x.base + payPath + c.opt.token("bill", b.Partner, b.ID)
	if c.SendType == sendTalk {
		return c.send()
	}
	c.t.Bills.put(*b)
	return nil
}

// checkHash checks the hash of a call. The phone is that of the call, not of the bill: only a create has one.
func (c *call) checkHash() error {
	hash, want := c.texts["hash"], Hash(c.ID, c.Phone, c.Price)
	switch {
	case c.checks("hash") && hash == "":
		return c.invalid("hash")
	case subtle.ConstantTimeCompare([]byte(hash), []byte(want)) != 1:
		c.x.HashText, c.x.HashWant = hashText(c.ID, c.Phone, c.Price), want
		return codeBadHash
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
func (c *call) findBill() error {
	b := c.t.Bills.get(c.Bill.key())
	if c.checks("bill") && b == nil || b.Member != c.Member || b.Merchant != c.Merchant {
		return code(codeNotFound)
	}
	c.found = *b
	return nil
}

// moves are what operations do with the state of a bill, and how they are refused in another one ("States and
// transitions"). Payments change W to F.
var moves = map[string]struct {
	from, to string
	refused  code
}{
	"bill.resend":  {stateUnpaid, stateUnpaid, codeNotSendable},
	"bill.destroy": {stateUnpaid, stateDestroyed, codeNotCancellable},
	"bill.cancel":  {statePaid, stateCancelled, codeNotCancellable},
}

// move resends a bill, or changes its state, if the call is signed and the price is the whole amount. Another price is
// not PAYMENT_002, because clients retry that.
func (c *call) move() error {
	m := moves[c.op.name]
	if m.to != m.from {
		if !isDigits(c.Price) {
			return c.invalid("price")
		}
		if err := c.checkHash(); err != nil {
			return err
		}
	}
	err := c.findBill()
	switch {
	case err != nil:
		return err
	case c.checks("state") && c.found.State != m.from:
		return m.refused
	case m.to == m.from:
		return c.send()
	case c.checks("whole") && trimZeros(c.found.Price) != trimZeros(c.Price):
		return c.invalid("price")
	}
	c.t.finish(&c.found, m.to, c.texts["cancelReason"])
	return nil
}

// send sends the message of a bill, unless a prepaid partner has no point for it.
func (c *call) send() error {
	c.checks("message")
	if c.partner.Prepaid {
		a := *c.t.Accounts.get(c.Partner)
		if a.Points <= 0 {
			return codeNoPoints
		}
		a.Points--
		c.t.Accounts.put(a)
	}
	c.found.Messages++
	c.t.Bills.put(c.found)
	return nil
}

// finish changes the state of a bill to C or D.
func (t *tables) finish(b *Bill, to, reason string) {
	if b.State = to; to == stateCancelled {
		b.Cancel = &Cancel{Num: approvalNumber(t.nextApproval()), At: t.now, Reason: reason}
	}
	t.Bills.put(*b)
	if t.opt.CallbackCancelDestroy {
		t.notify(b)
	}
}

// token returns the name of a page in a URL. It is the same in every run, and does not reveal the key. With a control
// token only who knows that can compute it.
func (o *Options) token(kind string, parts ...string) string {
	sum := sha256.New()
	if key := o.ControlToken; key != "" {
		sum = hmac.New(sha256.New, []byte(key))
	}
	_, _ = io.WriteString(sum, kind+"\x00"+strings.Join(parts, "\x00")) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// below compares amounts of any length, as digits.
func below(amount, limit string) bool {
	amount = trimZeros(amount)
	if len(amount) != len(limit) {
		return len(amount) < len(limit)
	}
	return amount < limit
}

func trimZeros(digits string) string { return strings.TrimLeft(digits, "0") }
