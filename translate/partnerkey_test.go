package translate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// R45: a success with another partner's key is unusable. The key may be missing or masked. Another member or merchant is counted.
func TestR45_RepliesAreAboutTheirPartner(t *testing.T) {
	t.Parallel()
	requests := map[translate.Form]string{
		"v2":     `{"apiKey":"the-key","member":"m1","merchant":"s1","bill":{"billId":"B1","sendType":"TALK"}}`,
		"legacy": `{"apikey":"the-key","member":"m1","merchant":"s1","bill_id":"B1","bill":{"bill_id":"B1"}}`,
	}
	exchanged := overlaid(t, "operations: {bill.create: {reply: [{v2: member, legacy: merchant, replaces: v2}, {v2: merchant, legacy: member, replaces: v2}]}}")
	without := overlaid(t, "operations: {bill.read: {reply: [{v2: apiKey, remove: true}]}}")
	for _, row := range []struct {
		table    *translate.Table
		fields   string // of the reply
		unusable bool
		counted  []string
		only     string // operations that have the fields
	}{
		{shipped(), `"KEY":"the-key"`, false, nil, ""},
		{shipped(), `"x":1`, false, nil, ""},
		{shipped(), `"KEY":""`, false, nil, ""},
		{shipped(), `"KEY":null`, false, nil, ""},
		{shipped(), `"KEY":"the-***"`, false, nil, ""},
		{shipped(), `"KEY":"********"`, false, nil, ""},
		{shipped(), `"KEY":"another-key"`, true, nil, ""},
		{shipped(), `"KEY":"the-key "`, true, nil, ""},
		{shipped(), `"KEY":"The-Key"`, true, nil, ""},
		{shipped(), `"KEY":7`, true, nil, ""},
		{shipped(), `"KEY":["the-***"]`, true, nil, ""},
		{without, `"KEY":"another-key"`, false, nil, "bill.read"},
		{shipped(), `"member":"m1","merchant":"s1"`, false, nil, "bill.create bill.cancel"},
		{shipped(), `"member":"s1","merchant":"m1"`, false, []string{"member", "merchant"}, "bill.create bill.cancel"},
		{shipped(), `"member":"","merchant":"other"`, false, []string{"merchant"}, "bill.create bill.cancel"},
		{exchanged, `"member":"s1","merchant":"m1"`, false, nil, "bill.create"},
		{exchanged, `"member":"m1","merchant":"s1"`, false, []string{"merchant", "member"}, "bill.create"},
	} {
		for _, name := range []string{"bill.create", "bill.resend", "bill.read", "bill.destroy", "bill.cancel"} {
			if row.only != "" && !strings.Contains(row.only, name) {
				continue
			}
			for client, request := range requests {
				for upstream, reply := range map[translate.Form]string{
					"v2":     `{"code":"0000","message":"ok","data":{"billId":"B1","apprState":"F",` + strings.Replace(row.fields, "KEY", "apiKey", 1) + `}}`,
					"legacy": `{"code":"0000","msg":"ok","bill_id":"B1","appr_state":"F",` + strings.Replace(row.fields, "KEY", "apikey", 1) + `}`,
				} {
					if upstream == "legacy" && name == "bill.resend" || upstream == "v2" && row.table == exchanged {
						continue // the reply of a legacy resend has only code and msg; v2 exchanges nothing
					}
					for _, bare := range []bool{false, true} {
						if bare && (upstream != "legacy" || name != "bill.read") {
							continue
						}
						if bare {
							reply = strings.Replace(reply, `"code":"0000","msg":"ok",`, "", 1)
						}
						call := row.table.Operation(name).Translation(client, upstream).Start()
						if _, err := call.Request(nil, []byte(request)); err != nil {
							t.Fatal(err)
						}
						out, err := call.Reply(nil, 200, []byte(reply))
						var none *translate.UnusableReply
						if errors.As(err, &none) != row.unusable || row.unusable && (call.Code() != "" || len(out) > 0 || !strings.EqualFold(none.Field, "apikey")) {
							t.Errorf("%s from %s to %s: %s became %s, %v", name, client, upstream, reply, out, err)
						}
						for _, field := range []string{"member", "merchant"} {
							counted := false
							for i, path := range call.Report.Mismatched {
								counted = counted || path == field && call.Report.Mismatches[i].String() == "is not the value of the request"
							}
							equal(t, counted, slices.Contains(row.counted, field), name, client, upstream, reply,
								call.Report.Mismatched)
						}
						call.Release()
					}
				}
			}
		}
	}
}
