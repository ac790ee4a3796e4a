package translate_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
