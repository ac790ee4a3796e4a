package translate_test

import (
	"fmt"
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
			explainCallback(t, table.Callback, from, to, doc)
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

// A document that ends anywhere is explained: the console explains what is being typed.
func TestUnfinishedDocumentsAreExplained(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"apikey":"key-1","z":"x","bill":{"price":"20000","memo":[1]}}`)
	for end := range doc {
		for _, from := range forms {
			for _, to := range forms {
				explainRequest(t, shipped().Operation("bill.create").Translation(from, to), from, to, doc[:end])
				explainReply(t, shipped().Operation("bill.create").Translation(to, from), from, to, nil, 200, doc[:end])
				explainCallback(t, shipped().Callback, from, to, doc[:end])
			}
		}
	}
}
