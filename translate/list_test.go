package translate_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// orders is a table with lists: of objects, of objects in objects, of texts, and of texts in one form and objects in the other.
const orders = `
forms:
  old: {code: rc, text: rt, digits: string}
  new: {code: code, text: text, result: data, digits: number}
success: {code: "00", text: fine}
invalid: BAD
roles:
  partner: {about: who asks, secret: true}
  order:   {about: the order}
  word:    {about: a code, public: true, many: true}
catalogue: ["00", BAD, {code: SIZE, means: malformed}]
operations:
  order.add:
    old: /old/add
    new: /new/add
    effect: write
    request: &rows
      - {old: key, new: key, role: partner}
      - {old: no, new: order.no, role: order}
      - old: rows
        new: order.lines
        each:
          - {old: nr, new: number, as: digits, min: 1, max: 99, refuse: SIZE, malformed: SIZE}
          - {old: what, new: item.name, required: true}
          - {old: size, new: item.size, values: [{old: "1", new: S}, {old: "2", new: L}]}
          - {old: gift, loss: refuse}
          - {old: note, loss: drop}
          - {new: unit, default: piece, loss: refuse}
          - old: subs
            new: parts
            each:
              - {old: n, new: count, as: digits}
      - {old: tags, new: tags, list: true, max: 5}
      - {old: nums, new: numbers, list: true, as: digits}
      - {old: phones, new: recipients, each: {new: phone}}
    reply:
      - {old: no, new: no, must_equal_request: no}
      - old: rows
        new: lines
        each:
          - {old: nr, new: number, as: digits}
          - {old: id, new: id}
          - {new: extra, loss: drop}
      - {old: nums, new: numbers, list: true, as: digits, optional: true}
callbacks:
  order.done:
    method: POST
    identified_by: [partner, order]
    request:
      - {old: key, new: key, role: partner}
      - {old: no, new: no, role: order}
      - old: rows
        new: lines
        each:
          - {old: nr, new: number, as: digits}
          - {old: id, new: ident, loss: null}
    answer: {old: '{"rc":"00"}', new: '{"code":"00"}'}
`

func orderTable(t testing.TB, overlays ...string) *translate.Table {
	t.Helper()
	text := strings.ReplaceAll(strings.ReplaceAll(orders, " &rows", ""), ", loss: null", "")
	return compiled(t, text, overlays...)
}

// A list is translated item by item, in both directions.
func TestLists(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ from, in, out string }{
		{
			"old", `{"rows":[{"nr":"1","what":"a","size":"2"},{"nr":"12","what":"b"}],"tags":["x",""],"nums":["7","123456789012345678901"],"phones":["010","011"]}`,
			`{"order":{"lines":[{"number":1,"item":{"name":"a","size":"L"},"unit":"piece"},{"number":12,"item":{"name":"b"},"unit":"piece"}]},"tags":["x",""],"numbers":[7,123456789012345678901],"recipients":[{"phone":"010"},{"phone":"011"}]}`,
		},
		{"old", `{"rows":[],"tags":[],"phones":[]}`, `{"order":{"lines":[]},"tags":[],"recipients":[]}`},
		{"old", `{"rows":null,"phones":[null]}`, `{"order":{"lines":null},"recipients":[{"phone":null}]}`},
		{
			"old", `{ "rows" : [ { "subs" : [ { "n" : "1" } , { "n" : "2" } ] , "what":"x" } , { "subs":[] , "what":"y"} ] }`,
			`{"order":{"lines":[{"item":{"name":"x"},"unit":"piece","parts":[{"count":1},{"count":2}]},{"item":{"name":"y"},"unit":"piece","parts":[]}]}}`,
		},
		{
			"new", `{"order":{"lines":[{"unit":"piece","number":1,"item":{"size":"S","name":"a"},"parts":[{"count":3}]}]},"recipients":[{"phone":"010"}],"numbers":[0]}`,
			`{"rows":[{"nr":"1","what":"a","size":"1","subs":[{"n":"3"}]}],"nums":["0"],"phones":["010"]}`,
		},
	} {
		c := orderTable(t).Operation("order.add").Translation(translate.Form(row.from), map[string]translate.Form{"old": "new", "new": "old"}[row.from])
		out, err := c.Start().Request(nil, []byte(row.in))
		if err != nil || string(out) != row.out {
			t.Errorf("%s\nbecame %s, %v\nwant   %s", row.in, out, err, row.out)
		}
	}
}

