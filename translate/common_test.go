package translate_test

import (
	"strings"
	"testing"

	"billbridge/translate"
)

// Common rows are in every message that includes them. An overlay can change the common rows, or one of these messages.
func TestCommonRows(t *testing.T) {
	t.Parallel()
	both := `{"rd":"r1","no":"978"}`
	for name, row := range map[string]struct {
		overlays      []string
		reserve, find string
	}{
		"as they are":                           {nil, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"reader":{"id":"r1"},"isbn":"978"}`},
		"changed in all":                        {[]string{"common: {who: [{desk: card, phone: rd, new: true}]}"}, `{"card":"r1","isbn":"978"}`, `{"card":"r1","isbn":"978"}`},
		"changed in one message":                {[]string{"operations: {book.find: {request: [{desk: card, phone: rd, new: true}]}}"}, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"card":"r1","isbn":"978"}`},
		"in one, then in all":                   {[]string{"operations: {book.find: {request: [{desk: card, phone: rd, new: true}]}}", "common: {who: [{desk: id, phone: rd, new: true}]}"}, `{"id":"r1","isbn":"978"}`, `{"id":"r1","isbn":"978"}`},
		"in all and in one, at once":            {[]string{"operations: {book.find: {request: [{desk: card, phone: rd, new: true}]}}\ncommon: {who: [{desk: id, phone: rd, new: true}]}"}, `{"id":"r1","isbn":"978"}`, `{"card":"r1","isbn":"978"}`},
		"removed in all":                        {[]string{"common: {who: [{phone: rd, remove: true}]}"}, `{"isbn":"978"}`, `{"isbn":"978"}`},
		"an operation of an overlay":            {[]string{"operations: {book.move: {new: true, desk: /move, phone: /tel/move, effect: write, request: [{common: who}], reply: []}}"}, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"reader":{"id":"r1"},"isbn":"978"}`},
		"common rows of an overlay":             {[]string{"common: {extra: [{desk: x, default: please, new: true}]}\noperations: {book.find: {request: [{common: extra}]}}"}, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"reader":{"id":"r1"},"isbn":"978","x":"please"}`},
		"included by an overlay, then changed":  {[]string{"operations: {book.find: {request: [{common: more}]}}\ncommon: {more: [{desk: x, default: please, new: true}]}", "common: {more: [{desk: x, default: now}]}"}, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"reader":{"id":"r1"},"isbn":"978","x":"now"}`},
		"included again, which changes nothing": {[]string{"operations: {book.find: {request: [{common: who}]}}"}, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"reader":{"id":"r1"},"isbn":"978"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := compiled(t, library, row.overlays...)
			for _, table := range []*translate.Table{table, written(t, table)} {
				for operation, want := range map[string]string{"book.reserve": row.reserve, "book.find": row.find} {
					call := table.Operation(operation).Translation("phone", "desk").Start()
					got, err := call.Request(nil, []byte(both))
					if err != nil || string(got) != want {
						t.Errorf("%s: %s %v, want %s", operation, got, err, want)
					}
					if strings.Contains(want, "r1") && call.Value("reader") != "r1" {
						t.Errorf("%s: the role is lost", operation)
					}
					call.Release()
				}
			}
		})
	}
}
