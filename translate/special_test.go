package translate_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"billbridge/translate"

	"pgregory.net/rapid"
)

// values is a table whose fields differ in more than their names and types.
const values = `
forms:
  old: {code: rc, text: rt, digits: string}
  new: {code: code, text: text, digits: number}
success: {code: "00", text: fine}
invalid: BAD
catalogue: ["00", BAD]
roles: {key: {}, id: {}}
operations:
  put:
    old: /old
    new: /new
    effect: write
    request: ROWS
    reply: ROWS
callbacks:
  event:
    method: POST
    identified_by: [id]
    request:
      - {old: no, new: data.no, role: id}
      - {new: event, default: moved}
      - {new: version, default: 2}
    answer: {old: '{"rc":"00"}', new: '{"code":"00"}'}
`

const valueRows = `[{old: day, new: day, pattern: {old: YYYYMMDD, new: YYYY-MM-DD}},
      {old: at, new: at, pattern: {old: YYYYMMDDhhmmss, new: "YYYY-MM-DDThh:mm:ss+09:00"}, values: [{old: "", new: null}]},
      {old: us, new: us, pattern: {old: "DD/MM/YYYY", new: "YYYY/MM/DD"}},
      {old: price, new: price, as: decimal}, {old: grams, new: kilos, as: digits, shift: {old: 3}},
      {old: rate, new: percent, as: decimal, shift: {new: 2}}, {old: 이름, new: 名前},
      {old: yes, new: yes, values: [{old: Y, new: true}, {old: N, new: false}]}, {old: cod, new: cod, as: digits, absent: {old: "0"}},
      {old: rates, new: percents, list: true, as: decimal, shift: {new: 2}}]`

func valueTable(t testing.TB) *translate.Table {
	return compiled(t, strings.ReplaceAll(values, "ROWS", valueRows))
}

