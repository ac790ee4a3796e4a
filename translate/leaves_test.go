package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// A placed is a leaf of a document, found with encoding/json and not with the parser of the package.
type placed struct {
	path, pointer, raw string
	offset             int
}

// placedLeaves returns the leaves of a document in its order. Objects with paths of the table below them are opened.
func placedLeaves(doc []byte, paths []string) []placed {
	switch {
	case len(doc) == 0:
		return nil
	case strict(doc) != nil: // a callback that is not JSON
		return []placed{{"", "", string(doc), 0}}
	}
	raw := bytes.TrimLeft(doc, " \t\r\n")
	if raw[0] != '{' {
		trimmed := bytes.TrimLeft(doc, " \t\r\n")
		return []placed{{"", "", string(bytes.TrimRight(trimmed, " \t\r\n")), len(doc) - len(trimmed)}}
	}
	return placedMembers(placed{}, raw, bytes.IndexByte(doc, '{'), paths)
}

func placedMembers(parent placed, object []byte, at int, paths []string) (list []placed) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		var raw json.RawMessage
		_ = d.Decode(&raw)
		p := placed{strings.TrimPrefix(parent.path+"."+name.(string), "."), parent.pointer + "/" + strings.ReplaceAll(name.(string), "/", "~"), string(raw), at + int(d.InputOffset()) - len(raw)}
		if parent.path == "" && parent.pointer != "" { // below a name that is empty
			p.path = "." + name.(string)
		}
		if raw[0] == '{' && slices.ContainsFunc(paths, func(path string) bool {
			return strings.HasPrefix("/"+strings.ReplaceAll(path, ".", "/"), p.pointer+"/")
		}) {
			list = append(list, placedMembers(p, raw, p.offset, paths)...)
			continue
		}
		list = append(list, p)
	}
	return list
}

// comparablePath returns a path as it can be compared: the package quotes and cuts names of the sender.
func comparablePath(path string) string {
	if utf8.RuneCountInString(path) > 60 || strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError || r == '\\' }) {
		return "(quoted)"
	}
	return path
}

// randomDocument generates a message that begins with begin: fields of the table and others, with values of every kind, in any order.
func randomDocument(begin string, paths []string) *rapid.Generator[[]byte] {
	scalar := rapid.OneOf(rapid.SampledFrom([]string{
		`null`, `""`, `"0"`, `0`, `"00"`, `7`, `"7"`, `007`, `-1`, `1.5`, `1e3`, `true`, `"W"`, `"F"`, `"TALK"`, `"URL"`, `{}`, `[]`, `{"billId":"1"}`, `"B1"`, `"B1"`, `"0000"`, `"\u0041"`, `"한글 \" \\ /"`, ` [ 1 , {"a":2} ] `,
	}), rapid.StringMatching(`"[a-zA-Z0-9-]{0,6}"`))
	name := rapid.OneOf(rapid.SampledFrom(append(slices.Clone(paths), "code", "message", "msg", "data", "bill", "note", "bill.price", "", "a/b~", "APIKEY")), rapid.StringMatching(`[a-z.]{0,5}`))
	return rapid.Custom(func(t *rapid.T) []byte {
		doc := []byte(begin)
		for range rapid.IntRange(0, 12).Draw(t, "fields") {
			path := name.Draw(t, "name")
			value := scalar.Draw(t, "value")
			object := string(doc[1 : len(doc)-1])
			head, rest, nested := strings.Cut(path, ".")
			switch key, _ := json.Marshal(path); {
			case nested && slices.Contains(paths, path) && strings.Contains(object, `"`+head+`":{`):
				inner, _ := json.Marshal(rest)
				object = strings.Replace(object, `"`+head+`":{`, `"`+head+`":{`+string(inner)+":"+value+",", 1)
				object = strings.Replace(object, ",}", "}", 1)
			case nested && slices.Contains(paths, path):
				object += fmt.Sprintf(`,"%s":{"%s":%s}`, head, rest, value)
			default:
				object += "," + string(key) + ":" + value
			}
			doc = []byte("{" + strings.TrimPrefix(object, ",") + "}")
		}
		return doc
	})
}
