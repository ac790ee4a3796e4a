package translate_test

import (
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/google/go-cmp/cmp"
)

// library is a table of another domain: readers reserve books. It uses every word that the gateway asks the billing table by.
const library = `
forms:
  desk:  {code: outcome, text: says, result: card, digits: number}
  phone: {code: rc, text: rt, digits: string, prefix: /tel/}
success: {code: FINE, text: fine}
invalid: UNREADABLE
roles:
  reader: {about: who asks, secret: true}
  book:   {about: the book}
  shelf:  {about: where the book stands, public: true, means: [lent, free]}
  fee:    {about: what it costs, public: true, zero_is_a_value: true}
  letter: {about: the address that is told, unconverted: true}
catalogue:
  - FINE
  - {code: UNREADABLE, means: malformed}
  - {code: NO_BOOK, means: not_found}
  - {code: NO_READER, means: caller_refused}
  - {code: "404", form: phone, means: not_found}
common:
  who:
    - {desk: reader.id, phone: rd, required: true, role: reader, about: card number}
operations:
  book.reserve:
    desk: /reserve
    phone: /tel/reserve
    effect: write
    creates: book
    sets: {shelf: L}
    request:
      - {common: who}
      - {desk: isbn, phone: no, role: book, about: number of the book}
      - {desk: reader.mail, phone: mail, role: letter, about: address}
    reply:
      - {desk: isbn, phone: no, must_equal_request: isbn, about: number of the book}
  book.find:
    desk: /find
    phone: /tel/find
    effect: read
    no_envelope: phone
    request:
      - {common: who}
      - {desk: isbn, phone: no, role: book, about: number of the book}
    reply:
      - {desk: isbn, phone: no, must_equal_request: isbn, about: number of the book}
      - {desk: shelf, phone: sh, role: shelf, means: {L: lent, F: free}, about: where it stands}
      - {desk: fee, phone: fee, as: digits, role: fee, about: what it costs}
callbacks:
  book.back:
    method: POST
    identified_by: [reader, book]
    request:
      - {desk: reader, phone: rd, role: reader, about: card number}
      - {desk: isbn, phone: no, role: book, about: number of the book}
    answer: {desk: '{"outcome":"FINE"}', phone: '{"rc":"FINE"}'}
`

// The engine knows nothing of billing: a table of another domain has roles, meanings and rules of its own, and both directions.
func TestAnotherDomain(t *testing.T) {
	t.Parallel()
	table, err := translate.Compile(16, translate.File{Name: "library.yaml", Data: []byte(library)})
	if err != nil {
		t.Fatal(err)
	}
	reserve, find := table.Operation("book.reserve"), table.Operation("book.find")
	if value, means := reserve.Sets("shelf"); reserve.Created != "book" || value != "L" || means != "lent" || !find.HasRole(translate.Reply, "shelf", "desk", "phone") {
		t.Errorf("%q %q %q", reserve.Created, value, means)
	}
	for path, form := range map[string]translate.Form{"/tel/x": "phone", "/tel": "desk", "/reserve": "desk", "/telephone/x": "desk"} {
		if got := table.FormOf(path); got != form {
			t.Errorf("%s belongs to %s", path, got)
		}
	}

	call := reserve.Translation("phone", "desk").Start()
	defer call.Release()
	request, err := call.Request(nil, []byte(`{"rd":"r1","no":"978","mail":"here"}`))
	if err != nil || string(request) != `{"reader":{"id":"r1","mail":"here"},"isbn":"978"}` {
		t.Errorf("%s %v", request, err)
	}
	if got := []string{call.Value("reader"), call.Value("book"), call.Value("shelf"), call.Value("bill")}; cmp.Diff([]string{"r1", "978", "", ""}, got) != "" {
		t.Errorf("%q", got)
	}
	if got := string(call.Replace(nil, "letter", "there")); got != `{"reader":{"id":"r1","mail":"there"},"isbn":"978"}` {
		t.Error(got)
	}
	if reply, err := call.Reply(nil, 200, []byte(`{"outcome":"NO_BOOK","says":"gone","card":null}`)); err != nil || string(reply) != `{"rc":"NO_BOOK","rt":"gone"}` || !table.Means("desk", call.Code(), translate.NotFound) {
		t.Errorf("%s %v", reply, err)
	}
	if !table.Means("phone", "404", translate.NotFound) || table.Means("desk", "404", translate.NotFound) {
		t.Error("404 is a code of the phone")
	}

	read := find.Translation("desk", "phone").Start()
	defer read.Release()
	asked, err := find.Compose(nil, "desk", map[string]string{"reader": "r1", "book": "978"})
	if err != nil || string(asked) != `{"reader":{"id":"r1"},"isbn":"978"}` {
		t.Fatalf("%s %v", asked, err)
	}
	if _, err := read.Request(nil, asked); err != nil {
		t.Fatal(err)
	}
	reply, err := read.Reply(nil, 200, []byte(`{"no":"978","sh":"F","fee":"0"}`))
	if err != nil || string(reply) != `{"outcome":"FINE","says":"fine","card":{"isbn":"978","shelf":"F","fee":0}}` {
		t.Errorf("%s %v", reply, err)
	}
	if read.ReplyMeaning("shelf") != "free" || read.ReplyValue("fee") != "0" {
		t.Errorf("%q %q", read.ReplyMeaning("shelf"), read.ReplyValue("fee"))
	}
	for _, bare := range []string{`{"no":"979","sh":"F"}`, `{"no":"978","sh":"Q"}`, `{"no":"978"}`} {
		if _, err := read.Reply(nil, 200, []byte(bare)); err == nil {
			t.Errorf("%s is a success", bare)
		}
	}

	out, notice, err := table.Callback().Translate(nil, []byte(`{"reader":"r1","isbn":"978"}`), "desk", "phone")
	if err != nil || string(out) != `{"rd":"r1","no":"978"}` {
		t.Errorf("%s %v", out, err)
	}
	if diff := cmp.Diff(map[string][]string{"reader": {"r1"}, "book": {"978"}}, notice.Values); diff != "" {
		t.Error(diff)
	}
}

// Common rows stand in every message that has them, whatever an overlay lays over them or over one of these messages.
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
		"included again, which changes nothing": {[]string{"operations: {book.find: {request: [{common: who}]}}"}, `{"reader":{"id":"r1"},"isbn":"978"}`, `{"reader":{"id":"r1"},"isbn":"978"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var overlays []translate.File
			for i, text := range row.overlays {
				overlays = append(overlays, translate.File{Name: strings.Repeat("m", i+1) + ".yaml", Data: []byte(text)})
			}
			table, err := translate.Compile(16, translate.File{Name: "library.yaml", Data: []byte(library)}, overlays...)
			if err != nil {
				t.Fatal(err)
			}
			written, err := table.YAML()
			if err != nil {
				t.Fatal(err)
			}
			again, err := translate.Compile(16, translate.File{Name: "written.yaml", Data: written})
			if err != nil {
				t.Fatalf("the written table: %v\n%s", err, written)
			}
			for _, table := range []*translate.Table{table, again} {
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