// Each value goes there and comes back, or is refused.
func TestSpecialValues(t *testing.T) {
	t.Parallel()
	const nothing = `,"cod":"0"`
	for _, row := range []struct{ from, in, out, back string }{ // back is "" for the same; of a refusal out begins with BAD
		{"old", `"day":"20261224"`, `"day":"2026-12-24"`, ""},
		{"old", `"day":"20269999"`, `"day":"2026-99-99"`, ""}, // digits are moved, and nothing is calculated
		{"old", `"day":"2026122"`, `BAD day: has the wrong type: want text like YYYYMMDD, got other text`, ""},
		{"old", `"day":20261224`, `BAD day: has the wrong type: want text like YYYYMMDD, got a number`, ""},
		{"old", `"day":null`, `"day":null`, ""},
		{"new", `"day":"2026-12-2x"`, `BAD day: has the wrong type: want text like YYYY-MM-DD, got other text`, ""},
		{"new", `"day":"2026-12-٢٤"`, `BAD day: has the wrong type: want text like YYYY-MM-DD, got other text`, ""},
		{"old", `"at":"20261224153000"`, `"at":"2026-12-24T15:30:00+09:00"`, ""},
		{"old", `"at":""`, `"at":null`, ""},
		{"new", `"at":"\u0000"`, `BAD at: has the wrong type: want text like YYYY-MM-DDThh:mm:ss+09:00, got other text`, ""},
		{"old", `"at":null`, `BAD at: has a value without a counterpart in new`, ""},
		{"new", `"at":null`, `"at":""` + nothing, ""},
		{"new", `"at":"null"`, `BAD at: has the wrong type: want text like YYYY-MM-DDThh:mm:ss+09:00, got other text`, ""},
		{"new", `"at":"2026-12-24T15:30:00+08:00"`, `BAD at: has the wrong type: want text like YYYY-MM-DDThh:mm:ss+09:00, got other text`, ""},
		{"new", `"at":"2026-12-24T15:30:00Z"`, `BAD at: has the wrong type: want text like YYYY-MM-DDThh:mm:ss+09:00, got other text`, ""},
		{"new", `"at":"2026-12-24T15:30:00\u002b09:00"`, `"at":"20261224153000"` + nothing, `"at":"2026-12-24T15:30:00+09:00"`},
		{"new", `"us":"2026\/12\/24"`, `"us":"24/12/2026"` + nothing, `"us":"2026/12/24"`},
		{"old", `"price":"12.50"`, `"price":12.50`, ""},
		{"old", `"price":"-0.00"`, `"price":-0.00`, ""},
		{"old", `"price":"123456789012345678901234567890.10"`, `"price":123456789012345678901234567890.10`, ""},
		{"old", `"price":"1,50"`, `BAD price: has the wrong type: want a decimal number that the other form can hold, got text with other characters than digits`, ""},
		{"old", `"price":"01.5"`, `BAD price: has the wrong type: want a decimal number that the other form can hold, got text with other characters than digits`, ""},
		{"old", `"price":".5"`, `BAD price: has the wrong type: want a decimal number that the other form can hold, got text with other characters than digits`, ""},
		{"new", `"price":1e3`, `BAD price: has the wrong type: want a decimal number that the other form can hold, got a number with an exponent`, ""},
		{"new", `"price":12.50`, `"price":"12.50"` + nothing, ""},
		{"old", `"grams":"2500"`, `"kilos":2.5`, ""},
		{"old", `"grams":"5"`, `"kilos":0.005`, ""},
		{"old", `"grams":"0"`, `"kilos":0`, ""},
		{"old", `"grams":"12000"`, `"kilos":12`, ""},
		{"old", `"grams":"2.5"`, `BAD grams: has the wrong type: want a decimal number that the other form can hold, got text with other characters than digits`, ""},
		{"new", `"kilos":2.5`, `"grams":"2500"` + nothing, ""},
		{"new", `"kilos":2.500`, `"grams":"2500"` + nothing, `"kilos":2.5`}, // the same number
		{"new", `"kilos":2.5000`, `"grams":"2500"` + nothing, `"kilos":2.5`},
		{"new", `"kilos":2.0005`, `BAD kilos: has the wrong type: want a decimal number that the other form can hold, got a number with a fraction`, ""},
		{"new", `"kilos":-1`, `BAD kilos: has the wrong type: want a decimal number that the other form can hold, got a negative number`, ""},
		{"old", `"rate":"0.0825"`, `"percent":8.25`, ""},
		{"old", `"rate":"-0.5"`, `"percent":-50`, ""},
		{"new", `"percent":-0.5`, `"rate":"-0.005"` + nothing, ""},
		{"new", `"percent":100`, `"rate":"1"` + nothing, ""},
		{"old", `"rates":["0.5","1"]`, `"percents":[50,100]`, `"cod":"0","rates":["0.5","1"]`},
		{"old", `"rates":["0.5","x"]`, `BAD rates[1]: has the wrong type: want a decimal number that the other form can hold, got text with other characters than digits`, ""},
		{"old", `"이름":"김"`, `"名前":"김"`, ""},
		{"old", `"\uc774\ub984":"김"`, `"名前":"김"`, `"이름":"김"`},
		{"old", `"yes":"Y"`, `"yes":true`, ""},
		{"old", `"yes":"?"`, `BAD yes: has a value without a counterpart in new`, ""},
		{"old", `"cod":"0"`, ``, ""},
		{"old", `"cod":"1"`, `"cod":1`, ""},
		{"new", `"cod":0`, `BAD cod: has a value without a counterpart in old`, ""},
		{"new", ``, `"cod":"0"`, ""},
	} {
		from, to := translate.Form(row.from), translate.Form("new")
		if from == "new" {
			to = "old"
		}
		in := "{" + row.in + "}"
		out, err := valueTable(t).Operation("put").Translation(from, to).Start().Request(nil, []byte(in))
		if err != nil {
			if err.Error() != row.out {
				t.Errorf("%s is refused: %v\nwant %s", in, err, row.out)
			}
			continue
		}
		back, err := valueTable(t).Operation("put").Translation(to, from).Start().Request(nil, out)
		want := "{" + row.back + "}"
		if row.back == "" {
			want = in
		}
		if from == "old" && !strings.Contains(want, "cod") { // a missing cod is none
			want = strings.TrimSuffix(want, "}") + nothing + "}"
		}
		if string(out) != "{"+row.out+"}" || err != nil || string(back) != want {
			t.Errorf("%s\nbecame %s and %s, %v\nwant   {%s} and %s", in, out, back, err, row.out, want)
		}
		// As a reply it is the same, with its envelope.
		call := valueTable(t).Operation("put").Translation(to, from).Start()
		_, err = call.Request(nil, []byte(`{}`))
		must(t, err)
		reply, err := call.Reply(nil, 200, []byte(strings.TrimSuffix(map[translate.Form]string{"old": `{"rc":"00","rt":"x",`, "new": `{"code":"00","text":"x",`}[from]+row.in, ",")+"}"))
		if err != nil || !strings.HasSuffix(string(reply), row.out+"}") {
			t.Errorf("the reply %s became %s, %v", row.in, reply, err)
		}
		e := valueTable(t).Operation("put").Translation(from, to).ExplainRequest([]byte(in))
		checkExplained(t, e, out, nil)
	}
}

