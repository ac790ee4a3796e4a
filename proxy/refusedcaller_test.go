package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
)

// refuseWith refuses every call with a code.
func refuseWith(form, code, text string) http.Handler {
	if form == "legacy" {
		return replyWith(200, fmt.Sprintf(`{"code":%q,"msg":%q}`, code, text))
	}
	return replyWith(200, fmt.Sprintf(`{"code":%q,"message":%q,"data":null}`, code, text))
}

// The backends refuse a create without a merchant, in stage new as in stage old.
func TestCreateWithoutAMerchantIsRefused(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		codes := map[string]string{}
		for _, stage := range []string{"old", "new"} {
			m := newRolloutGateway(t, stage)
			got := m.send(newCall(client, "create").with("merchant", ""))
			codes[stage] = codeOf(t, client, got.body)
			if got.status != 200 || codes[stage] == "MAINTAINED_METHOD" || len(m.old.Bills())+len(m.fresh.Bills()) != 0 {
				t.Errorf("%s: %d %s", stage, got.status, got.body)
			}
		}
		equal(t, codes["old"], codes["new"], codes)
	}
}

// The table can say that this refusal means "no such bill". If it does not, it is unknown whether the old backend has
// the bill.
func TestPartnerUnknownToTheOldBackendCreatesAtTheNewOne(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"PARTNER_003", "PARTNER_005", "PARTNER_007"} {
		for name, want := range map[string]int{"not found": 200, "refused": 503} {
			parallel(t, code+" "+name, func(t *testing.T) {
				more := ""
				if want == 200 {
					more = overlayAfter(t, "catalogue: [{code: "+code+", form: legacy, means: not_found}]")
				}
				m := newRolloutWith(t, "new", at("old", refuseWith("legacy", code, "who is it?")), more)
				m.send(legacy("create")).is(t, want)
				m.checkBills(0, map[int]int{200: 1}[want])
				if want == 503 {
					m.checkMetric(`billbridge_rollout_refused_total{reason="barred"} 1`)
				}
			})
		}
	}
}
