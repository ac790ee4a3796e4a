package sandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	sendTalk = "TALK"
	sendURL  = "URL"

	maxKey        = 32 // "Limits"
	maxStore      = 60
	maxBillID     = 20
	minAmount     = "100"
	minAmountTest = "20000" // in the development environment

	dateLayout  = "2006-01-02"
	stampLayout = "20060102150405"
)

// mobile is a Korean mobile number, with or without hyphens. The document names
// the refusal and not the format.
var mobile = regexp.MustCompile(`^01[016789]-?[0-9]{3,4}-?[0-9]{4}$`)

// seoul is Korean local time, in which all times of the interface are.
var seoul = time.FixedZone("KST", 9*60*60)

// stamp is a date-time of the interface: 14 digits, year first.
func stamp(t time.Time) string { return t.In(seoul).Format(stampLayout) }

// partner finds the account of a call's key ("Authentication", 4 and 5).
func (t *tables) partner(key string) (*account, string) {
	if key == "" || utf8.RuneCountInString(key) > maxKey || strings.ContainsFunc(key, notKeyCharacter) {
		return nil, codeBadKey
	}
	a := t.accounts[key]
	switch {
	case a == nil:
		return nil, codeUnknownKey
	case a.NoContract:
		return nil, codeNoContract
	}
	return a, codeSuccess
}

// notKeyCharacter: a key is printable ASCII without spaces. What "malformed"
// means is not shown.
func notKeyCharacter(r rune) bool { return r <= ' ' || r > '~' }

// biller is partner for the bill operations, with the checks that all five have
// in common.
func (t *tables) biller(c *call) (*account, result) {
	a, code := t.partner(c.key)
	switch {
	case code != codeSuccess:
		return nil, refuse(code)
	case a.NoBilling:
		return nil, refuse(codeNotGranted)
	case c.wrongType != "":
		return nil, refuseField(codeInvalid, c.wrongType)
	case c.member == "" || utf8.RuneCountInString(c.member) > maxStore:
		return nil, refuseField(codeInvalid, "member")
	case c.merchant == "" || utf8.RuneCountInString(c.merchant) > maxStore:
		return nil, refuseField(codeInvalid, "merchant")
	case !a.serves(c.member, c.merchant):
		return nil, refuse(codeUnknownKey)
	case c.billID == "":
		return nil, refuseField(codeInvalid, c.in(c.names.billID))
	}
	return a, result{code: codeSuccess}
}

// create makes a bill in state W ("Bill creation input").
func (s *Service) create(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.biller(&c); res.code != codeSuccess {
			return
		}
		if res = s.checkInput(&c); res.code != codeSuccess {
			return
		}
		switch {
		case c.sendType == sendTalk && a.NoTalk:
			res = refuse(codeNoTalk)
			return
		case c.sendType == sendURL && a.NoURL:
			res = refuse(codeNoURL)
			return
		}
		_, used := t.bills[billKey{c.key, c.billID}]
		if used || s.opt.GlobalBillIDs && len(t.byID[c.billID]) > 0 {
			res = refuse(codeDuplicate)
			return
		}
		b := &Bill{
			Partner: c.key, Member: c.member, Merchant: c.merchant, ID: c.billID,
			Form: c.form.String(), State: stateUnpaid, SendType: c.sendType,
			Issuer: c.issuer, Product: c.product, Price: c.price, SupplyPrice: c.supplyPrice, Tax: c.tax,
			MemberName: c.memberName, Phone: c.phone, Message: c.message, ExpireDt: c.expireDt,
			CallbackURL: c.callbackURL, PageRedirectURL: c.pageRedirectURL,
			ShortURL: c.base + "/b/" + token("bill", c.key, c.billID), Created: s.opt.Clock(),
		}
		if c.sendType == sendTalk {
			if !a.spend() {
				res = refuse(codeNoPoints)
				return
			}
			b.Messages = 1
		}
		t.insert(b)
		res.bill = *b
	})
	return res
}

// checkInput is the part of a create that needs nothing but its input.
func (s *Service) checkInput(c *call) result {
	n := c.names
	switch {
	case utf8.RuneCountInString(c.billID) > maxBillID:
		return refuse(codeLongID)
	case !s.idAllowed(c.billID):
		return refuseField(codeInvalid, c.in(n.billID))
	case c.sendType != sendTalk && c.sendType != sendURL:
		return refuse(codeBadSendType)
	case !isDigits(c.price):
		return refuseField(codeInvalid, c.in(n.price))
	case c.phone != "" && !mobile.MatchString(c.phone):
		return refuse(codeBadPhone)
	case c.expireDt != "" && !isDate(c.expireDt):
		return refuseField(codeInvalid, c.in(n.expireDt))
	}
	if res := checkHash(c); res.code != codeSuccess {
		return res
	}
	switch {
	case below(c.price, minAmount):
		return refuse(codeBelowMinimum)
	case s.opt.Environment == Development && below(c.price, minAmountTest):
		return refuse(codeBelowDevelopment)
	}
	return result{code: codeSuccess}
}

