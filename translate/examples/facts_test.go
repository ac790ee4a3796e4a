package examples

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
)

// Answers of two backends are compared in the first form: another spelling of the same decimal is no difference.
func TestFactsOfSpecialValues(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		operation string
		replies   map[translate.Form][]string
		want      string // the facts of all replies
	}{
		{"label.read", map[translate.Form][]string{
			"v1": {`{"result_cd":"00","result_msg":"","ref_no":"R1","state_time":"20261224153000","weight_g":"2500","insured":"Y","cod_amt":"0"}`},
			"v2": {
				`{"status":"SUCCESS","error":null,"result":{"reference":"R1","stateTime":"2026-12-24T15:30:00+09:00","weightKg":2.5,"insured":true}}`,
				`{"status":"SUCCESS","error":null,"result":{"reference":"R1","stateTime":"2026-12-24T15:30:00+09:00","weightKg":2.50,"insured":true}}`,
			},
		}, "state_time=20261224153000 weight_g=2500 insured=Y"},
		{"label.create", map[translate.Form][]string{
			"v1": {`{"result_cd":"00","result_msg":"","price":"12.50"}`, `{"result_cd":"00","result_msg":"","price":"12.5"}`},
			"v2": {`{"status":"SUCCESS","error":null,"result":{"price":12.50}}`, `{"status":"SUCCESS","error":null,"result":{"price":12.5}}`},
		}, "price=12.5"},
	} {
		for form, replies := range row.replies {
			for _, reply := range replies {
				call := table(t, "courier.yaml").Operation(row.operation).Translation(form, form).StartReply()
				if _, err := call.Reply(nil, 200, []byte(reply)); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range call.Facts(false) {
					if strings.Contains(row.want, f.Path+"=") {
						got = append(got, fmt.Sprintf("%s=%s", f.Path, f.Text))
					}
				}
				if all := strings.Join(got, " "); all != row.want {
					t.Errorf("%s %s: %s, want %s", form, reply, all, row.want)
				}
				call.Release()
			}
		}
	}
}
