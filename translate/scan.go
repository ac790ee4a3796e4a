package translate

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// A scanner reads a message in one pass: it checks the JSON and puts the values into the slots. It accepts exactly what checkJSON
// accepts. It reads the structure, text without escapes and whole numbers itself; package jsontext checks all other values.
type scanner struct {
	call  *Call
	plan  *plan
	doc   []byte
	text  string // the bytes of doc
	at    int    // the offset of the next byte
	slots []value

	// others has the names without an entry, of the objects that are being read, to find duplicates.
	others [maxOthers]string
	count  int
	whole  bool // there are too many others: jsontext checks the whole document at the end, and no single value
}

// maxOthers limits the comparisons of names.
const maxOthers = 16

// scan checks a message and puts its values into the slots, which must be empty. isObject is false if the message is another value.
// After a fault nothing of the message is left in the call.
func (c *Call) scan(p *plan, doc []byte, slots []value) (isObject bool, _ *fault) {
	if fault := checkDepth(doc, p.table.depth); fault != nil {
		return false, fault
	}
	s := scanner{call: c, plan: p, doc: doc, text: unsafeString(doc), slots: slots}
	if s.next() != '{' {
		return false, checkSyntax(doc)
	}
	if s.object(p.root) && s.next() == 0 && s.at == len(doc) && (!s.whole || isStrictJSON(doc)) {
		return true, nil
	}
	c.Report.reset()
	clear(slots)
	clear(c.passed)
	c.passed, c.rejected, c.refusal = c.passed[:0], nil, nil
	return false, findFault(doc)
}

// next skips white space and returns the byte behind it, or 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.doc); s.at++ {
		if c := s.doc[s.at]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// object reads an object of the table. It returns false if it is not valid.
func (s *scanner) object(n *node) bool {
	s.at++
	if s.next() == '}' {
		s.at++
		return true
	}
	next, outer := 0, s.count
	for s.member(n, &next, outer) {
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			s.count = outer
			return true
		default:
			return false
		}
	}
	return false
}

// member reads a member of an object. Names are compared after unescaping.
func (s *scanner) member(n *node, next *int, outer int) bool {
	s.next()
	var e *entry
	// Fast path: fields mostly come in the order of the table, and their names are written without escapes.
	if *next < len(n.names) && strings.HasPrefix(s.text[s.at:], n.names[*next].key) {
		e = &n.names[*next]
		*next++
		s.at += len(e.key)
	} else {
		key, name, ok := s.name()
		if !ok {
			return false
		}
		if e = n.find(name, next); e == nil {
			return s.other(n, key, name, outer)
		}
	}
	if s.slots[e.slot].kind != absent {
		return false // the name appears twice
	}
	if s.next() == '{' && e.node != nil {
		s.slots[e.slot].kind = composite
		return s.object(e.node)
	}
	v, ok := s.value()
	if !ok {
		return false
	}
	s.slots[e.slot] = v
	if v.kind == composite || e.node != nil {
		s.call.checkKind(s.plan, n, e, v)
	}
	return true
}

// name reads a name and the colon. key is the raw name.
func (s *scanner) name() (key, name string, ok bool) {
	if s.next() != '"' {
		return "", "", false
	}
	begin := s.at
	escaped, ok := s.string()
	if !ok {
		return "", "", false
	}
	key = s.text[begin:s.at]
	if name = key[1 : len(key)-1]; escaped {
		name = value{key, text}.text()
	}
	ok = s.next() == ':'
	s.at++
	return key, name, ok
}

// other reads a member without an entry.
func (s *scanner) other(n *node, key, name string, outer int) bool {
	switch {
	case s.whole:
	case s.count == maxOthers:
		s.whole = true
	case slices.Contains(s.others[outer:s.count], name):
		return false
	default:
		s.others[s.count] = name
		s.count++
	}
	s.next()
	v, ok := s.value()
	if ok && !s.call.rejectLike(s.plan, n, name) {
		s.call.handleUnknown(s.plan, n, name, key, v.raw)
	}
	return ok
}

// value reads any value. The table does not look into it.
func (s *scanner) value() (v value, ok bool) {
	begin := s.at
	var c byte
	if begin < len(s.doc) {
		c = s.doc[begin]
	}
	switch c {
	case '"':
		v.kind = text
		_, ok = s.string()
	case '{', '[':
		v.kind = composite
		ok = s.composite() && s.isValid(begin)
	case 'n':
		v.kind = null
		ok = s.literal("null")
	case 't':
		v.kind = boolean
		ok = s.literal("true")
	case 'f':
		v.kind = boolean
		ok = s.literal("false")
	default:
		v.kind = number
		ok = s.number()
	}
	v.raw = s.text[begin:s.at]
	return v, ok
}

// isValid reports whether the value from begin to the next byte is valid by the rules of checkJSON.
func (s *scanner) isValid(begin int) bool { return s.whole || isStrictJSON(s.doc[begin:s.at]) }

func (s *scanner) literal(word string) bool {
	ok := strings.HasPrefix(s.text[s.at:], word)
	if ok {
		s.at += len(word)
	}
	return ok
}

func (s *scanner) number() bool {
	begin := s.at
	for s.at < len(s.doc) && s.doc[s.at]-'0' <= 9 {
		s.at++
	}
	plain := s.at == begin+1 || s.at > begin && s.doc[begin] != '0'
	for s.at < len(s.doc) && strings.IndexByte("+-.eE0123456789", s.doc[s.at]) >= 0 {
		s.at++
		plain = false
	}
	return plain || s.isValid(begin)
}

// composite finds the end of an object or an array. It does not check what is in it.
func (s *scanner) composite() bool {
	for level := 0; s.at < len(s.doc); {
		switch s.doc[s.at] {
		case '"':
			if _, _, ok := s.skipString(); !ok {
				return false
			}
			continue
		case '{', '[':
			level++
		case '}', ']':
			level--
		}
		if s.at++; level == 0 {
			return true
		}
	}
	return false
}

// string reads a string, with its quotes.
func (s *scanner) string() (escaped, ok bool) {
	begin := s.at
	escaped, wide, ok := s.skipString()
	switch {
	case !ok:
	case escaped:
		ok = s.isValid(begin)
	case wide:
		ok = s.whole || utf8.ValidString(s.text[begin:s.at])
	}
	return escaped, ok
}

// skipString finds the end of a string. It does not check escapes and UTF-8, but returns whether there are any.
func (s *scanner) skipString() (escaped, wide, ok bool) {
	doc := s.doc
	for i := s.at + 1; ; {
		for i+8 <= len(doc) {
			found := special(binary.LittleEndian.Uint64(doc[i:]))
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(doc) {
			return escaped, wide, false
		}
		switch c := doc[i]; {
		case c == '"':
			s.at = i + 1
			return escaped, wide, true
		case c == '\\':
			escaped = true
			i += 2
		case c < ' ':
			return escaped, wide, false
		case c >= utf8.RuneSelf:
			wide = true
			for i < len(doc) && doc[i] >= utf8.RuneSelf {
				i++
			}
		default:
			i++
		}
	}
}

// special returns the high bit of the first of eight bytes that is not plain text: a quote, a backslash, a control character or a
// byte that is not ASCII. Bits of later bytes have no meaning.
func special(b uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	return (b | (b - ones*' ') | ((b ^ ones*'"') - ones) | ((b ^ ones*'\\') - ones)) & high
}
