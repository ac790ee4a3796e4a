package translate_test

import (
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/google/go-cmp/cmp"
)

// library is a table of another domain: readers reserve books. It uses every key that the billing table uses for the gateway.
const library = `
forms:
  desk:  {code: outcome, text: says, result: card, digits: number}
  phone: {code: rc, text: rt, digits: string, prefix: /tel/}
success: {code: FINE, text: fine}
invalid: UNREADABLE
unknown: {request: drop}
roles:
  reader: {about: who asks, secret: true}
  book:   {about: the book}
  shelf:  {about: where the book stands, public: true, means: [lent, free]}
  fee:    {about: what it costs, public: true, zero_is_a_value: true}
  letter: {about: the address that is notified, unconverted: true}
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

// The package knows nothing of billing: a table of another domain has its own roles, meanings and rules.
func TestTableOfAnotherDomain(t *testing.T) {
	t.Parallel()
	table := compiled(t, library)
	reserve, find := table.Operation("book.reserve"), table.Operation("book.find")
	if value, means := reserve.Sets("shelf"); reserve.Created != "book" || value != "L" || means != "lent" || !find.HasRole(translate.Reply, "shelf", "desk", "phone") {
		t.Errorf("%q %q %q", reserve.Created, value, means)
	}
	for path, form := range map[string]translate.Form{"/tel/x": "phone", "/tel": "desk", "/reserve": "desk", "/telephone/x": "desk"} {
		equal(t, table.FormOf(path), form, path)
	}

	// The prefix of the first form can be longer than that of the other.
	swapped := compiled(t, strings.Replace(library, "digits: number}", "digits: number, prefix: /longer/}", 1))
	for path, form := range map[string]translate.Form{"/longer/x": "desk", "/tel/x": "phone", "/x": "desk"} {
		equal(t, swapped.FormOf(path), form, path)
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
	equal(t, string(call.Replace(nil, "letter", "there")), `{"reader":{"id":"r1","mail":"there"},"isbn":"978"}`)
	if reply, err := call.Reply(nil, 200, []byte(`{"outcome":"NO_BOOK","says":"gone","card":null}`)); err != nil || string(reply) != `{"rc":"NO_BOOK","rt":"gone"}` || !table.Means("desk", call.Code(), translate.NotFound) {
		t.Errorf("%s %v", reply, err)
	}
	if !table.Means("phone", "404", translate.NotFound) || table.Means("desk", "404", translate.NotFound) {
		t.Error("404 is a code of the phone")
	}

	read := find.Translation("desk", "phone").Start()
	defer read.Release()
	composed, err := find.Compose(nil, "desk", map[string]string{"reader": "r1", "book": "978"})
	if err != nil || string(composed) != `{"reader":{"id":"r1"},"isbn":"978"}` {
		t.Fatalf("%s %v", composed, err)
	}
	if _, err := read.Request(nil, composed); err != nil {
		t.Fatal(err)
	}
	reply, err := read.Reply(nil, 200, []byte(`{"no":"978","sh":"F","fee":"0"}`))
	if err != nil || string(reply) != `{"outcome":"FINE","says":"fine","card":{"isbn":"978","shelf":"F","fee":0}}` {
		t.Errorf("%s %v", reply, err)
	}
	if read.ReplyMeaning("shelf") != "free" || read.ReplyValue("fee") != "0" {
		t.Errorf("%q %q", read.ReplyMeaning("shelf"), read.ReplyValue("fee"))
	}
	for _, withoutEnvelope := range []string{`{"no":"979","sh":"F"}`, `{"no":"978","sh":"Q"}`, `{"no":"978"}`} {
		if _, err := read.Reply(nil, 200, []byte(withoutEnvelope)); err == nil {
			t.Errorf("%s is a success", withoutEnvelope)
		}
	}

	out, notice, err := table.Callback().Translate(nil, []byte(`{"reader":"r1","isbn":"978"}`), "desk", "phone")
	if err != nil || string(out) != `{"rd":"r1","no":"978"}` {
		t.Errorf("%s %v", out, err)
	}
	equal(t, notice.Values, map[string][]string{"reader": {"r1"}, "book": {"978"}})
}
