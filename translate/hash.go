package translate

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// A hashRule says how the hashes of requests are computed, by form.
type hashRule struct {
	Algorithm [2]string `is:"sha256|hmac-sha256"`
	Key       [2]string `is:"first|last"` // with sha256: where the secret is among the parts; "" for nowhere
	Join      [2]string // what is between the parts
	Refuse    string    `is:"a code"` // for a hash that does not verify
}

// An operationHash is the hash of an operation's requests. Its numbers are indexes of rows, and so of slots.
type operationHash struct {
	in    int           // has the hash
	of    [2][]hashPart // what is hashed, by form
	reply int           // repeats the hash in the reply; -1 for none
}

// A hashPart is a field that is hashed.
type hashPart struct {
	slot     int
	optional bool // without it the other parts are hashed; otherwise there is no hash
}

// readHashRule reads the table's `hash`.
func (s *source) readHashRule(n *yaml.Node) {
	r := hashRule{Algorithm: [2]string{"sha256", "sha256"}, Join: [2]string{",", ","}, Refuse: s.table.invalid}
	if n != nil {
		s.decode(n, "hash", &r)
	}
	for f := range r.Algorithm {
		if r.Key[f] != "" && r.Algorithm[f] != "sha256" {
			s.errorf(n, "hash: key is for sha256 only: %s of %s has the secret as its key", r.Algorithm[f], s.forms[f])
		}
	}
	s.table.hash = r
}

// readHash reads the hash of an operation. Its paths are those of the first form that has the operation.
func (s *source) readHash(o *Operation, n *yaml.Node) {
	var k struct {
		In    string     `is:"a path" must:"be"`
		Of    *yaml.Node `must:"be"`
		Reply string     `is:"a path"`
	}
	if n == nil || !s.decode(n, "hash", &k) {
		return
	}
	slotOf := func(m Message, path string) int {
		return slices.IndexFunc(o.rows[m], func(r *row) bool { return cmp.Or(r.Path[0], r.Path[1]) == path })
	}
	find := func(m Message, n *yaml.Node, path string, inOne bool) int {
		slot := slotOf(m, path)
		if slot < 0 {
			s.errorf(n, "hash: the %s of %s has no row with the path %s%s", m, o.Name, path,
				didYouMeanPath(path, o.rows[m], 0))
			return slot
		}
		r, inBoth := o.rows[m][slot], o.paths[0] != "" && o.paths[1] != ""
		if r.Role.Unconverted {
			s.errorf(n, "hash: %s has role: %s, and the gateway may replace it", path, r.Role.name)
		}
		if r.items != nil || inBoth && r.onlyForm() >= 0 && !inOne {
			s.errorf(n, "hash: %s cannot be a list, and needs a path in each form of the operation", path)
		}
		return slot
	}
	h := &operationHash{in: find(Request, child(n, "in"), k.In, false), reply: -1}
	if k.Reply != "" {
		h.reply = find(Reply, child(n, "reply"), k.Reply, true)
	}
	for name := range Members(k.Of) {
		s.form(name, "of")
	}
	for f, name := range s.forms {
		list := k.Of
		if list.Kind == yaml.MappingNode {
			list = child(list, name)
		}
		for _, item := range s.items(list, "of") {
			path, optional := strings.CutSuffix(s.str(item, "of"), "?")
			h.of[f] = append(h.of[f], hashPart{find(Request, item, path, optional), optional})
		}
		if o.paths[f] != "" && len(h.of[f]) == 0 {
			s.errorf(n, "hash: of is missing for %s", name)
		}
	}
	o.hash = h
}

// HasHash reports whether requests of the operation have a hash, by the table.
func (o *Operation) HasHash() bool { return o.hash != nil }

// HashNeedsSecret reports whether hashes of the form are computed with a secret of the partner.
func (t *Table) HashNeedsSecret(f Form) bool {
	form := t.formIndex(f)
	return t.hash.Algorithm[form] != "sha256" || t.hash.Key[form] != ""
}

