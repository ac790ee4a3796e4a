package translate_test

import (
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/translate"
)

// The example of each message of each table is translated without a refusal, and no field of it is passed or unknown.
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
	tables := []*translate.Table{shipped(), orderTable(t)}
	for _, name := range []string{"courier", "messages"} {
		tables = append(tables, compiled(t, string(proxytest.ReadFile(t, "examples/"+name+".yaml"))))
	}
	for _, table := range tables {
		for _, from := range table.Forms() {
			for _, to := range table.Forms() {
				for _, o := range table.Operations() {
					if translation := o.Translation(from, to); translation != nil {
						request, reply := translation.Example(translate.Request), translation.Example(translate.Reply)
						check(o.Name+" request", request, translation.ExplainRequest(request))
						check(o.Name+" reply", reply, translation.ExplainReply(request, 200, reply))
					}
				}
				doc := table.Callback().Example(from, to)
				check("callback", doc, table.Callback().Explain(doc, from, to))
			}
		}
	}
	equal(t, string(orderTable(t).Operation("order.add").Translation("new", "old").Example(translate.Request)),
		`{"key":"key","order":{"no":"no","lines":[{"number":1,"item":{"name":"what","size":"S"},"unit":"piece","parts":[{"count":1000}]}]},"tags":["item"],"numbers":[1000],"recipients":[{"phone":"item"}]}`)
	equal(t, string(tableOf(t, "list-of-one-form").Operation("put").Translation("new", "new").Example(translate.Request)), `{"cars":[],"x":"x"}`)
}
