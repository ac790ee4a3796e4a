package translate

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A scanner reads a message in one pass: it checks the JSON and puts the values into the slots of a plan. It accepts
// exactly what checkJSON accepts, and a test compares the two. It reads the structure, text without escapes and whole
// numbers itself. All other values go through package jsontext.
type scanner struct {
	call  *Call
	plan  *plan
	doc   []byte
	raw   string // the bytes of doc
	at    int    // the offset of the next byte
	slots []value

	// unknown has the names without an entry in the objects that are being read, to find duplicates.
	unknown  [maxUnknown]string
	unknowns int
	// The whole document is valid: there were too many names without an entry, so jsontext has looked for duplicates.
	checked bool
}

// maxUnknown limits the comparisons of names.
const maxUnknown = 16

// scan checks a message and puts its values into the slots. isObject is false if the message is another value. After
// a fault the slots and the report are empty.
func (c *Call) scan(p *plan, doc []byte, slots []value) (isObject bool, _ *fault) {
	c.reset(slots)
	if fault := checkDepth(doc, p.table.depth); fault != nil {
		return false, fault
	}
	s := scanner{call: c, plan: p, doc: doc, raw: unsafeString(doc), slots: slots}
	if s.peek() != '{' {
		return false, checkSyntax(doc)
	}
	if s.object(p.root) && s.peek() == 0 && s.at == len(doc) {
		return true, nil
	}
	c.reset(slots)
	return false, findFault(doc)
}

// reset removes what was read into the slots.
func (c *Call) reset(slots []value) {
	c.items, c.overflow = 0, false
	c.trace.reset()
	c.Report.reset()
	clear(slots)
	clear(c.passed)
	c.passed = c.passed[:0]
}

// peek skips white space and returns the byte behind it, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.doc); s.at++ {
		if c := s.doc[s.at]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// object reads an object of the table. Like all methods that read, it returns false if the JSON is not valid.
func (s *scanner) object(n *node) bool {
	s.at++
	if s.peek() == '}' {
		s.at++
		return true
	}
	next, outer := 0, s.unknowns
	for s.member(n, &next, outer) {
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			s.unknowns = outer
			return true
		default:
			return false
		}
	}
	return false
}

// member reads a member of an object. Names are compared after unescaping.
func (s *scanner) member(n *node, next *int, outer int) bool {
	s.peek()
	var e *entry
	// Fast path: fields mostly come in the order of the table, with plain names.
	if *next < len(n.names) && strings.HasPrefix(s.raw[s.at:], n.names[*next].key) {
		e = &n.names[*next]
		*next++
		s.at += len(e.key)
	} else {
		key, name, ok := s.name()
		if !ok {
			return false
		}
		if e = n.find(name, next); e == nil {
			return s.unknownMember(n, key, name, outer)
		}
	}
	if s.slots[e.slot].kind != absent {
		return false // the name appears twice
	}
	return s.put(n, e)
}

// put reads the value of an entry into its slot.
func (s *scanner) put(n *node, e *entry) bool {
	if s.peek() == '{' && e.node != nil {
		s.slots[e.slot].kind = composite
		return s.object(e.node)
	}
	v, ok := s.value()
	if ok && (v.kind == composite || e.node != nil) {
		v = s.structure(n, e, v)
	} else if ok && s.call.trace != nil {
		s.call.trace.read(s.call, s.plan, n, e, "", v)
	}
	s.slots[e.slot] = v
	return ok
}

// name reads a name and the colon. key is the raw name.
func (s *scanner) name() (key, name string, ok bool) {
	if s.peek() != '"' {
		return "", "", false
	}
	begin := s.at
	escaped, ok := s.string()
	key = s.raw[begin:s.at]
	if !ok || s.peek() != ':' {
		return "", "", false
	}
	s.at++
	if escaped {
		return key, value{raw: key, kind: text}.text(), true
	}
	return key, key[1 : len(key)-1], true
}

// unknownMember reads the value of a member without an entry. outer is the number of unknown names of the objects
// around it.
func (s *scanner) unknownMember(n *node, key, name string, outer int) bool {
	switch {
	case s.checked:
	case slices.Contains(s.unknown[outer:s.unknowns], name):
		return false
	case s.unknowns == maxUnknown:
		if s.checked = isStrictJSON(s.doc); !s.checked {
			return false
		}
	default:
		s.unknown[s.unknowns] = name
		s.unknowns++
	}
	v, ok := s.value()
	if !ok {
		return false
	}
	s.call.trace.read(s.call, s.plan, n, nil, name, v)
	if !s.call.rejectLike(s.plan, n, name, v) {
		s.call.handleUnknown(s.plan, n, name, key, v, s.slots)
	}
	return true
}

// value reads a value that the table does not look into.
func (s *scanner) value() (v value, ok bool) {
	c := s.peek()
	begin := s.at
	switch c {
	case '"':
		v.kind = text
		_, ok = s.string()
	case '{', '[':
		v.kind = composite
		ok = s.composite() && s.isStrict(begin)
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
	v.raw = s.raw[begin:s.at]
	return v, ok
}

func (s *scanner) literal(word string) bool {
	ok := strings.HasPrefix(s.raw[s.at:], word)
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
	whole := isDigits(s.raw[begin:s.at])
	for s.at < len(s.doc) && strings.IndexByte("+-.eE0123456789", s.doc[s.at]) >= 0 {
		s.at++
		whole = false
	}
	return whole || s.isStrict(begin)
}

// isStrict reports whether the value from begin to the next byte is valid by the rules of checkJSON.
func (s *scanner) isStrict(begin int) bool { return s.checked || isStrictJSON(s.doc[begin:s.at]) }

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

// string reads a string with its quotes.
func (s *scanner) string() (escaped, ok bool) {
	begin := s.at
	escaped, wide, ok := s.skipString()
	switch {
	case !ok:
	case escaped:
		ok = s.isStrict(begin)
	case wide:
		ok = utf8.ValidString(s.raw[begin:s.at])
	}
	return escaped, ok
}

// skipString finds the end of a string. It reports whether there are escapes and characters that are not ASCII, and
// does not check them.
func (s *scanner) skipString() (escaped, wide, ok bool) {
	for i := s.at + 1; i < len(s.doc); i++ {
		switch c := s.doc[i]; {
		case plain[c]:
		case c >= utf8.RuneSelf:
			wide = true
		case c == '\\':
			escaped = true
			i++
		default:
			s.at = i + 1
			return escaped, wide, c == '"'
		}
	}
	return escaped, wide, false
}

// plain has the bytes that stand for themselves in a string.
var plain = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()
