package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Every document is explained as the engine translates it, as a request, a reply and a callback, in every direction.
func FuzzExplain(f *testing.F) {
	seeds(f, func(operation, direction uint8, doc, request []byte) {
		f.Add(operation, direction, uint16(200), doc, request)
	})
	passing, err := translate.Compile(8, billing.Table(), translate.File{Name: "o.yaml", Data: []byte("unknown: {request: pass, reply: pass}\nbounds: enforce")})
	must(f, err)
	f.Fuzz(func(t *testing.T, operation, direction uint8, status uint16, doc, request []byte) {
		for _, table := range []*translate.Table{shipped(), passing} {
			from, to := forms[direction>>1&1], forms[direction&1]
			o := table.Operations()[int(operation)%len(table.Operations())]
			if o.Translation(from, to) != nil {
				explainRequest(t, o.Translation(from, to), from, to, doc)
				explainReply(t, o.Translation(to, from), from, to, request, int(status), doc)
			}
			explainCallback(t, table.Callback(), from, to, doc)
		}
	})
}

// A name that has a dot or a slash is not taken for a path.
func TestExplanationTellsNamesAndPathsApart(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ unknown, doc, want string }{
		{"pass", `{"bill/memo":"a","bill":{"memo":"b"},"bill.memo":"c","bill~1memo":"d"}`, `bill/memo>bill/memo "a" "a", bill.memo>bill.memo "b" "b", bill.memo>bill.memo "c" "c", bill~1memo>bill~1memo "d" "d", >bill.sendType  "TALK"`},
		{"refuse", `{"bill":{"price":5},"bill.price":1}`, `bill.price> 5 , bill.price! 1 `},
		{"refuse", `{"bill.memo":1,"bill":{"memo":[]}}`, `bill.memo! 1 , bill.memo> [] `},
		{"pass", `{"bill.price":1,"bill":{"price":[]}}`, `bill.price> 1 , bill.price! [] `},
	} {
		table := overlaid(t, "unknown: {request: "+row.unknown+"}")
		var got []string
		for _, f := range explainRequest(t, table.Operation("bill.create").Translation("legacy", "v2"), "legacy", "v2", []byte(row.doc)).Fields {
			got = append(got, fmt.Sprintf("%s%s%s %s %s", f.Source, map[bool]string{true: "!", false: ">"}[f.Outcome == translate.OutcomeRefused], f.Target, f.Before, f.After))
		}
		equal(t, gocmp.Diff(row.want, strings.Join(got, ", ")), "", row.doc)
	}
}

// An unusable reply is explained at the field that makes it unusable.
func TestExplanationOfAnUnusableReply(t *testing.T) {
	t.Parallel()
	translation := shipped().Operation("bill.destroy").Translation("legacy", "v2")
	for doc, want := range map[string]string{
		`{"message":"x","code":5}`: "code 22 code has the wrong type: want text, got a number",
		`{"code":"","data":null}`:  "code 8 code is empty",
		`{"message":"x"}`:          " -1 code is missing",
		` [1]`:                     " 1 not a JSON object",
		`{"code":"0000","data":{"apiKey":"k","billId":"2"}}`: "data.billId 45 a success, but its billId is not that of the request",
		`{"code":"0000","data":{"apiKey":"k"}} x`:            " 37 not one JSON document: more follows at byte 37",
	} {
		var got []string
		for _, f := range translation.ExplainReply([]byte(`{"apikey":"k","bill_id":"1"}`), 200, []byte(doc)).Fields {
			if f.Outcome == translate.OutcomeRefused {
				got = append(got, fmt.Sprint(f.Source, " ", f.Offset, " ", f.Reason))
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s is refused\n%q, want\n%q", doc, got, want)
		}
	}
}

// A reply echoes a value of the request that does not have its documented type, and the entry says so.
func TestExplanationOfAnEchoWithTheWrongType(t *testing.T) {
	t.Parallel()
	translation := shipped().Operation("bill.destroy").Translation("legacy", "v2")
	for _, f := range explainReply(t, translation, "v2", "legacy", []byte(`{"member":true,"merchant":7}`), 200, []byte(`{"code":"0000","message":"m","data":{"billId":"1"}}`)).Fields {
		want, ok := map[string]string{"member": "member true true has the wrong type: want text, got true or false", "merchant": `merchant 7 "7" `}[f.Target]
		if got := fmt.Sprint(f.Request, " ", f.Before, " ", f.After, " ", f.Reason); ok && (got != want || f.Outcome != translate.OutcomeEchoed) {
			t.Errorf("%s: %s, %s, want %s", f.Target, f.Outcome, got, want)
		}
	}
}