const nullRows = `[{old: note, new: note, absent: {old: ""}, values: [{old: "", new: null}]},
      {old: amount, new: amount, as: digits, values: [{old: "", new: null}]}, {old: mail, new: mail, values: [{old: "", new: null}]},
      {old: kind, new: kind, values: [{old: A, new: ONE}]}, {old: day, new: day, pattern: {old: YYYYMMDD, new: YYYY-MM-DD}},
      {old: count, new: count, as: digits}, {old: price, new: price, as: decimal}, {old: free, new: free},
      {old: known, new: known, values: [{old: A, new: ONE}, {old: null, new: null}]},
      {old: lists, new: lists, list: true}, {old: items, new: items, each: [{old: kind, new: kind, values: [{old: A, new: ONE}]}]}]`

// A pair with null says what null is. The other values of its row are translated as without it.
func TestNullInPairs(t *testing.T) {
	t.Parallel()
	table := compiled(t, strings.ReplaceAll(values, "ROWS", nullRows))
	for _, row := range []struct{ from, in, out string }{
		{"old", `"note":"x"`, `"note":"x"`},
		{"old", `"note":""`, ``},
		{"new", `"note":null`, `"note":""`},
		{"new", ``, `"note":""`},
		{"new", `"note":""`, `BAD note: has a value without a counterpart in old`},
		{"old", `"amount":"450"`, `"amount":450`},
		{"old", `"amount":""`, `"amount":null`},
		{"old", `"amount":"x"`, `BAD amount: has the wrong type: want a whole number in digits, got text with other characters than digits`},
		{"new", `"note":"x","amount":450`, `"note":"x","amount":"450"`},
		{"new", `"note":"x","amount":null`, `"note":"x","amount":""`},
		{"old", `"mail":"a@b"`, `"mail":"a@b"`},
		{"old", `"mail":""`, `"mail":null`},
		{"new", `"note":"x","mail":null`, `"note":"x","mail":""`},
		{"new", `"note":"x","mail":""`, `BAD mail: has a value without a counterpart in old`},
		// Otherwise null is a missing value, and stays null.
		{"new", `"note":"x","kind":null,"day":null,"count":null,"free":null`, `"note":"x","kind":null,"day":null,"count":null,"free":null`},
	} {
		to := map[string]translate.Form{"old": "new", "new": "old"}[row.from]
		translation := table.Operation("put").Translation(translate.Form(row.from), to)
		out, err := translation.Start().Request(nil, []byte("{"+row.in+"}"))
		got := strings.Trim(string(out), "{}")
		if err != nil {
			got = err.Error()
		}
		equal(t, got, row.out)
		checkExplained(t, translation.ExplainRequest([]byte("{"+row.in+"}")), out, err)
	}
}

