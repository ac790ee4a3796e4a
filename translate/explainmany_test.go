package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
)

// An explanation does not grow with the fields that a sender has invented, and always has those of the table and the cause of a refusal.
func TestExplanationIsBounded(t *testing.T) {
	t.Parallel()
	many := func(name, value string) string {
		var text strings.Builder
		for i := range 50_000 {
			fmt.Fprintf(&text, `,"%s%d":%s`, name, i, value)
		}
		return text.String()
	}
	request := `{"apikey":"k"` + many("x", "1") + `,"bill":{"bill_id":"b","price":"20000"}}`
	e := shipped().Operation("bill.create").Translation("legacy", "v2").ExplainRequest([]byte(request))
	last := e.Fields[1001:]
	if len(e.Fields) != 1000+4 || e.More != 49_000 || last[0].Source != "bill.bill_id" || last[1].Outcome != translate.OutcomeConverted || last[2].Target != "bill.sendType" {
		t.Errorf("%d fields and %d more, at the end %+v", len(e.Fields), e.More, last)
	}
	passes := overlaid(t, "unknown: {request: pass, reply: pass}").Operation("bill.create").Translation("legacy", "v2")
	for _, f := range passes.ExplainRequest([]byte(request)).Fields {
		if f.Unknown && f.Outcome != translate.OutcomeSame {
			t.Fatalf("%s: %s", f.Source, f.Outcome)
		}
	}
	refuses := overlaid(t, "unknown: {request: refuse}").Operation("bill.create").Translation("legacy", "v2")
	e = refuses.ExplainRequest([]byte(`{"apikey":"k","bill":{` + many("y", "1")[1:] + `}}`))
	if at := e.Fields[1]; at.Outcome != translate.OutcomeRefused || at.Source != "bill.y0" || e.More != 49_000 {
		t.Errorf("%+v and %d more", at, e.More)
	}
	e = shipped().Operation("bill.create").Translation("legacy", "v2").ExplainRequest([]byte(`{"apikey":"k"` + many("x", "1") + `,"bill":{"price":"x"}}`))
	if at := e.Fields[1001]; at.Outcome != translate.OutcomeRefused || at.Source != "bill.price" || len(e.Fields) != 1002 {
		t.Errorf("%d fields, the last one %+v", len(e.Fields), at)
	}
	list := orderTable(t).Operation("order.add").Translation("old", "new").ExplainRequest(
		[]byte(`{"no":"1","rows":[` + strings.TrimSuffix(strings.Repeat(`{"nr":"1"},`, 5000), ",") + `],"nums":["1"]}`))
	if len(list.Fields) > 1100 || list.More < 3900 {
		t.Errorf("%d fields of a list, and %d more", len(list.Fields), list.More)
	}
}
