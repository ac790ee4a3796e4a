package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
)

// members returns the names of an object's fields in their order, each with its JSON type.
func members(t *testing.T, object json.RawMessage) (list []string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(object))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		t.Fatalf("no object: %s", object)
	}
	for dec.More() {
		name, err := dec.Token()
		var v any
		if err != nil || dec.Decode(&v) != nil {
			t.Fatal(err)
		}
		kinds := map[string]string{"string": "string", "float64": "number", "<nil>": "null", "[]interface {}": "array", "map[string]interface {}": "object"}
		list = append(list, name.(string)+" "+kinds[fmt.Sprintf("%T", v)])
	}
	slices.Sort(list)
	return list
}

// hold compares the fields of an object with the documented ones, which are strings unless a type is given.
func hold(t *testing.T, object json.RawMessage, documented string) {
	t.Helper()
	var want []string
	for m := range strings.SplitSeq(documented, ",") {
		m = strings.TrimSpace(m)
		if !strings.Contains(m, " ") {
			m += " string"
		}
		want = append(want, m)
	}
	slices.Sort(want)
	if d := cmp.Diff(want, members(t, object)); d != "" {
		t.Errorf("the members are not the documented ones:\n%s", d)
	}
}

// The reply of each operation has exactly the documented fields with their documented types ("Endpoints").
// TestReadsHaveTheDocumentedFields covers reads.
func TestRepliesHaveTheDocumentedFields(t *testing.T) {
	t.Parallel()
	documented := map[string]map[string]string{
		"v2": {
			"create": "apiKey, member, merchant, billId, hash, shortUrl", "resend": "apiKey, billId", "destroy": "apiKey, billId",
			"cancel": "apiKey, member, merchant, billId, hash, apprNum, apprOriginNum, apprCancelDt",
		},
		"legacy": {
			"create": "code, msg, apikey, member, merchant, bill_id, hash", "resend": "code, msg",
			"destroy": "code, msg, apikey, member, merchant, bill_id, hash",
			"cancel":  "code, msg, apikey, member, merchant, bill_id, hash, appr_num, appr_origin_num, appr_cancel_dt",
		},
	}
	for form, ops := range documented {
		for op, want := range ops {
			t.Run(form+" "+op, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{NoLegacyShortURL: true})
				r.prepare(form+" "+op, "", "")
				reply := json.RawMessage(r.must(newCall(form, op)))
				if form == "v2" {
					hold(t, reply, "code, message, data object")
					reply = dataOf(t, reply)
				}
				hold(t, reply, want)
			})
		}
	}
	t.Run("legacy create with the field that clients read", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{})
		hold(t, json.RawMessage(r.must(newCall("legacy", "create"))), documented["legacy"]["create"]+", shortURL")
	})
	for path, want := range map[string]string{
		"/auth/mapping":          "url",
		"/read/mapping":          "partnerMember, partnerMerchant, companyNm, branchNm, businessNumber, ceoName, email, mappingStatus, regDt, updDt",
		"/auth/mapping/status":   "apiKey, member, merchant, companyNm, branchNm, businessNumber, reviewStatus",
		"/auth/merchant/mapping": "",
		"/read/merchant":         "memberId, merchantId, companyName, branchName, ceoName, email, businessNumber",
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{})
			_, body := r.post(path, encode(subBusiness[path]))
			if code := codeOf(t, "v2", body); code != "0000" {
				t.Fatal(body)
			}
			data := dataOf(t, json.RawMessage(body))
			switch {
			case want == "":
				hold(t, json.RawMessage(body), "code, message, data null")
			case strings.HasPrefix(path, "/read/"):
				hold(t, json.RawMessage(body), "code, message, data array")
				var list []json.RawMessage
				if err := json.Unmarshal(data, &list); err != nil || len(list) != 1 {
					t.Fatalf("%v in %s", err, data)
				}
				hold(t, list[0], want)
			default:
				hold(t, json.RawMessage(body), "code, message, data object")
				hold(t, data, want)
			}
		})
	}
}

func dataOf(t *testing.T, reply json.RawMessage) json.RawMessage {
	t.Helper()
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(reply, &envelope); err != nil {
		t.Fatal(err)
	}
	return envelope.Data
}

// approvalFields are the fields of "Approval and payment data": the names in legacy and v2, and the v2 types that are not
// string.
var approvalFields = []struct{ legacy, v2, kind string }{
	{"apikey", "apiKey", ""},
	{"bill_id", "billId", ""},
	{"appr_cat_id", "catId", ""},
	{"appr_pay_type", "apprPayType", "number"},
	{"appr_card_type", "apprCardType", ""},
	{"appr_dt", "apprDt", "number"},
	{"appr_origin_dt", "apprOriginDt", "number"},
	{"appr_price", "apprPrice", ""},
	{"appr_issuer", "apprIssuer", ""},
	{"appr_issuer_cd", "apprIssuerCd", ""},
	{"appr_issuer_num", "apprIssuerNum", ""},
	{"appr_acquirer_cd", "apprAcquirerCd", ""},
	{"appr_acquirer_nm", "apprAcquirerNm", ""},
	{"appr_num", "apprNum", ""},
	{"appr_origin_num", "apprOriginNum", ""},
	{"appr_res_cd", "apprResCd", ""},
	{"appr_monthly", "apprMonthly", ""},
	{"appr_state", "apprState", ""},
	{"appr_cash_num", "apprCashNum", ""},
	{"appr_cash_trader", "apprCashTrader", ""},
	{"appr_cash_issuance_number", "apprCashIssuanceNumber", ""},
	{"", "apprCardMerchantNum", ""},
	{"", "dscTxNum", ""},
	{"", "cardType", ""},
	{"", "apprSign", ""},
	{"", "udItem", "null"},
}

