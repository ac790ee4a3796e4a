package translate

import (
	"fmt"
	"unsafe"
)

// What a request says to the gateway, by the roles of the table's rows. Each is text: of a string its content, of
// another single value its raw text, and "" where the request has nothing there, null, an object or an array. It is
// valid until Release and as long as the request's bytes are.

// Partner is the key that names who calls.
func (c *Call) Partner() string { return c.named(partnerRole) }

// Bill is the bill that the request is about.
func (c *Call) Bill() string { return c.named(billRole) }

// Merchant is the partner's user and store that the request is for.
func (c *Call) Merchant() (member, merchant string) {
	return c.named(memberRole), c.named(merchantRole)
}

// Expiry is the day to which the bill is valid, as the request spells it.
func (c *Call) Expiry() string { return c.named(expiryRole) }

// Amount is what the request wants charged.
func (c *Call) Amount() string { return c.named(amountRole) }

func (c *Call) named(role string) string {
	slot, ok := c.translation.request.roles[role]
	if !ok || c.request[slot].nothing() || c.request[slot].kind == composite {
		return ""
	}
	return c.request[slot].text()
}

// CallbackAddress is the address that the request wants notified, and the path of its field. ok is false where it
// names none: the field is missing, null, empty or not a string.
func (c *Call) CallbackAddress() (address, field string, ok bool) {
	slot, ok := c.addressed()
	if !ok {
		return "", "", false
	}
	p := c.translation.request
	return c.request[slot].text(), p.rows[slot].path[p.from], true
}

// addressed is the slot of the callback address, where the request has one.
func (c *Call) addressed() (slot int, ok bool) {
	slot, ok = c.translation.request.roles[callbackRole]
	return slot, ok && c.request[slot].kind == text && !c.request[slot].nothing()
}

// SwapCallbackURL appends the request to dst as Request made it, but with address where its callback address stands; a
// request without one, as it is. Between equal forms every other byte is the client's. Request must have come
// first, and must not have refused; else nothing is appended.
func (c *Call) SwapCallbackURL(dst []byte, address string) []byte {
	if c.src == nil {
		return dst
	}
	p := c.translation.request
	slot, ok := c.addressed()
	if c.translation.SameForm() {
		if !ok {
			return append(dst, c.src...)
		}
		begin := c.offset(c.request[slot])
		dst = appendString(append(dst, c.src[:begin]...), address)
		return append(dst, c.src[begin+len(c.request[slot].raw):]...)
	}
	report := c.Report // what Request told of the rest holds
	c.Report = Report{}
	if ok {
		// The slot is put back: the reply may echo what the client sent.
		defer func(own value) { c.request[slot] = own }(c.request[slot])
		c.request[slot].raw = string(appendString(nil, address))
	}
	dst, _ = c.emit(p, append(dst, '{'), c.request)
	c.Report = report
	return append(dst, '}')
}

// offset is where in the request a value of it begins. The raw text of a value is part of the request's bytes, so
// its place is exact where a search could find another of the same spelling.
func (c *Call) offset(v value) int {
	return int(uintptr(unsafe.Pointer(unsafe.StringData(v.raw))) - uintptr(unsafe.Pointer(unsafe.SliceData(c.src))))
}

// Said is what a request says by the roles of the table's rows. What is empty is left out.
type Said struct{ Partner, Member, Merchant, Bill string }

// Compose appends a request of the operation in a form, as a partner would make it that says so and nothing else. It is
// for what the gateway asks of itself. It is an error if one of the forms lacks the operation.
func (o *Operation) Compose(dst []byte, f Form, said Said) ([]byte, error) {
	to := o.table.index(f)
	if to < 0 || o.translations[1-to][to] == nil {
		return nil, fmt.Errorf("%s cannot be composed in %s: both forms must have it", o.Name, f)
	}
	c := o.translations[1-to][to].Start()
	defer c.Release()
	p := c.translation.request
	clear(c.request)
	for role, word := range map[string]string{partnerRole: said.Partner, memberRole: said.Member, merchantRole: said.Merchant, billRole: said.Bill} {
		if slot, ok := p.roles[role]; ok && word != "" {
			c.request[slot] = value{string(appendString(nil, word)), text}
		}
	}
	dst, _ = c.emit(p, append(dst, '{'), c.request)
	return append(dst, '}'), nil
}

// ShownAmount is the amount that the reply shows, in its digits, "" where it shows none. It is valid as State is.
func (c *Call) ShownAmount() string {
	slot, ok := c.translation.reply.roles[amountRole]
	if !ok || c.reply[slot].nothing() || c.reply[slot].kind == composite {
		return ""
	}
	return c.reply[slot].text()
}

// State is what the reply says has become of the bill, "" where it does not. It is valid until Release and as long as
// the reply's bytes are.
func (c *Call) State() string {
	slot, ok := c.translation.reply.roles[stateRole]
	if !ok || c.reply[slot].kind != text {
		return ""
	}
	return c.reply[slot].text()
}
