package translate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestShape(t *testing.T) {
	t.Parallel()
	created := shipped().Operation("bill.create").Translation("v2", "legacy")
	read := shipped().Operation("bill.read").Translation("v2", "legacy")
	reply := func(doc []byte) []byte { return read.ShapeReply([]byte(`{"apiKey":"k","bill":{"billId":"A7"}}`), doc) }
	for _, row := range []struct {
		shape    func([]byte) []byte
		in, want string
	}{
		{
			created.ShapeRequest, ` {"apiKey":"secret","member":7,"BILL":1, "bill":{"billId":"12345678900000000001","sendType":"URL","price":20000,"phone":"01012345678","memberName":"김하늘","tax":null,"message":"","010-1":{"a":[1]},"02":[1]},"x":true}`,
			`{"apiKey":"apiKey","member":1000,"BILL":1000,"bill":{"billId":"1000","sendType":"URL","price":1000,"phone":"01","memberName":"memberName","tax":null,"message":"","unknown1":{},"unknown2":[]},"unknown3":true}`,
		},
		{created.ShapeRequest, `{"bill":{"price":-5,"sendType":"010","billId":2.75,"phone":9e9,"expireDt":false}}`, `{"bill":{"price":-1,"sendType":"01","billId":1.5,"phone":1e3,"expireDt":true}}`},
		{created.ShapeRequest, `{"bill":"secret"}`, `{"bill":"text"}`},
		{created.ShapeRequest, `{"a":1,"a":2}`, ``},
		{created.ShapeRequest, `[1]`, ``},
		{created.ShapeRequest, strings.Repeat(`{"bill":`, 99), ``},
		{reply, `{"code":"9980","msg":"no 김하늘"}`, `{"code":"9980","msg":"text"}`},
		{reply, `{"code":"secret","msg":5}`, `{"code":"CODE","msg":1000}`},
		{reply, `{"bill_id":"A7","appr_state":"F","appr_dt":"20261122101530","appr_issuer":"국민","appr_pay_type":"CARD"}`, `{"bill_id":"billId","appr_state":"F","appr_dt":"1000","appr_issuer":"apprIssuer","appr_pay_type":"apprPayType"}`},
		{reply, `{"bill_id":"A8"}`, `{"bill_id":"other"}`},
		{reply, `{"bill_id":"A7","appr_state":"Z","appr_dt":"0"}`, `{"bill_id":"billId","appr_state":"apprState","appr_dt":"0"}`},
	} {
		equal(t, gocmp.Diff(row.want, string(row.shape([]byte(row.in)))), "", row.in)
	}
}

// A shape has no text and no number of the message, in whatever field of whatever message they are.
func FuzzShape(f *testing.F) {
	seeds(f, func(operation, direction uint8, doc, request []byte) { f.Add(operation, direction, doc, request) })
	f.Fuzz(func(t *testing.T, operation, direction uint8, doc, request []byte) {
		o, from, to := choose(operation, direction)
		for message, shape := range map[string]func([]byte) []byte{"request": o.Translation(from, to).ShapeRequest, "reply": func(doc []byte) []byte { return o.Translation(to, from).ShapeReply(request, doc) }} {
			shaped := shape(doc)
			if shaped == nil {
				continue
			}
			if err := strict(shaped); err != nil && !strings.Contains(err.Error(), "unknown") {
				t.Fatalf("%q has the shape %q: %v", doc, shaped, err)
			}
			for _, l := range placedLeaves(shaped, pathsOf(o.Fields(), message, from)) {
				var number json.Number
				if json.Unmarshal([]byte(l.raw), &number) == nil && l.raw[0] != '"' && !slices.Contains([]string{"0", "1000", "1e3", "1.5", "-1", "null"}, l.raw) {
					t.Fatalf("the shape of %q has the number %s", doc, l.raw)
				}
				if text := content(l.raw); l.raw[0] == '"' && l.path != "code" && !slices.Contains([]string{"", "0", "1000", "01", "text", "TALK", "URL", "other", "W", "F", "C", "D"}, text) && !knownName(o, text) {
					t.Fatalf("the shape of %q has the text %q", doc, text)
				}
			}
		}
	})
}

// knownName reports whether a text is the last name of a path of the table.
func knownName(o *translate.Operation, text string) bool {
	return slices.ContainsFunc(o.Fields(), func(f translate.Field) bool {
		return slices.ContainsFunc([]string{f.Source, f.Target}, func(path string) bool { return path[strings.LastIndexByte(path, '.')+1:] == text })
	})
}

// The example of each message is translated without a refusal, and no field of it is passed or unknown.
func TestExamplesAreTranslated(t *testing.T) {
	t.Parallel()
	check := func(what string, doc []byte, e *translate.Explanation) {
		for _, f := range e.Fields {
			if e.Err != nil || f.Unknown || f.Outcome == translate.OutcomePassed || f.Outcome == translate.OutcomeRefused {
				t.Errorf("%s: %s: %v, %+v", what, doc, e.Err, f)
			}
		}
		if len(e.Fields) == 0 {
			t.Errorf("%s: %s has no fields", what, doc)
		}
	}
	for _, from := range forms {
		for _, to := range forms {
			for _, o := range shipped().Operations() {
				if translation := o.Translation(from, to); translation != nil {
					request, reply := translation.Example(translate.Request), translation.Example(translate.Reply)
					check(o.Name+" request", request, translation.ExplainRequest(request))
					check(o.Name+" reply", reply, translation.ExplainReply(request, 200, reply))
				}
			}
			doc := shipped().Callback().Example(from, to)
			check("callback", doc, shipped().Callback().Explain(doc, from, to))
		}
	}
}
