package translate_test

import (
	"testing"

	"billbridge/translate"
)

// TestR01_NamesThatDifferInCaseOnly: a backend that ignores case takes the last of such names, whatever the gateway has checked. They
// are refused in both directions and between equal forms, with the code of the row, wherever they stand; so is an object or an array
// in place of a value that the gateway goes by.
func TestR01_NamesThatDifferInCaseOnly(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		operation  string
		client     translate.Form
		doc, wants string // the refusal, "" for none
	}{
		"a second bill":                 {"bill.read", "v2", `{"apiKey":"k","bill":{"billId":"B1","BILLID":"B2"}}`, "VALIDATION_001 bill.BILLID: differs from billId in case only"},
		"before the first":              {"bill.read", "v2", `{"bill":{"Billid":"B2","billId":"B1"},"apiKey":"k"}`, "VALIDATION_001 bill.Billid: differs from billId in case only"},
		"instead of the first":          {"bill.read", "legacy", `{"apikey":"k","Bill_ID":"B2"}`, "VALIDATION_001 Bill_ID: differs from bill_id in case only"},
		"a second key":                  {"bill.cancel", "legacy", `{"apikey":"k","apiKey":"l"}`, "PARTNER_002 apiKey: differs from apikey in case only"},
		"a second address":              {"bill.create", "legacy", `{"bill":{"callbackURL":"https://a.example.com","callbackUrl":"http://10.0.0.1"}}`, "VALIDATION_001 bill.callbackUrl: differs from callbackURL in case only"},
		"a second object":               {"bill.create", "v2", `{"bill":{"sendType":"URL","billId":"B1"},"BILL":{"billId":"B2"}}`, "VALIDATION_001 BILL: differs from bill in case only"},
		"escaped":                       {"bill.create", "v2", `{"bill":{"sendType":"URL","billId":"B1","bill\u0049d":"B2","\u0042illId":"B2"}}`, "VALIDATION_001 bill.billId: the name appears twice"},
		"escaped, in another case":      {"bill.create", "v2", `{"bill":{"sendType":"URL","billId":"B1","\u0042illId":"B2"}}`, "VALIDATION_001 bill.BillId: differs from billId in case only"},
		"a Kelvin sign":                 {"bill.create", "v2", `{"bill":{"sendType":"URL"},"apiKey":"k","api\u212aey":"l"}`, "PARTNER_002 api\u212aey: differs from apiKey in case only"},
		"a long s":                      {"bill.cancel", "legacy", `{"apikey":"k","bill_id":"1","ha\u017fh":"x","hash":"y"}`, "VALIDATION_001 haſh: differs from hash in case only"},
		"another field":                 {"bill.cancel", "legacy", `{"apikey":"k","bill_id":"1","bill-id":"2","billid":"3"}`, ""},
		"at another place":              {"bill.create", "v2", `{"bill":{"sendType":"TALK","billId":"1"},"BillId":"2","meta":{"BILLID":"3"}}`, ""},
		"a sub-business operation":      {"mapping.list", "v2", `{"apiKey":"k","APIKEY":"l"}`, "VALIDATION_001 APIKEY: differs from apiKey in case only"},
		"an object for a bill":          {"bill.read", "v2", `{"apiKey":"k","bill":{"billId":{"$ne":""}}}`, "VALIDATION_001 bill.billId: has the wrong type: want a single value, got an object"},
		"an array for a key":            {"bill.read", "legacy", `{"apikey":["k"],"bill_id":"1"}`, "PARTNER_002 apikey: has the wrong type: want a single value, got an array"},
		"an array at an ordinary field": {"mapping.register", "v2", `{"apiKey":"k","redirectUrl":["x"]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, upstream := range forms {
				translation := shipped().Operation(row.operation).Translation(row.client, upstream)
				if translation == nil {
					continue
				}
				call := translation.Start()
				got := ""
				if _, err := call.Request(nil, []byte(row.doc)); err != nil {
					got = err.Error()
				}
				equal(t, got, row.wants, upstream)
				if row.wants != "" && call.Read([]byte(row.doc)) == nil {
					t.Errorf("to %s: Read takes it", upstream)
				}
				call.Release()
			}
		})
	}
}