// checkHash holds a call to its integrity value. The phone is the call's own:
// only a create has one, and that of the bill plays no part in later calls.
func checkHash(c *call) result {
	if c.hash == "" {
		return refuseField(codeInvalid, c.in(c.names.hash))
	}
	want := Hash(c.billID, c.phone, c.price)
	if subtle.ConstantTimeCompare([]byte(c.hash), []byte(want)) != 1 {
		return refuse(codeBadHash)
	}
	return result{code: codeSuccess}
}

func (s *Service) idAllowed(id string) bool {
	if s.opt.BillIDs == AnyCharacters {
		return true
	}
	for _, r := range id {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	if s.opt.BillIDs == ExactlyTwenty {
		return utf8.RuneCountInString(id) == maxBillID && (s.opt.Environment != Development || isBusinessNumber(id[:10]))
	}
	return true
}

// find is the bill a call names, or BILL_003.
func (s *Service) find(t *tables, c *call) (*Bill, result) {
	b := t.bills[billKey{c.key, c.billID}]
	if b == nil || !s.opt.AnyStore && (b.Member != c.member || b.Merchant != c.merchant) {
		return nil, refuse(codeNotFound)
	}
	return b, result{code: codeSuccess}
}

// read shows a bill in whatever state it is.
func (s *Service) read(c call) (res result) {
	s.store.do(func(t *tables) {
		if _, res = t.biller(&c); res.code != codeSuccess {
			return
		}
		var b *Bill
		if b, res = s.find(t, &c); res.code != codeSuccess {
			return
		}
		res.bill = *b
	})
	return res
}

// resend sends an unpaid bill's message again.
func (s *Service) resend(c call) (res result) {
	s.store.do(func(t *tables) {
		var a *account
		if a, res = t.biller(&c); res.code != codeSuccess {
			return
		}
		var b *Bill
		if b, res = s.find(t, &c); res.code != codeSuccess {
			return
		}
		switch {
		case b.State != stateUnpaid:
			res = refuse(codeNotSendable)
			return
		case !a.spend():
			res = refuse(codeNoPoints)
			return
		}
		b.Messages++
		res.bill = *b
	})
	return res
}

// destroy moves W to D.
func (s *Service) destroy(c call) result {
	return s.end(c, stateUnpaid, s.opt.DestroyRefused, func(_ *tables, b *Bill) {
		b.State = stateDestroyed
	})
}

// cancel moves F to C.
func (s *Service) cancel(c call) result {
	return s.end(c, statePaid, codeNotCancellable, func(t *tables, b *Bill) {
		b.State = stateCancelled
		b.Cancel = &Cancel{Num: approvalNumber(t.next()), At: s.opt.Clock(), Reason: c.cancelNote}
	})
}

// end is what destroy and cancel have in common: a signed call that moves a
// bill out of one state, for the whole of its amount.
func (s *Service) end(c call, from, refused string, move func(*tables, *Bill)) (res result) {
	s.store.do(func(t *tables) {
		if _, res = t.biller(&c); res.code != codeSuccess {
			return
		}
		if !isDigits(c.price) {
			res = refuseField(codeInvalid, c.in(c.names.price))
			return
		}
		if res = checkHash(&c); res.code != codeSuccess {
			return
		}
		var b *Bill
		if b, res = s.find(t, &c); res.code != codeSuccess {
			return
		}
		switch {
		case b.State != from:
			res = refuse(refused)
			return
		case trimZeros(b.Price) != trimZeros(c.price):
			res = refuseField(s.opt.WrongAmount, c.in(c.names.price))
			return
		}
		move(t, b)
		res.bill = *b
	})
	return res
}

// spend takes a point for a message, false when there is none left.
func (a *account) spend() bool {
	if !a.Prepaid {
		return true
	}
	if a.Points <= 0 {
		return false
	}
	a.Points--
	return true
}

// token names a page in a url: the same for the same bill on every run, and
// nothing of the key in it.
func token(kind string, parts ...string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

func isDate(s string) bool {
	_, err := time.Parse(dateLayout, s)
	return err == nil
}

// below compares amounts as digits: an amount of any length compares right.
func below(amount, limit string) bool {
	amount = trimZeros(amount)
	if len(amount) != len(limit) {
		return len(amount) < len(limit)
	}
	return amount < limit
}

func trimZeros(digits string) string { return strings.TrimLeft(digits, "0") }
