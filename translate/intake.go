package translate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding/korean"
)

// Only this file uses package jsontext, whose API may still change.

// checkJSON checks depth, UTF-8, syntax and duplicate names of a message, before anything is read from it. Depth
// comes first and is checked without recursion, since all parsers recurse.
func checkJSON(doc []byte, depth int) *fault {
	if fault := checkDepth(doc, depth); fault != nil {
		return fault
	}
	return checkSyntax(doc)
}

func checkDepth(doc []byte, depth int) *fault {
	if at := tooDeepAt(doc, depth); at >= 0 {
		return &fault{reason: why("nested deeper than %v levels at byte %v", depth, at), at: at}
	}
	return nil
}

// checkSyntax checks UTF-8, syntax and duplicate names.
func checkSyntax(doc []byte) *fault {
	if isStrictJSON(doc) {
		return nil
	}
	return findFault(doc)
}

func isStrictJSON(doc []byte) bool { return jsontext.Value(doc).IsValid() }

// A fault is why a document is refused, and the field and the byte where it was found.
type fault struct {
	field  string
	reason Detail
	at     int
}

// duplicateName is the reason of a fault.
const duplicateName = "the name appears twice"

// findFault reads an invalid document a second time, to find where the mistake is.
func findFault(doc []byte) *fault {
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	_, err := d.ReadValue()
	if err == nil {
		at := int(d.InputOffset())
		return &fault{reason: why("not one JSON document: more follows at byte %v", at), at: at}
	}
	if len(bytes.TrimSpace(doc)) == 0 {
		return &fault{reason: why("empty, but must be a JSON object")}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &fault{reason: why("not JSON")}
	}
	field := quoteName(pathOf(string(syntax.JSONPointer)))
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &fault{field, why(duplicateName), int(syntax.ByteOffset)}
	}
	if isEUCKR(doc) {
		return &fault{field, why("EUC-KR, but must be UTF-8"), int(syntax.ByteOffset)}
	}
	if strings.Contains(fmt.Sprint(syntax.Err), "surrogate pair") {
		return &fault{field, why("half of a character at byte %v", syntax.ByteOffset), int(syntax.ByteOffset)}
	}
	return &fault{field, why("not JSON at byte %v", syntax.ByteOffset), int(syntax.ByteOffset)}
}

// isEUCKR reports whether a text is not UTF-8, but EUC-KR or its extension CP949, as old programs send it.
func isEUCKR(text []byte) bool {
	if utf8.Valid(text) {
		return false
	}
	decoded, _ := korean.EUCKR.NewDecoder().Bytes(text)
	return !bytes.ContainsRune(decoded, utf8.RuneError)
}

// tooDeepAt returns the offset of the first bracket that nests deeper than depth, or -1. doc may be anything, not
// only JSON.
func tooDeepAt(doc []byte, depth int) int {
	// Fast path: nearly all messages have fewer brackets than the allowed levels.
	if bytes.Count(doc, []byte{'{'})+bytes.Count(doc, []byte{'['}) <= depth {
		return -1
	}
	level, quoted := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if level++; level > depth {
				return i
			}
		case c == '}' || c == ']':
			level--
		}
	}
	return -1
}

// maxName is the number of characters of a name of a message in a text.
const maxName = 64

// quoteName returns a name, or a path, of a message for a text: what is not printable is escaped, and a long name is
// cut.
func quoteName(name string) string {
	var out []byte
	for i, length := 0, 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		piece := name[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, name[i])
		case r > 0xffff && !unicode.IsGraphic(r):
			piece = fmt.Sprintf(`\U%08x`, r)
		case !unicode.IsGraphic(r):
			piece = fmt.Sprintf(`\u%04x`, r)
		}
		if length += utf8.RuneCountInString(piece); length > maxName {
			return string(out) + "…"
		}
		out = append(out, piece...)
		i += size
	}
	return string(out)
}

// pathOf returns the path of a JSON pointer.
func pathOf(pointer string) string {
	return strings.NewReplacer("/", ".", "~1", "/", "~0", "~").Replace(strings.TrimPrefix(pointer, "/"))
}

// appendString appends text as a JSON string. Invalid UTF-8 is left out.
func appendString(dst []byte, text string) []byte {
	out, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		out, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(text, ""))
	}
	return out
}

// IsJSON reports whether src has the syntax of JSON. It allows duplicate names and invalid UTF-8. src must not nest
// deeper than the limit of the table, which [Callback.Translate] has checked.
func IsJSON(src []byte) bool {
	return jsontext.Value(src).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// canonicalDepth is the highest value of limits.depth. Canonical does no work on documents that nest deeper.
const canonicalDepth = 1000

// Canonical appends the canonical form of a JSON document to dst: members in the order of RFC 8785, no white space,
// one spelling for each string. Documents that differ only in these have the same canonical form, so a repeated
// callback is recognised by it.
//
// Unlike in RFC 8785 a number keeps its text, since 100 and 1e2 may be two different messages. Canonical returns src
// itself if it is not JSON, has a duplicate name or invalid UTF-8, or nests deeper than 1000 levels.
func Canonical(dst, src []byte) []byte {
	if tooDeepAt(src, canonicalDepth) >= 0 || !jsontext.Value(src).IsValid() {
		return src
	}
	out, err := jsontext.AppendFormat(dst, src, jsontext.ReorderRawObjects(true))
	if err != nil {
		return src
	}
	return out
}
