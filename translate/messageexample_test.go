package translate_test

import (
	"testing"

	"billbridge/translate"
)

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
