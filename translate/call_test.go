package translate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
)

// A released call that is used again keeps nothing of the exchange before: no echo, no partner, no passed field, no value that a reply
// must equal, no report.
func TestReleasedCallKeepsNothing(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "unknown: {request: pass, reply: pass}")
	const empty = `{}`
	full := map[translate.Form]string{
		"legacy": `{"apikey":"SECRET","member":"SECRET","merchant":"SECRET","bill_id":"SECRET","price":"1","hash":"SECRET","SECRET":"SECRET","bill":{"bill_id":"SECRET"}}`,
		"v2":     `{"apiKey":"SECRET","member":"SECRET","merchant":"SECRET","bill":{"billId":"SECRET","price":1,"sendType":"TALK","hash":"SECRET","cancelReason":"SECRET","SECRET":1}}`,
	}
	fullReply := map[translate.Form]string{
		"v2":     `{"code":"0000","message":"SECRET","data":{"apiKey":"SECRET","billId":"SECRET","apprState":"F","hash":"SECRET","SECRET":"SECRET"}}`,
		"legacy": `{"code":"SECRET","msg":"SECRET","bill_id":"SECRET","appr_state":"F","SECRET":"SECRET"}`,
	}
	for _, name := range billOperations {
		for _, client := range forms {
			for _, upstream := range forms {
				translation := table.Operation(name).Translation(client, upstream)
				for range 20 { // the pool may hand out a new call now and then
					call := translation.Start()
					_, _ = call.Request(nil, []byte(full[client]))
					_, _ = call.Reply(nil, 200, []byte(fullReply[upstream]))
					call.Release()

					call = translation.Start()
					if call.Value("partner") != "" || call.Code() != "" || call.Succeeded() || call.Report.Unknown != 0 {
						t.Errorf("%s from %s to %s: a new call has %q %q", name, client, upstream, call.Value("partner"), call.Code())
					}
					before := fmt.Sprint(call.Report)
					sent, err := call.Request(nil, []byte(empty))
					if err != nil && !strings.HasPrefix(err.Error(), "BILL_008") || bytes.Contains(sent, []byte("SECRET")) {
						t.Errorf("%s from %s to %s: sends %s, %v", name, client, upstream, sent, err)
					}
					partner := call.Value("partner")
					got, _ := call.Reply(nil, 200, []byte(map[translate.Form]string{"v2": `{"code":"0000","message":"ok","data":{}}`, "legacy": `{"code":"0000","msg":"ok"}`}[upstream]))
					report := fmt.Sprint(call.Report)
					if bytes.Contains(got, []byte("SECRET")) || strings.Contains(before+report+partner, "SECRET") {
						t.Errorf("%s from %s to %s: answers %s %s %s", name, client, upstream, got, report, partner)
					}
					call.Release()

					// The bill of the request before must not make this a success.
					if name == "bill.read" && upstream == "legacy" {
						call = translation.Start()
						_, _ = call.Request(nil, []byte(empty))
						if out, err := call.Reply(nil, 200, []byte(`{"bill_id":"SECRET","appr_state":"F"}`)); err == nil {
							t.Errorf("from %s: a success by the request of another call: %s", client, out)
						}
						call.Release()
					}
				}
			}
		}
	}
}