// A null of a reply is counted if its row converts values and does not say what null is.
func TestNullInReplies(t *testing.T) {
	t.Parallel()
	table := compiled(t, strings.ReplaceAll(values, "ROWS", nullRows))
	translation := table.Operation("put").Translation("old", "new")
	reply := []byte(`{"code":"00","text":"x","note":null,"amount":null,"mail":null,"kind":null,"day":null,"count":null,"price":null,` +
		`"free":null,"known":null,"lists":null,"items":[{"kind":null},null]}`)
	call := translation.Start()
	_, err := call.Request(nil, []byte(`{}`))
	must(t, err)
	out, err := call.Reply(nil, 200, reply)
	must(t, err)
	equal(t, string(out), `{"rc":"00","rt":"x","note":"","amount":"","mail":"","kind":null,"day":null,"count":null,"price":null,`+
		`"free":null,"known":null,"lists":null,"items":[{"kind":null},null]}`)
	var reported []string
	for i, path := range call.Report.Mismatched {
		reported = append(reported, path+" "+call.Report.Mismatches[i].String())
	}
	equal(t, strings.Join(reported, "\n"), `kind has a value without a pair
day has the wrong type: want text like YYYY-MM-DD, got null
count has the wrong type: want a whole number in digits, got null
price has the wrong type: want a decimal number that the other form can hold, got null
lists has the wrong type: want an array, got null
items[0].kind has a value without a pair
items[1] has the wrong type: want an object, got null`)
	checkExplained(t, translation.ExplainReply([]byte(`{}`), 200, reply), out, nil)
}

// A success lacks what the other form does not have. It is counted if the form of the receiver requires it.
func TestRequiredFieldOfOneForm(t *testing.T) {
	t.Parallel()
	rows := `[{old: count, loss: drop, required: true}, {old: extra, loss: drop}, {new: id, loss: drop, required: true, optional: true},
      {old: rows, new: rows, each: [{old: nr, new: nr}, {old: unit, loss: drop, required: true}]}]`
	text := strings.Replace(strings.ReplaceAll(values, "ROWS", rows), "request: "+rows, "request: []", 1)
	text = strings.Replace(text, "- {new: version, default: 2}", "- {old: seq, loss: drop, required: true}", 1)
	table := compiled(t, text)
	o := table.Operation("put")
	for from, want := range map[translate.Form]string{"new": "count rows[0].unit", "old": ""} {
		to := map[translate.Form]translate.Form{"old": "new", "new": "old"}[from]
		call := o.Translation(to, from).Start()
		_, err := call.Request(nil, []byte(`{}`))
		must(t, err)
		reply := map[translate.Form]string{
			"new": `{"code":"00","text":"x","rows":[{"nr":"1"}]}`,
			"old": `{"rc":"00","rt":"x","count":"1","rows":[{"nr":"1","unit":"kg"}]}`,
		}[from]
		_, err = call.Reply(nil, 200, []byte(reply))
		must(t, err)
		equal(t, strings.Join(call.Report.Mismatched, " "), want)
	}
	_, paths := o.Translation("old", "new").ReportPaths()
	equal(t, strings.Join(paths.Mismatched, " "), "count rows rows[] rows[].nr rows[].unit text")
	missing := 0
	for _, f := range o.Fields() {
		if f.Class == translate.Missing {
			missing++
		}
	}
	equal(t, missing, 3)
	_, n, err := table.Callback().Translate(nil, []byte(`{"event":"moved","data":{"no":"1"}}`), "new", "old")
	if err != nil || strings.Join(n.Report.Mismatched, " ") != "seq" {
		t.Errorf("%+v %v", n, err)
	}
}