// A read has exactly the documented fields with their types, in both forms, every state and every kind of payment. Both
// forms show the same values, except as documented.
func TestReadsHaveTheDocumentedFields(t *testing.T) {
	t.Parallel()
	card := map[string]string{
		"appr_card_type": "신용", "appr_issuer": "신한카드", "appr_issuer_cd": "04", "appr_issuer_num": "4518-42**-****-1234",
		"appr_acquirer_cd": "04", "appr_acquirer_nm": "신한카드", "apprCardMerchantNum": "0012345678", "cardType": "신용",
	}
	receipt := func(class, number string) map[string]string {
		return map[string]string{"appr_cash_num": "700000001", "appr_cash_trader": class, "appr_cash_issuance_number": number}
	}
	rows := []struct {
		name, payType, number, monthly string
		p                              sandbox.Payment
		rest                           map[string]string
	}{
		{"card", "CARD_VAN", "1", "00", sandbox.Payment{}, card},
		{"card, installments", "CARD_VAN", "1", "03", sandbox.Payment{Method: "CARD_VAN", Months: 3}, card},
		{"keyed in, most installments", "KEYIN", "2", "99", sandbox.Payment{Method: "KEYIN", Months: 99}, card},
		{"card in the store", "OFFLINE_CARD", "3", "12", sandbox.Payment{Method: "OFFLINE_CARD", Months: 12}, card},
		{"simple pay", "SIMPLE_PAY", "0", "00", sandbox.Payment{Method: "SIMPLE_PAY"}, nil},
		{"cash", "OFFLINE_CASH", "4", "00", sandbox.Payment{Method: "OFFLINE_CASH"}, nil},
		{
			"personal receipt", "SIMPLE_PAY", "0", "00",
			sandbox.Payment{Method: "SIMPLE_PAY", CashReceipt: "personal", CashNumber: "01098765432"},
			receipt("0", "01098765432"),
		},
		{
			"business receipt", "OFFLINE_CASH", "4", "00",
			sandbox.Payment{Method: "OFFLINE_CASH", CashReceipt: "business", CashNumber: "1112233333"},
			receipt("1", "1112233333"),
		},
		{
			"self issue", "OFFLINE_CASH", "4", "00",
			sandbox.Payment{Method: "OFFLINE_CASH", CashReceipt: "self", CashNumber: "not looked at"},
			receipt("0", "0100001234"),
		},
	}
	for _, row := range rows {
		for _, form := range forms {
			t.Run(form+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				r := start(t, sandbox.Options{})
				want := map[string]string{"apikey": demoKey, "bill_id": billID, "appr_state": "W"}
				r.must(newCall(form, "create"))
				r.reads(want, "0")

				if err := r.PayWith(demoKey, billID, row.p); err != nil {
					t.Fatal(err)
				}
				for name, value := range row.rest {
					want[name] = value
				}
				for name, value := range map[string]string{
					"appr_state": "F", "appr_cat_id": "2863000001", "appr_pay_type": row.payType, "appr_dt": "20260302123456",
					"appr_origin_dt": "20260302123456", "appr_price": "30000", "appr_num": "30000001", "appr_origin_num": "30000001",
					"appr_res_cd": "0000", "appr_monthly": row.monthly, "dscTxNum": "TX000000000001",
				} {
					want[name] = value
				}
				r.reads(want, row.number)

				if err := r.SetClock(noon.Add(12 * time.Hour)); err != nil {
					t.Fatal(err)
				}
				r.must(newCall(form, "cancel"))
				want["appr_state"], want["appr_num"], want["appr_dt"] = "C", "30000002", "20260303003456"
				r.reads(want, row.number)
			})
		}
	}
	for _, form := range forms {
		t.Run(form+"/destroyed", func(t *testing.T) {
			t.Parallel()
			r := start(t, sandbox.Options{})
			r.must(newCall(form, "create"))
			r.must(newCall(form, "destroy"))
			r.reads(map[string]string{"apikey": demoKey, "bill_id": billID, "appr_state": "D"}, "0")
		})
	}
}

// reads compares the reads of both forms with values by legacy name, or by v2 name if legacy does not have the field.
// payType is the v2 number of the payment method.
func (r *rig) reads(want map[string]string, payType string) {
	r.t.Helper()
	var names [2][]string
	values := [2]map[string]string{{}, {}}
	for _, f := range approvalFields {
		value, kind := want[f.legacy], f.kind
		if f.legacy == "" {
			value = want[f.v2]
		} else {
			names[1] = append(names[1], f.legacy)
			values[1][f.legacy] = value
		}
		switch {
		case f.v2 == "apprPayType":
			value = payType
		case kind == "number" && value == "":
			value = "0" // the number without a value
		case kind == "null":
			value = "<nil>"
		case f.v2 == "apprCashTrader":
			value = map[string]string{"": "", "0": "PERSONAL", "1": "BUSINESS"}[value]
		}
		names[0] = append(names[0], strings.TrimSpace(f.v2+" "+kind))
		values[0][f.v2] = value
	}
	for i, form := range forms {
		object := json.RawMessage(r.must(newCall(form, "read")))
		if form == "v2" {
			hold(r.t, object, "code, message, data object")
			object = dataOf(r.t, object)
		}
		hold(r.t, object, strings.Join(names[i], ","))
		dec := json.NewDecoder(bytes.NewReader(object))
		dec.UseNumber()
		got := map[string]any{}
		if err := dec.Decode(&got); err != nil {
			r.t.Fatal(err)
		}
		texts := map[string]string{}
		for name, v := range got {
			texts[name] = fmt.Sprint(v)
		}
		if d := cmp.Diff(values[i], texts); d != "" {
			r.t.Errorf("%s, state %s:\n%s", form, want["appr_state"], d)
		}
	}
}
