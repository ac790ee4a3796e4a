package billing_test

import (
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// Every class of status, code and body of a reply, to a read, a create and another write, in both forms.
func TestSaysOf(t *testing.T) {
	t.Parallel()
	const (
		none, nothing, done, notFound = billing.NoReply, billing.Nothing, billing.Done, billing.NotFound
		exists, refused, caller       = billing.Exists, billing.Refused, billing.CallerRefused
	)
	statuses := [3][]int{{200, 201}, {302, 400, 404, 409, 429}, {500, 502, 503}}
	type want [3]billing.Says // by class of status
	type wants [3]want        // for a read, a create and a destroy
	all := func(s billing.Says) want { return want{s, s, s} }
	below500 := func(s billing.Says) want { return want{s, s, nothing} }
	same := func(w want) wants { return wants{w, w, w} }
	success := want{done, nothing, nothing}
	table := builtIn(t, translate.File{Name: "o.yaml", Data: []byte(`catalogue: [{code: "9800", form: legacy, means: exists}, {code: PARTNER_003, form: legacy, means: not_found}]`)})
	const bare = `{"DATA":{"BILL":"B1","STATE":"F"}}` // a success of a legacy read with HTTP 200
	for _, row := range []struct {
		reply      string // a code, or a whole reply
		v2, legacy wants
	}{
		{`{"code":"0000","DATA":{"BILL":"B1","STATE":"F"}}`, same(success), same(success)},
		{`{"code":"0000","DATA":{"BILL":"B1"}}`, wants{all(nothing), success, success}, wants{all(nothing), success, success}},
		{`{"code":"0000","DATA":{"BILL":"B1","STATE":3}}`, wants{all(nothing), success, success}, wants{all(nothing), success, success}},
		{`{"code":"0000","DATA":{"BILL":"B2","STATE":"F"}}`, same(all(none)), same(all(none))},
		{bare, same(all(none)), same(all(none))},
		{`{"code":null}`, same(all(none)), same(all(none))},
		{`{"code":""}`, same(all(none)), same(all(none))},
		{`{"code":0}`, same(all(none)), same(all(none))},
		{`{"code":{}}`, same(all(none)), same(all(none))},
		{`{}`, same(all(none)), same(all(none))},
		{`[]`, same(all(none)), same(all(none))},
		{``, same(all(none)), same(all(none))},
		{`<html>`, same(all(none)), same(all(none))},
		{`{"code":"BILL_003","code":"0000"}`, same(all(none)), same(all(none))},
		{"BILL_003", wants{below500(notFound), all(nothing), below500(notFound)}, wants{below500(notFound), all(nothing), below500(notFound)}},
		{"BILL_001", same(below500(exists)), same(below500(exists))},
		{"PAYMENT_003", same(below500(refused)), same(below500(refused))},
		{"BILL_010", same(below500(refused)), same(below500(refused))},
		{"PARTNER_006", same(below500(caller)), same(below500(caller))},
		{"VALIDATION_001", same(below500(caller)), same(below500(caller))},
		{"ERROR", same(all(nothing)), same(all(nothing))},
		{"MAINTAINED_METHOD", same(all(nothing)), same(all(nothing))},
		{"PAYMENT_001", same(all(nothing)), same(all(nothing))},
		{"BILL_002", same(all(nothing)), same(all(nothing))},
		{"BILL_006", same(all(nothing)), same(all(nothing))},
		{"POINT_001", same(all(nothing)), same(all(nothing))},
		{"9999", same(all(nothing)), same(all(nothing))},
		{"9980", same(all(nothing)), wants{below500(notFound), all(nothing), below500(notFound)}},
		{"9800", same(all(nothing)), same(below500(exists))},
		// A code with two meanings. If a create gets it, nothing was done.
		{"PARTNER_003", same(below500(caller)), wants{below500(notFound), below500(caller), below500(notFound)}},
	} {
		for i, name := range []string{"bill.read", "bill.create", "bill.destroy"} {
			for _, upstream := range table.Forms() {
				want := row.v2[i]
				reply := row.reply
				if reply != "" && !strings.ContainsAny(reply, "{[<") {
					reply = `{"code":"` + reply + `"}`
				}
				if upstream == "legacy" {
					want = row.legacy[i]
					reply = strings.ReplaceAll(strings.ReplaceAll(reply, `"DATA":{`, ""), "}}", "}")
					reply = strings.NewReplacer("BILL\"", `bill_id"`, "STATE", "appr_state").Replace(reply)
				}
				reply = strings.NewReplacer("DATA", "data", "BILL\"", `billId"`, "STATE", "apprState").Replace(reply)
				for _, client := range table.Forms() {
					translation := table.Operation(name).Translation(client, upstream)
					for class, list := range statuses {
						for _, status := range list {
							want := want[class]
							if row.reply == bare && upstream == "legacy" && name == "bill.read" && status == 200 {
								want = done
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