// What is wrong in an item refuses a request, with the place of the item.
func TestListsInRefusals(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"x",`, 10_000) + `"x"`
	for _, row := range []struct{ from, in, want string }{
		{"old", `{"rows":{}}`, `BAD rows: has the wrong type: want an array, got an object`},
		{"old", `{"rows":"x"}`, `BAD rows: has the wrong type: want an array, got text`},
		{"old", `{"rows":[{"what":"a"},7]}`, `BAD rows[1]: has the wrong type: want an object, got a number`},
		{"old", `{"rows":[{"what":"a"},null]}`, `BAD rows[1]: has the wrong type: want an object, got null`},
		{"old", `{"rows":[{"what":"a","nr":"1"},{"what":"a","nr":"01"}]}`, `SIZE rows[1].nr: has the wrong type: want a whole number in digits, got text with a leading zero`},
		{"old", `{"rows":[{"what":"a","size":"3"}]}`, `BAD rows[0].size: has a value without a counterpart in new`},
		{"old", `{"rows":[{"what":"a"},{"what":"a"},{"what":"a","gift":true}]}`, `BAD rows[2].gift: new has no place for it`},
		{"old", `{"rows":[{"what":"a","What":"b"}]}`, `BAD rows[0].What: differs from what in case only`},
		{"old", `{"rows":[{"what":"a","other":"b"}]}`, `BAD rows[0].other: is not a field of this operation`},
		{"old", `{"rows":[{"what":["a"]}]}`, `BAD rows[0].what: has the wrong type: want a single value, got an array`},
		{"old", `{"rows":[{"what":"a","subs":[{"n":"1"},{"n":1.5}]}]}`, `BAD rows[0].subs[1].n: has the wrong type: want a whole number in digits, got a number with a fraction`},
		{"old", `{"rows":[{"what":"a","what":"b"}]}`, `BAD rows.0.what: the name appears twice`},
		{"old", `{"tags":["x",["y"]]}`, `BAD tags[1]: has the wrong type: want a single value, got an array`},
		{"old", `{"nums":["1","x"]}`, `BAD nums[1]: has the wrong type: want a whole number in digits, got text with other characters than digits`},
		{"old", `{"phones":["1",{}]}`, `BAD phones[1]: has the wrong type: want a single value, got an object`},
		{"old", `{"tags":[` + many + `]}`, `BAD tags[10000]: the lists of the message have more than 10000 items`},
		{"old", `{"rows":[{"subs":[` + strings.Repeat(`{},`, 9_999) + `{}]}]}`, `BAD rows[0].subs[9999]: the lists of the message have more than 10000 items`},
		{"new", `{"recipients":[{"phone":"1"},{}]}`, `BAD recipients[1].phone: is missing`},
		{"new", `{"recipients":[{"phone":"1","name":"x"}]}`, `BAD recipients[0].name: is not a field of this operation`},
		{"new", `{"recipients":["1"]}`, `BAD recipients[0]: has the wrong type: want an object, got text`},
		{"new", `{"order":{"lines":[{"item":{"name":"a"}},{"item":"b"}]}}`, `BAD order.lines[1].item: has the wrong type: want an object, got text`},
		{"new", `{"order":{"lines":[{"unit":"piece"},{"unit":"box"}]}}`, `BAD order.lines[1].unit: old has no place for it: there it is always piece`},
	} {
		c := orderTable(t).Operation("order.add").Translation(translate.Form(row.from), map[string]translate.Form{"old": "new", "new": "old"}[row.from])
		out, err := c.Start().Request(nil, []byte(row.in))
		if err == nil || err.Error() != row.want || out != nil {
			t.Errorf("%.100s: %v, %s\nwant %s", row.in, err, out, row.want)
			continue
		}
		if refusal := err.(*translate.Refusal); !strings.Contains(row.want, "not a field") && !strings.Contains(row.want, "case") && !c.HasRequestField(strings.ReplaceAll(refusal.Field, ".0.", "[0].")) {
			t.Errorf("%s is no field of the request", refusal.Field)
		}
		checkExplained(t, c.ExplainRequest([]byte(row.in)), nil, err)
	}
	// Bounds are checked in items, also between equal forms. Names that differ in case only are refused there too.
	enforced := orderTable(t, "bounds: enforce").Operation("order.add").Translation("old", "old")
	for in, want := range map[string]string{
		`{"rows":[{"what":"a"},{"nr":"1"}]}`:             "BAD rows[1].what: is missing",
		`{"rows":[{"what":"a","nr":"100"}]}`:             "SIZE rows[0].nr: must be at most 99",
		`{"tags":["12345","123456"]}`:                    "BAD tags[1]: has 6 characters, at most 5 are allowed",
		`{"rows":[{"what":"a"},{"what":"b","NR":"1"}]}`:  "SIZE rows[1].NR: differs from nr in case only",
		`{"rows":[{"what":"a","other":1},{"what":"b"}]}`: "",
	} {
		out, err := enforced.Start().Request(nil, []byte(in))
		if want == "" && (err != nil || string(out) != in) || want != "" && fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// A list of one form is dropped or refused in the other form, and passes between equal forms.
func TestListOfOneForm(t *testing.T) {
	t.Parallel()
	text := strings.Replace(values, "invalid: BAD", "invalid: BAD\nbounds: enforce", 1)
	text = strings.ReplaceAll(text, "ROWS", "[{new: cars, list: true, loss: drop, optional: true}, {new: x, loss: drop}]")
	kept := strings.Replace(text, "loss: drop", "loss: refuse, required: true", 1)
	for _, row := range []struct{ table, to, in, want string }{
		{text, "new", `{"cars":[{"plate":"A"},[1]]}`, `{"cars":[{"plate":"A"},[1]]}`},
		{text, "new", `{"x":[1]}`, `BAD x: has the wrong type: want a single value, got an array`},
		{text, "old", `{"cars":[{"plate":"A"}]}`, `{}`},
		{text, "old", `{"cars":{"plate":"A"}}`, `BAD cars: has the wrong type: want an array, got an object`},
		{kept, "new", `{"cars":[]}`, `{"cars":[]}`},
		{kept, "new", `{}`, `BAD cars: is missing`},
		{kept, "old", `{"cars":[{"plate":"A"}]}`, `BAD cars: old has no place for it`},
	} {
		out, err := compiled(t, row.table).Operation("put").Translation("new", translate.Form(row.to)).Start().Request(nil, []byte(row.in))
		if err != nil {
			out = []byte(err.Error())
		}
		equal(t, string(out), row.want)
	}
	equal(t, string(compiled(t, text).Operation("put").Translation("new", "new").Example(translate.Request)), `{"cars":[],"x":"x"}`)
	call := compiled(t, text).Operation("put").Translation("old", "new").Start()
	_, err := call.Request(nil, []byte(`{}`))
	must(t, err)
	out, err := call.Reply(nil, 200, []byte(`{"code":"00","text":"x","cars":[{"plate":"A"}]}`))
	must(t, err)
	equal(t, string(out)+strings.Join(call.Report.Dropped, ""), `{"rc":"00","rt":"x"}cars`)
}

// Each form has its own longest text. A translated request keeps to both.
func TestMaxOfEachForm(t *testing.T) {
	t.Parallel()
	text := strings.Replace(values, "invalid: BAD", "invalid: BAD\nbounds: enforce", 1)
	text = strings.ReplaceAll(text, "request: ROWS", "request: [{old: a, new: a, max: {old: 2, new: 4}}, {old: n, new: n, as: digits, max: {old: 9}}]")
	table := compiled(t, strings.ReplaceAll(text, "ROWS", "[]"))
	for _, row := range []struct{ from, to, in, want string }{
		{"new", "new", `{"a":"1234"}`, `{"a":"1234"}`},
		{"new", "new", `{"a":"12345"}`, `BAD a: has 5 characters, at most 4 are allowed`},
		{"new", "old", `{"a":"123"}`, `BAD a: has 3 characters, at most 2 are allowed`},
		{"old", "new", `{"a":"12"}`, `{"a":"12"}`},
		{"old", "old", `{"a":"123"}`, `BAD a: has 3 characters, at most 2 are allowed`},
		{"new", "new", `{"n":10}`, `{"n":10}`},
		{"new", "old", `{"n":10}`, `BAD n: must be at most 9`},
	} {
		call := table.Operation("put").Translation(translate.Form(row.from), translate.Form(row.to)).Start()
		out, err := call.Request(nil, []byte(row.in))
		if err != nil {
			out = []byte(err.Error())
		}
		equal(t, string(out), row.want)
	}
}

// What a reply has in an item that does not fit passes and is counted, with the place of the item.
func TestListsInReplies(t *testing.T) {
	t.Parallel()
	translation := orderTable(t).Operation("order.add").Translation("old", "new")
	request := []byte(`{"no":"1","rows":[]}`)
	for _, row := range []struct{ in, out, dropped, mismatched, unknown string }{
		{`[{"number":1,"id":"a"},{"number":2,"id":"b"}]`, `[{"nr":"1","id":"a"},{"nr":"2","id":"b"}]`, "", "", ""},
		{`[{"number":1.5,"id":3,"extra":0},{"number":"2","other":1,"extra":0}]`, `[{"nr":1.5,"id":"3"},{"nr":"2"}]`, "lines[0].extra lines[1].extra", "lines[0].number lines[1].id", "lines[1].other"},
		{`[7,null,{"number":3,"id":[1]}]`, `[7,null,{"nr":"3","id":[1]}]`, "", "lines[0] lines[1] lines[2].id", ""},
		{`{"a":1}`, `{"a":1}`, "", "lines", ""},
		{`null`, `null`, "", "lines", ""},
		{`[]`, `[]`, "", "", ""},
	} {
		call := translation.Start()
		_, err := call.Request(nil, request)
		must(t, err)
		in := `{"code":"00","text":"ok","data":{"no":"1","lines":` + row.in + `}}`
		out, err := call.Reply(nil, 200, []byte(in))
		if want := `{"rc":"00","rt":"ok","no":"1","rows":` + row.out + `}`; err != nil || string(out) != want {
			t.Errorf("%s\nbecame %s %v\nwant   %s", in, out, err, want)
		}
		r := call.Report
		for i, got := range [][]string{r.Dropped, r.Mismatched, r.UnknownNames} {
			equal(t, strings.Join(got, " "), []string{row.dropped, row.mismatched, row.unknown}[i], in)
		}
		_, paths := translation.ReportPaths()
		for _, path := range slices.Concat(r.Dropped, r.Mismatched) {
			known := slices.Concat(paths.Dropped, paths.Mismatched)
			if path := translate.PathInTable(path); !slices.Contains(known, path) {
				t.Errorf("%s is not one of the paths %q", path, known)
			}
		}
		checkExplained(t, translation.ExplainReply(request, 200, []byte(in)), out, nil)
	}
	call := translation.Start()
	_, err := call.Request(nil, request)
	must(t, err)
	_, err = call.Reply(nil, 200, []byte(`{"code":"00","text":"ok","data":{"no":"1","lines":[`+strings.Repeat("{},", 10_000)+`{}]}}`))
	var unusable *translate.UnusableReply
	if !errors.As(err, &unusable) || unusable.Reason != "the lists of the message have more than 10000 items" {
		t.Errorf("%v", err)
	}
	call = translation.Start()
	_, err = call.Request(nil, request)
	must(t, err)
	if _, err = call.Reply(nil, 200, []byte(`{"code":"00","text":"ok","data":{"no":"1","lines":[`+strings.Repeat(`{"number":"x"},`, 9_999)+`{}]}}`)); err != nil || len(call.Report.Mismatched) > 100 {
		t.Errorf("%v, and %d fields are reported", err, len(call.Report.Mismatched))
	}
}

// A field without a row passes into the same item.
func TestListsPassUnknownFields(t *testing.T) {
	t.Parallel()
	table := orderTable(t, "unknown: {request: pass, reply: pass}")
	in := `{"x":1,"rows":[{"what":"a","x":[2]},{"x":3,"subs":[{"n":"1","y":4},{"z":5}],"w":6}],"order":{}}`
	want := `{"order":{"lines":[{"item":{"name":"a"},"unit":"piece","x":[2]},{"unit":"piece","parts":[{"count":1,"y":4},{"z":5}],"x":3,"w":6}]},"x":1}`
	out, err := table.Operation("order.add").Translation("old", "new").Start().Request(nil, []byte(strings.Replace(in, `,"order":{}`, "", 1)))
	if err != nil || string(out) != want {
		t.Errorf("%s %v\nwant %s", out, err, want)
	}
	out, err = table.Operation("order.add").Translation("new", "old").Start().Request(nil, []byte(`{"order":{"lines":[]},"recipients":[{"phone":"1","x":2},{"phone":"3"}],"y":5}`))
	if want = `{"rows":[],"phones":["1","3"],"y":5}`; err != nil || string(out) != want { // a list of texts has no room for it
		t.Errorf("%s %v\nwant %s", out, err, want)
	}
	if _, err = table.Operation("order.add").Translation("old", "new").Start().Request(nil, []byte(`{"rows":[{"what":"a"},{"unit":"x"}]}`)); fmt.Sprint(err) != "BAD rows[1].unit: cannot pass: new has another field of this name" {
		t.Error(err)
	}
}

// A call takes over the lists that another call has read, and both release them.
func TestListsOfACallThatAnotherHasRead(t *testing.T) {
	t.Parallel()
	o := orderTable(t).Operation("order.add")
	in := []byte(`{"rows":[{"what":"a"},{"what":"b"}],"phones":["1"]}`)
	first := o.Translation("old", "old").Start()
	must(t, first.Read(in))
	second := o.Translation("old", "new").StartWith(first)
	first.Release()
	out, err := second.Translate(nil)
	if want := `{"order":{"lines":[{"item":{"name":"a"},"unit":"piece"},{"item":{"name":"b"},"unit":"piece"}]},"recipients":[{"phone":"1"}]}`; err != nil || string(out) != want {
		t.Errorf("%s %v", out, err)
	}
	second.Release()
}

// A call that is used again without Release keeps no lists of the messages before.
func TestListsOfACallThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	call := orderTable(t).Operation("order.add").Translation("old", "new").Start()
	for i := range 3 {
		request := fmt.Sprintf(`{"no":"1","tags":["%d"]}`, i)
		out, err := call.Request(nil, []byte(request))
		if err != nil || string(out) != fmt.Sprintf(`{"order":{"no":"1"},"tags":["%d"]}`, i) {
			t.Errorf("%s %v", out, err)
		}
		for n := range 3 {
			reply, err := call.Reply(nil, 200, fmt.Appendf(nil, `{"code":"00","text":"x","data":{"no":"1","lines":[{"id":"%d"}],"numbers":[%d]}}`, n, n))
			if err != nil || string(reply) != fmt.Sprintf(`{"rc":"00","rt":"x","no":"1","rows":[{"id":"%d"}],"nums":["%d"]}`, n, n) {
				t.Errorf("%s %v", reply, err)
			}
			equal(t, translate.Lists(call), 3)
		}
	}
}

// A list in a callback is translated like one in a reply. Names that differ in case only are refused there too.
func TestListsInCallbacks(t *testing.T) {
	t.Parallel()
	c := orderTable(t).Callback()
	in := `{"key":"k","no":"1","rows":[{"nr":"1","id":"a"},{"nr":"x","id":"b","z":1}]}`
	out, notice, err := c.Translate(nil, []byte(in), "old", "new")
	if want := `{"key":"k","no":"1","lines":[{"number":1,"ident":"a"},{"number":"x","ident":"b"}]}`; err != nil || string(out) != want {
		t.Errorf("%s %v, want %s", out, err, want)
	}
	equal(t, fmt.Sprint(notice.Report.Mismatched, notice.Report.UnknownNames), "[rows[1].nr] [rows[1].z]")
	checkExplained(t, c.Explain([]byte(in), "old", "new"), out, nil)
	for in, want := range map[string]string{
		`{"key":"k","no":"1","rows":[{"nr":"1"},{"Nr":"1"}]}`:                   "BAD rows[1].Nr: differs from nr in case only",
		`{"key":"k","no":"1","lines":[{"IDENT":"1"}]}`:                          "BAD lines[0].IDENT: differs from ident in case only",
		`{"key":"k","no":"1","rows":[` + strings.Repeat("{},", 10_000) + `{}]}`: "BAD rows[10000]: the lists of the message have more than 10000 items",
		`{"key":"k","no":"1","rows":[{"number":1,"number":2}]}`:                 "BAD rows.0.number: the name appears twice",
	} {
		if _, _, err := c.Translate(nil, []byte(in), "old", "new"); fmt.Sprint(err) != want {
			t.Errorf("%.80s: %v, want %s", in, err, want)
		}
	}
}

// Lists of two backends are compared in the first form.
func TestListsAreCompared(t *testing.T) {
	t.Parallel()
	o := orderTable(t, "unknown: {request: pass, reply: pass}").Operation("order.add")
	facts := func(client, upstream translate.Form, reply string) translate.Fact {
		call := o.Translation(client, upstream).Start()
		request := map[translate.Form]string{"old": `{"no":"1"}`, "new": `{"order":{"no":"1"}}`}[client]
		_, err := call.Request(nil, []byte(request))
		must(t, err)
		_, err = call.Reply(nil, 200, []byte(reply))
		must(t, err)
		for _, f := range call.Facts(true) {
			if f.Path == "rows" {
				return f
			}
		}
		t.Fatal("no fact")
		return translate.Fact{}
	}
	old := facts("old", "old", `{"rc":"00","rt":"x","no":"1","rows":[{"nr":"1","id":"a"}, {"id":"b","nr":"2"}]}`)
	for _, client := range []translate.Form{"old", "new"} {
		same := facts(client, "new", `{"code":"00","text":"x","data":{"no":"1","lines":[{"number":1,"id":"a","zz":"x"},{"number":2,"id":"b","extra":3}]}}`)
		other := facts(client, "new", `{"code":"00","text":"x","data":{"no":"1","lines":[{"number":1,"id":"a"},{"number":3,"id":"b"}]}}`)
		if !old.Alike(same) || old.Alike(other) || strings.Contains(same.JSON, "zz") {
			t.Errorf("%+v\n%+v\n%+v", old, same, other)
		}
	}
}

// Examples have the items of lists, with invented values, and are translated.
func TestListsInExamples(t *testing.T) {
	t.Parallel()
	table := orderTable(t)
	for _, from := range table.Forms() {
		to := map[translate.Form]translate.Form{"old": "new", "new": "old"}[from]
		c := table.Operation("order.add").Translation(from, to)
		call := c.Start()
		example := c.Example(translate.Request)
		if out, err := call.Request(nil, example); err != nil || strings.Count(string(out), "[") != 5 {
			t.Errorf("%s became %s, %v", example, out, err)
		}
		if out, err := call.Reply(nil, 200, c.Example(translate.Reply)); err != nil || len(call.Report.Mismatched) > 0 {
			t.Errorf("%s became %s, %v %v", c.Example(translate.Reply), out, err, call.Report)
		}
		if out, n, err := table.Callback().Translate(nil, table.Callback().Example(from, to), from, to); err != nil || len(n.Report.Mismatched) > 0 {
			t.Errorf("%s %v", out, err)
		}
	}
	var paths []string
	for _, f := range table.Operation("order.add").Fields() {
		if f.Message == "request" && f.From == "old" && strings.Contains(f.Source+f.Target, "[]") {
			paths = append(paths, f.Source+">"+f.Target)
		}
	}
	equal(t, strings.Join(paths, " "), "rows[].nr>order.lines[].number rows[].what>order.lines[].item.name rows[].size>order.lines[].item.size rows[].gift> rows[].note> >order.lines[].unit rows[].subs>order.lines[].parts rows[].subs[].n>order.lines[].parts[].count tags[]>tags[] nums[]>numbers[] phones[]>recipients[].phone")
}

// oddName finds a name that is not plain.
var oddName = regexp.MustCompile(`"([^"]*[^A-Za-z0-9"][^"]*|)":|"[^"]{60,}":`)

// A report names at most 64 fields in lists, and 64 words.
func TestReportsOfListsAreBounded(t *testing.T) {
	t.Parallel()
	table := orderTable(t, "operations: {order.add: {reply: [{old: rows, new: lines, each: [{old: nr, new: number, as: digits, otherwise: \"null\"}, {old: id, new: id, as: digits}]}]}}")
	call := table.Operation("order.add").Translation("new", "old").Start()
	defer call.Release()
	_, err := call.Request(nil, []byte(`{"order":{"no":"1"}}`))
	must(t, err)
	_, err = call.Reply(nil, 200, []byte(`{"rc":"00","no":"1","rows":[`+strings.TrimSuffix(strings.Repeat(`{"nr":"word","id":"x"},`, 100), ",")+`]}`))
	must(t, err)
	equal(t, fmt.Sprint(len(call.Report.Words), len(call.Report.Dropped), len(call.Report.Mismatched)), "64 64 64")
	if memory := call.ListMemory(); memory < 100*2*24 {
		t.Errorf("the items take %d bytes", memory)
	}
}
