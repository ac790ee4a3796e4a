package billing_test

import (
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// saysRows are the rows of TestSaysOf: a reply, or its code, and what it says to a read, a create and a destroy in v2 and in legacy.
// One word is for all of them. done, refused and so on are the values of billing.Says with every status, with <500 below that;
// success is done with 200. DATA, BILL and STATE stand for the names of the form. PARTNER_003 has two meanings: if a create gets it,
// nothing was done. The reply without a code is a success of a legacy read with HTTP 200.
const saysRows = `
{"code":"0000","DATA":{"BILL":"B1","STATE":"F"}}   | success                               | success
{"code":"0000","DATA":{"BILL":"B1"}}               | nothing success success               | nothing success success
{"code":"0000","DATA":{"BILL":"B1","STATE":3}}     | nothing success success               | nothing success success
{"code":"0000","DATA":{"BILL":"B2","STATE":"F"}}   | none                                  | none
{"DATA":{"BILL":"B1","STATE":"F"}}                 | none                                  | none
{"code":null}                                      | none                                  | none
{"code":""}                                        | none                                  | none
{"code":0}                                         | none                                  | none
{"code":{}}                                        | none                                  | none
{}                                                 | none                                  | none
[]                                                 | none                                  | none
                                                   | none                                  | none
<html>                                             | none                                  | none
{"code":"BILL_003","code":"0000"}                  | none                                  | none
BILL_003                                           | notFound<500 nothing notFound<500     | notFound<500 nothing notFound<500
BILL_001                                           | exists<500                            | exists<500
PAYMENT_003                                        | refused<500                           | refused<500
BILL_010                                           | refused<500                           | refused<500
PARTNER_006                                        | caller<500                            | caller<500
VALIDATION_001                                     | caller<500                            | caller<500
ERROR                                              | nothing                               | nothing
MAINTAINED_METHOD                                  | nothing                               | nothing
PAYMENT_001                                        | nothing                               | nothing
BILL_002                                           | nothing                               | nothing
BILL_006                                           | nothing                               | nothing
POINT_001                                          | nothing                               | nothing
9999                                               | nothing                               | nothing
9980                                               | nothing                               | notFound<500 nothing notFound<500
9800                                               | nothing                               | exists<500
PARTNER_003                                        | caller<500                            | notFound<500 caller<500 notFound<500
`

// Every class of status, code and body of a reply, to a read, a create and another write, in both forms.
func TestSaysOf(t *testing.T) {
	t.Parallel()
	statuses := [3][]int{{200, 201}, {302, 400, 404, 409, 429}, {500, 502, 503}}
	table := builtIn(t, translate.File{Name: "o.yaml", Data: []byte(`forms: {legacy: {codes: {"9800": exists, PARTNER_003: not_found}}}`)})
	values := map[string]billing.Says{
		"none": billing.NoReply, "nothing": billing.Nothing, "done": billing.Done, "notFound": billing.NotFound,
		"exists": billing.Exists, "refused": billing.Refused, "caller": billing.CallerRefused,
	}
	// wanted is what a word says for a class of status.
	wanted := func(words string, operation, class int) billing.Says {
		all := strings.Fields(words)
		word := all[min(operation, len(all)-1)]
		switch said, low := strings.CutSuffix(word, "<500"); {
		case word == "success" && class == 0:
			return billing.Done
		case word == "success" || low && class == 2:
			return billing.Nothing
		default:
			return values[said]
		}
	}
	for row := range strings.Lines(strings.TrimSpace(saysRows)) {
		cells := strings.Split(row, "|")
		for i, name := range []string{"bill.read", "bill.create", "bill.destroy"} {
			for _, upstream := range table.Forms() {
				words, reply := cells[1], strings.TrimSpace(cells[0])
				bare := strings.HasPrefix(reply, `{"DATA"`)
				if reply != "" && !strings.ContainsAny(reply, "{[<") {
					reply = `{"code":"` + reply + `"}`
				}
				if upstream == "legacy" {
					words = cells[2]
					reply = strings.ReplaceAll(strings.ReplaceAll(reply, `"DATA":{`, ""), "}}", "}")
					reply = strings.NewReplacer("BILL\"", `bill_id"`, "STATE", "appr_state").Replace(reply)
				}
				reply = strings.NewReplacer("DATA", "data", "BILL\"", `billId"`, "STATE", "apprState").Replace(reply)
				for _, client := range table.Forms() {
					translation := table.Operation(name).Translation(client, upstream)
					for class, list := range statuses {
						for _, status := range list {
							want := wanted(words, i, class)
							if bare && upstream == "legacy" && name == "bill.read" && class == 0 {
								want = billing.Done
							}
							call := translation.Start()
							if _, err := call.Request(nil, []byte(map[translate.Form]string{
								"v2": `{"apiKey":"k","bill":{"billId":"B1","sendType":"TALK"}}`, "legacy": `{"apikey":"k","bill_id":"B1","bill":{"bill_id":"B1"}}`,
							}[client])); err != nil {
								t.Fatal(err)
							}
							_, _ = call.Reply(nil, status, []byte(reply))
							if got := billing.SaysOf(call, status); got != want {
								t.Errorf("%s from %s to %s, HTTP %d %s: %s, want %s", name, client, upstream, status, reply, got, want)
							}
							call.Release()
						}
					}
				}
			}
		}
	}
}