// In a reply a value that does not fit passes unchanged and is counted.
func TestSpecialValuesInReplies(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"day":"soon"`:    "day has the wrong type: want text like YYYY-MM-DD, got other text",
		`"kilos":2.00051`: "kilos has the wrong type: want a decimal number that the other form can hold, got a number with a fraction",
		`"cod":0`:         "cod has a value without a pair",
	} {
		call := valueTable(t).Operation("put").Translation("old", "new").Start()
		_, err := call.Request(nil, []byte(`{}`))
		must(t, err)
		out, err := call.Reply(nil, 200, []byte(`{"code":"00","text":"x",`+in+`}`))
		_, value, _ := strings.Cut(in, ":")
		found := false
		for i, m := range call.Report.Mismatches {
			found = found || m.Got != "" && call.Report.Mismatched[i]+" "+m.String() == want
		}
		if err != nil || !strings.Contains(string(out), ":"+value) || !found {
			t.Errorf("%s became %s, %v, %+v", in, out, err, call.Report)
		}
	}
}

// Decimals of any size are moved exactly: the number in the other form is the same number, and comes back.
func TestShiftIsExact(t *testing.T) {
	t.Parallel()
	o := valueTable(t).Operation("put")
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?`).Draw(t, "number")
		for _, field := range []struct {
			from, to, in, out string
			scale             int64
		}{{"old", "new", "rate", "percent", 100}, {"old", "new", "price", "price", 1}, {"old", "new", "grams", "kilos", -1000}} {
			out, err := o.Translation("old", "new").Start().Request(nil, []byte(`{"`+field.in+`":"`+number+`"}`))
			if err != nil {
				if field.in != "grams" || !strings.ContainsAny(number, "-.") {
					t.Fatalf("%s: %v", number, err)
				}
				continue
			}
			moved := strings.TrimSuffix(strings.TrimPrefix(string(out), `{"`+field.out+`":`), "}")
			was, ok := new(big.Rat).SetString(number)
			is, ok2 := new(big.Rat).SetString(moved)
			if !ok || !ok2 {
				t.Fatalf("%s became %s", number, out)
			}
			if field.scale > 0 {
				was.Mul(was, big.NewRat(field.scale, 1))
			} else {
				was.Quo(was, big.NewRat(-field.scale, 1))
			}
			if was.Cmp(is) != 0 {
				t.Fatalf("%s became %s", number, moved)
			}
			back, err := o.Translation("new", "old").Start().Request(nil, out)
			var again string
			if _, scan := fmt.Sscanf(string(back), `{"`+field.in+`":%q`, &again); err != nil || scan != nil {
				t.Fatalf("%s came back as %s, %v %v", number, back, err, scan)
			}
			before, _ := new(big.Rat).SetString(number)
			after, _ := new(big.Rat).SetString(again)
			if before.Cmp(after) != 0 || field.scale == 1 && number != again {
				t.Fatalf("%s came back as %s", number, again)
			}
		}
	})
}

// A constant of a callback is added, and left out of the other form. A callback with another one is about something else.
func TestConstantsInCallbacks(t *testing.T) {
	t.Parallel()
	c := valueTable(t).Callback()
	for _, row := range []struct{ from, in, out, dropped string }{
		{"old", `{"no":"1"}`, `{"data":{"no":"1"},"event":"moved","version":2}`, ""},
		{"new", `{"data":{"no":"1"},"event":"moved","version":2}`, `{"no":"1"}`, ""},
		{"new", `{"data":{"no":"1"}}`, `{"no":"1"}`, ""},
		{"new", `{"data":{"no":"1"},"event":"deleted"}`, `{"data":{"no":"1"},"event":"deleted"}`, ""},
		{"new", `{"data":{"no":"1"},"version":3}`, `{"data":{"no":"1"},"version":3}`, ""},
	} {
		from, to := translate.Form(row.from), map[string]translate.Form{"old": "new", "new": "old"}[row.from]
		out, notice, err := c.Translate(nil, []byte(row.in), from, to)
		if err != nil || string(out) != row.out || len(notice.Report.Dropped) > 0 || (notice.Recognised == translate.Translated) == (row.in == row.out) {
			t.Errorf("%s became %s, %v %+v", row.in, out, err, notice)
		}
	}
}