// A Signature is the hash of a request.
type Signature struct {
	Text    string // what is hashed, without the secret
	Hash    string // in hexadecimal digits, lower-case
	Carried string // the hash that the request has; "" for none
	Field   string // its path
}

// Sign returns the hash of the request that was read, by the rule of the client's form. The operation must have a
// hash. The error is a [*Refusal]: a part is missing, or is no single value.
func (c *Call) Sign(secret string) (Signature, error) {
	p, h := c.translation.request, c.translation.operation.hash
	parts, refusal := h.parts(p, p.from, func(slot int) value { return c.request[slot] })
	if refusal != nil {
		return Signature{}, refusal
	}
	s := Signature{Text: strings.Join(parts, p.table.hash.Join[p.from]), Field: p.fields[h.in].source}
	s.Hash = p.table.sum(p.from, parts, secret)
	if v := c.request[h.in]; v.kind == text {
		s.Carried = v.text()
	}
	return s, nil
}

// VerifyHash checks the hash of the request that was read. The error is a [*Refusal] with the code of the table.
func (c *Call) VerifyHash(secret string) error {
	s, err := c.Sign(secret)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(s.Hash), []byte(s.Carried)) { // in constant time
		return &Refusal{c.translation.request.table.hash.Refuse, s.Field, why("is not the hash of the request")}
	}
	return nil
}

// RenewHash returns the translated request with the hash that the upstream's form has for it, by its own rule. A reply
// that repeats this hash gets the one that the client has sent. The client's hash must have been verified.
func (c *Call) RenewHash(translated []byte, secret string) ([]byte, error) {
	p, h, doc := c.translation.request, c.translation.operation.hash, gjson.ParseBytes(translated)
	parts, refusal := h.parts(p, p.to, func(slot int) value { return lookup(doc, p.fields[slot].target) })
	if refusal != nil {
		return nil, refusal
	}
	c.renewed = p.table.sum(p.to, parts, secret)
	return c.rewrite(nil, -1, ""), nil
}

// parts returns the contents of the fields that are hashed in a form.
func (h *operationHash) parts(p *plan, form int, at func(slot int) value) (parts []string, _ *Refusal) {
	for _, part := range h.of[form] {
		reason := Detail{}
		switch v := at(part.slot); {
		case v.kind == composite:
			reason = why(wantSingle, v.typeName())
		case p.fields[part.slot].digits && !v.countsAsAbsent() && !allDigits(v.text()):
			reason = why(wantDigits, v.notDigits())
		case !v.countsAsAbsent():
			parts = append(parts, v.text())
		case !part.optional:
			reason = why("is missing")
		}
		if reason.Format != "" {
			return nil, p.table.refusal(p.fields[part.slot].source, reason)
		}
	}
	return parts, nil
}

// sum returns the hash of parts by the rule of a form.
func (t *Table) sum(form int, parts []string, secret string) string {
	switch t.hash.Key[form] {
	case "first":
		parts = slices.Concat([]string{secret}, parts)
	case "last":
		parts = slices.Concat(parts, []string{secret})
	}
	sum := sha256.New()
	if t.hash.Algorithm[form] == "hmac-sha256" {
		sum = hmac.New(sha256.New, []byte(secret))
	}
	_, _ = sum.Write([]byte(strings.Join(parts, t.hash.Join[form]))) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil))
}

// sentHash puts the hash that the client has sent in place of the renewed one into a reply. It returns src, or the
// changed bytes if the reply goes to the client as it is.
func (c *Call) sentHash(src []byte) []byte {
	h := c.translation.operation.hash
	if h.reply < 0 || c.reply[h.reply].kind != text || c.reply[h.reply].text() != c.renewed {
		return src
	}
	v := &c.reply[h.reply]
	if begin := offsetIn(src, *v); c.translation.SameForm() {
		return slices.Concat(src[:begin], []byte(c.request[h.in].raw), src[begin+len(v.raw):])
	}
	v.raw = c.request[h.in].raw
	return src
}
