package operate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/routing"

	"github.com/google/go-cmp/cmp"
)

// A value that Encode sends arrives as it was, also the numbers and flags that are zero but given.
func TestEncodedValueArrivesAsItWas(t *testing.T) {
	t.Parallel()
	zero := 0
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	move := operate.Move{PartnerRef: operate.PartnerRef{Partner: "6e2b0f4cd1aa"}, Stage: routing.StageCanary, Percent: &zero}
	move.By, move.Force, move.Preview = "anna & \"kim\"", operate.Force{moves.Unproven, moves.Undrained}, true
	for _, sent := range []any{
		move,
		operate.CallbackFilter{Bill: "null", Since: at, After: 7, Limit: operate.AtMost(3)},
		operate.BillRef{Key: "secret", Bill: "청구 1"},
		operate.BillFilter{Open: true},
	} {
		q, body := operate.Encode(sent)
		lacks(t, q.Encode(), "secret", "a key is in the query")
		r := httptest.NewRequest(http.MethodPost, "/x?"+q.Encode(), strings.NewReader(string(body)))
		got, err := operate.DecodeLike(r, sent)
		if diff := cmp.Diff(sent, got); err != nil || diff != "" {
			t.Errorf("%v, -sent +arrived\n%s", err, diff)
		}
	}
}

// What a door refuses changes nothing: unknown, repeated and empty values, values of another type, and a partner's key outside a body.
func TestDoorIsStrict(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ query, body, says string }{
		{"stage=new&Stage=old", "", `there is no key "Stage": the keys are by, do, force, partner, percent, preview, reason, stage`},
		{"by=a&by=b", "", "by is given more than once"},
		{"by=a", `{"by":"b"}`, "by is given more than once"},
		{"by=", "", "by must not be empty"},
		{"", `{"by":""}`, "by must not be empty"},
		{"by=%00", "", "by must be UTF-8 without a zero byte"},
		{"by=%ff", "", "by must be UTF-8 without a zero byte"},
		{"preview=null", "", `preview cannot be "null"`},
		{"preview=1", "", `preview cannot be "1"`},
		{"percent=null", "", `percent cannot be "null"`},
		{"percent=1.5", "", `percent cannot be "1.5"`},
		{"percent=99999999999999999999", "", `percent cannot be`},
		{"by=%zz", "", "the query cannot be read"},
		{"key=secret", "", "the partner's key must be in the body"},
		{"", "secret", "the body must be empty, or a JSON object of texts"},
		{"", `{"by":{"secret":1}}`, "the body must be empty, or a JSON object of texts"},
	} {
		_, err := operate.DecodeLike(httptest.NewRequest(http.MethodPost, "/x?"+row.query, strings.NewReader(row.body)), operate.Move{})
		if err == nil || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %s: %v, want %s", row.query, row.body, err, row.says)
		}
	}
}

// A refusal is text, and JSON with the kinds of the reasons for a program that asks for it.
func TestRefusalInJSON(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	r := httptest.NewRequest(http.MethodPost, filled("/rollout/stage?by=a&stage=new&partner=<k>"), nil)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	var refused operate.Error
	err := json.Unmarshal(w.Body.Bytes(), &refused)
	if err != nil || w.Code != 409 || refused.Text != "Not changed." || moves.JoinKinds(moves.KindsOf(refused.Reasons)) != "settling,verdict" ||
		!strings.HasPrefix(refused.Reasons[0].Text.String(), "no call of the partner was seen yet") {
		t.Errorf("%d %s %v", w.Code, w.Body, err)
	}
}