// A row that cannot do what it says is refused, with the reason.
func TestBadSpecialRows(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`{old: a, new: a, pattern: {old: YYYYMMDD, new: YYYY-MM-DDThh}}`:                                   "pattern: old has 0 times h and new 2 times: no digit can be left out or invented",
		`{old: a, new: a, pattern: {old: YYMMDD, new: YYYY-MM-DD}}`:                                        "pattern: old has 2 times Y and new 4 times: no digit can be left out or invented",
		`{old: a, new: a, pattern: {old: YYYYMMDD}}`:                                                       `pattern: each form needs a text of digit places (YMDhms) and other characters, but new has ""`,
		`{old: a, new: a, pattern: {old: "---", new: "---"}}`:                                              `pattern: each form needs a text of digit places (YMDhms) and other characters, but old has "---"`,
		`{old: a, new: a, as: digits, pattern: {old: YYYY, new: YYYY}}`:                                    "pattern and as cannot stand in one row",
		`{old: a, new: a, pattern: {old: YYYYMMDD, new: YYYY-MM-DD}, values: [{old: "20261224", new: x}]}`: `values: "20261224" of old is also a value without a pair`,
		`{old: a, new: a, as: decimal, values: [{old: x, new: 1}]}`:                                        "values: 1 of new is also a value without a pair",
		`{old: a, new: a, shift: {old: 3}}`:                                                                "shift needs as: digits or as: decimal, and one form, in which the number is greater by powers of ten",
		`{old: a, new: a, as: digits, shift: {old: 3, new: 2}}`:                                            "shift needs as: digits or as: decimal, and one form",
		`{old: a, new: a, as: digits, shift: {old: 19}}`:                                                   "shift must be a number from 1 to 18, but is 19",
		`{old: a, new: a, as: digits, shift: {old: 0}}`:                                                    "shift must be a number from 1 to 18, but is 0",
		`{old: a, new: a, as: digits, shift: 3}`:                                                           "shift must be a mapping",
		`{old: a, new: a, as: decimal, max: 5}`:                                                            "min, max and exact_digits are not allowed with as: decimal or shift",
		`{old: a, new: a, as: decimal, otherwise: null}`:                                                   "is not allowed",
		`{old: a, new: a, absent: {old: x, new: y}}`:                                                       "absent: only one form can have a value that the other leaves out",
		`{old: a, loss: drop, as: decimal}`:                                                                "pattern, as: decimal, shift and absent need a path in both forms",
		`{old: a, new: "a b"}`:                                                                             `a field name can have letters, digits, _, - and $, but is "a b"`,
		`{old: a, new: "a[0]"}`:                                                                            `a field name can have letters, digits, _, - and $, but is "a[0]"`,
		`{old: a, new: a, values: [{old: x, new: null}, {old: y, new: null}]}`:                             "is in several pairs",
	} {
		_, err := translate.Compile(32, translate.File{Name: "t", Data: []byte(strings.Replace(strings.Replace(values, "ROWS", "["+row+"]", 1), "ROWS", "[]", 1))})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", row, err, want)
		}
	}
}

// What a caller asks for and what a backend shows are compared in the first form.
func TestComparableValue(t *testing.T) {
	t.Parallel()
	table := compiled(t, strings.ReplaceAll(strings.Replace(values, "id: {}", "id: {}, weight: {}, price: {}", 1), "ROWS",
		`[{old: price, new: price, as: decimal, role: price}, {old: grams, new: kilos, as: digits, shift: {old: 3}, role: weight}]`))
	for _, row := range []struct{ from, in, want string }{
		{"old", `{"price":"2.50","grams":"2500"}`, "2.5 2500"}, {"new", `{"price":2.50,"kilos":2.50}`, "2.5 2500"}, {"new", `{"kilos":null}`, " "},
	} {
		for _, to := range table.Forms() {
			call := table.Operation("put").Translation(translate.Form(row.from), to).Start()
			must(t, call.Read([]byte(row.in)))
			equal(t, call.ComparableValue("price")+" "+call.ComparableValue("weight"), row.want)
		}
	}
}
