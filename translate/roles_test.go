package translate_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/google/go-cmp/cmp"
)

// requested returns a call whose Request has succeeded.
func requested(t testing.TB, operation string, from, to translate.Form, doc string) *translate.Call {
	t.Helper()
	call := shipped().Operation(operation).Translation(from, to).Start()
	if _, err := call.Request(nil, []byte(doc)); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return call
}

// The values of all roles are found in every operation and in both forms.
func TestValuesOfRoles(t *testing.T) {
	t.Parallel()
	type values struct{ Partner, Bill, Member, Merchant, Address, Expiry string }
	bill := values{Partner: "k", Bill: "A1", Member: "m", Merchant: "s"}
	create := bill
	create.Address, create.Expiry = "https://p.example.com/c", "2026-11-30"
	register := values{Partner: "k", Member: "m", Merchant: "s", Address: "https://p.example.com/c"}
	for _, c := range []struct {
		operation string
		form      translate.Form
		doc       string
		want      values
	}{
		{"bill.create", "v2", `{"apiKey":"k","member":"m","merchant":"s","bill":{"sendType":"TALK","billId":"A1","expireDt":"2026-11-30","callbackUrl":"https://p.example.com/c"}}`, create},
		{"bill.create", "legacy", `{"apikey":"k","merchant":"s","member":"m","bill":{"bill_id":"A1","expire_dt":"2026-11-30","callbackURL":"https:\/\/p.example.com\/c"}}`, create},
		{"bill.create", "legacy", `{"key":"k","bill":{"billId":"A1","expireDt":"2026-11-30","callback_url":"https://p.example.com/c"}}`, values{}},
		{"bill.create", "legacy", `{"apikey":null,"merchant":"","bill":{"bill_id":12.0,"expire_dt":20261130,"callbackURL":7}}`, values{Bill: "12.0", Expiry: "20261130"}},
		{"bill.create", "legacy", `{"bill_id":"A1","callbackURL":"https://p.example.com/c"}`, values{}},
		{"bill.resend", "v2", `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":"A1"}}`, bill},
		{"bill.resend", "legacy", `{"apikey":"k","member":"m","merchant":"s","bill_id":"A1"}`, bill},
		{"bill.read", "v2", `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":"A1"}}`, bill},
		{"bill.read", "legacy", `{"apikey":"k","member":"m","merchant":"s","bill_id":"A\u0031"}`, bill},
		{"bill.destroy", "v2", `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":"A1","price":100}}`, bill},
		{"bill.destroy", "legacy", `{"apikey":"k","member":"m","merchant":"s","bill_id":"A1","price":"100"}`, bill},
		{"bill.cancel", "v2", `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":"A1","price":100}}`, bill},
		{"bill.cancel", "legacy", `{"apikey":"k","member":"m","merchant":"s","bill_id":"A1","price":"100"}`, bill},
		{"mapping.register", "v2", `{"apiKey":"k","memberId":"m","merchantId":"s","callbackUrl":"https://p.example.com/c","redirectUrl":"https://p.example.com/r"}`, register},
		{"mapping.list", "v2", `{"apiKey":"k","memberId":"m"}`, values{Partner: "k"}},
		{"mapping.status", "v2", `{"apiKey":"k","member":"m","merchant":"s"}`, values{Partner: "k", Member: "m", Merchant: "s"}},
		{"merchant.map", "v2", `{"apiKey":"k","memberId":"m","merchantId":"s"}`, values{Partner: "k", Member: "m", Merchant: "s"}},
		{"merchant.list", "v2", `{"apiKey":"k"}`, values{Partner: "k"}},
	} {
		for _, to := range forms {
			if shipped().Operation(c.operation).Translation(c.form, to) == nil {
				continue
			}
			call := requested(t, c.operation, c.form, to, c.doc)
			got := values{Partner: call.Value("partner"), Bill: call.Value("bill"), Expiry: call.Value("expiry")}
			got.Member, got.Merchant = call.Value("member"), call.Value("merchant")
			address, _, ok := call.StringValue("callback")
			if got.Address = address; ok != (address != "") {
				t.Errorf("%s: address %q, %v", c.doc, address, ok)
			}
			equal(t, got, c.want, c.operation, to, c.doc)
			call.Release()
			call = shipped().Operation(c.operation).Translation(c.form, to).Start()
			if _, _, ok := call.StringValue("callback"); ok || call.Value("bill")+call.Value("partner")+call.Value("expiry") != "" || len(call.Replace(nil, "callback", "x")) != 0 {
				t.Error("a new call has values of the call before it")
			}
			call.Release()
		}
	}
}

// An array or an object in the place of the key names nobody.
func TestNoValueOfAnArray(t *testing.T) {
	t.Parallel()
	call := shipped().Operation("bill.read").Translation("v2", "v2").Start()
	defer call.Release()
	if _, err := call.Request(nil, []byte(`{"apiKey":["demo"]}`)); err == nil || call.Value("partner") != "" {
		t.Errorf("%q, %v", call.Value("partner"), err)
	}
}

const ours = "https://bridge.example.com/c/7"

// Into the other form the result is that of Request with the other address. Replace does not change the report of Request, nor what a
// reply echoes.
func TestReplaceIntoTheOtherForm(t *testing.T) {
	t.Parallel()
	const doc = `{"apikey":"k","more":1,"bill":{"bill_id":"1","price":"50000","callbackURL":"https:\/\/partner.example.com\/c","message":"https://partner.example.com/c"}}`
	call := requested(t, "bill.create", "legacy", "v2", doc)
	defer call.Release()
	report := call.Report
	want := `{"apiKey":"k","bill":{"billId":"1","sendType":"TALK","price":50000,"message":"https://partner.example.com/c","callbackUrl":"` + ours + `"}}`
	for range 2 {
		equal(t, string(call.Replace([]byte("x"), "callback", ours)), "x"+want, want)
		if diff := cmp.Diff(report, call.Report); diff != "" || len(report.Defaulted) != 1 || report.Unknown != 1 {
			t.Errorf("the report, -before +after:\n%s", diff)
		}
		if address, _, ok := call.StringValue("callback"); address != "https://partner.example.com/c" || !ok {
			t.Errorf("the address of the client is now %s", address)
		}
	}
	back := requested(t, "bill.create", "v2", "legacy", want)
	defer back.Release()
	if got := string(back.Replace(nil, "callback", "https://two.example.com/")); !strings.Contains(got, `"callbackURL":"https://two.example.com/"`) || strings.Contains(got, ours) {
		t.Error(got)
	}
}

// A request without an address is not changed. Nothing is appended for a refused request.
func TestReplaceWithoutAString(t *testing.T) {
	t.Parallel()
	for _, value := range []string{``, `,"callbackURL":null`, `,"callbackURL":""`, `,"callbackURL":7`, `,"callbackURL":true`} {
		doc := `{"bill":{"bill_id":"1"` + value + `}}`
		for _, to := range forms {
			call := shipped().Operation("bill.create").Translation("legacy", to).Start()
			want, err := call.Request(nil, []byte(doc))
			must(t, err)
			if _, _, ok := call.StringValue("callback"); ok {
				t.Errorf("%s has an address", doc)
			}
			if got := call.Replace([]byte("x"), "callback", ours); string(got) != "x"+string(want) {
				t.Errorf("%s to %s: %s, want %s", doc, to, got, want)
			}
			call.Release()
		}
	}
	for _, doc := range []string{`{"bill":{"callbackURL":["https://partner.example.com/c"]}}`, `{"bill":{"bill_id":"1","callbackURL":{}}}`} {
		for _, to := range forms { // a backend could take an address from it that nobody has checked
			call := shipped().Operation("bill.create").Translation("legacy", to).Start()
			if _, err := call.Request(nil, []byte(doc)); err == nil || len(call.Replace(nil, "callback", ours)) != 0 {
				t.Errorf("%s to %s: refused with %v, but %s", doc, to, err, call.Replace(nil, "callback", ours))
			}
			call.Release()
		}
	}
	call := requested(t, "bill.read", "legacy", "v2", `{"bill_id":"1","callbackURL":"https://partner.example.com/c"}`)
	defer call.Release()
	equal(t, string(call.Replace(nil, "callback", ours)), `{"bill":{"billId":"1"}}`)
	if _, err := call.Request(nil, []byte(`{"bill_id":{}}`)); err == nil || len(call.Replace(nil, "callback", ours)) != 0 {
		t.Errorf("Replace appends the request before the refused one: %v", err)
	}
}

// Replace changes only the value of the role: everything else has the same content, and between equal forms the same bytes.
func FuzzReplace(f *testing.F) {
	seeds(f, func(_, direction uint8, doc, _ []byte) { f.Add(direction, doc, ours) })
	for _, doc := range []string{ // § is the address
		`{"b\u0069ll":{"c\u0061llbackUrl" : "\u0068ttps:\/\/x"}}`, " {\t\"bill\"\n:{ \"callbackURL\":\r§ , \"callbackUrl\":\"a\"}} ",
		" {\r\n\t\"bill\"  :\n{ \"callbackUrl\"\t:\r\n§ \t, \"x\" : 1.50 } } \n", `{"bill":{"price":5.00e1,"callbackUrl":§}}`,
		`{"message":§,"bill":{"message":§,"callbackUrl":§,"pageRedirectUrl":§},"callbackUrl":§}`, `{"callbackUrl":§,"bill":{"callbackUrl":§}}`,
		`{"bill":{"x":{"callbackUrl":§},"callbackUrl":§,"y":[§]},"callbackUrl":§}`, `{"bill":{"bill_id":§,"callbackUrl":§}}`,
	} {
		for direction := range uint8(4) {
			f.Add(direction, []byte(strings.ReplaceAll(doc, "§", `"https:\/\/partner.example.com\/\u0063"`)), `a"\`+"\n")
		}
	}
	nameOf := map[translate.Form]string{"v2": "callbackUrl", "legacy": "callbackURL"}
	f.Fuzz(func(t *testing.T, direction uint8, doc []byte, address string) {
		from, to := forms[direction>>1&1], forms[direction&1]
		address = strings.ToValidUTF8(address, "")
		call := shipped().Operation("bill.create").Translation(from, to).Start()
		defer call.Release()
		plain, err := call.Request(nil, doc)
		got := call.Replace(nil, "callback", address)
		if err != nil {
			if len(got) != 0 {
				t.Fatalf("refused, but %q", got)
			}
			return
		}
		read := func(doc []byte) (whole, bill map[string]any) {
			d := json.NewDecoder(bytes.NewReader(doc))
			d.UseNumber()
			if err := d.Decode(&whole); err != nil {
				t.Fatalf("%q: %v", doc, err)
			}
			bill, _ = whole["bill"].(map[string]any)
			return whole, bill
		}
		want, bill := read(plain)
		_, sent := read(doc)
		theirs, _, ok := call.StringValue("callback")
		if text, isText := sent[nameOf[from]].(string); text != theirs || ok != (isText && text != "") {
			t.Fatalf("the address is %q, %v, not %q", theirs, ok, text)
		}
		if !ok {
			if !bytes.Equal(got, plain) {
				t.Fatalf("no address, but %q became %q", plain, got)
			}
			return
		}
		bill[nameOf[to]] = address
		if now, _ := read(got); !reflect.DeepEqual(want, now) || strict(got) != nil {
			t.Fatalf("%q became %q", plain, got)
		}
		if from != to {
			return
		}
		// The bytes before and after the value are those of the client.
		begin, end := valueOffsets(t, doc, "bill", nameOf[from])
		before, behind := doc[:begin], doc[end:]
		var now string
		if !bytes.HasPrefix(got, before) || !bytes.HasSuffix(got, behind) || json.Unmarshal(got[begin:len(got)-len(behind)], &now) != nil || now != address {
			t.Fatalf("%q became %q", doc, got)
		}
	})
}

// valueOffsets returns where the value at the names begins and ends, as encoding/json reads it.
func valueOffsets(t *testing.T, doc []byte, names ...string) (begin, end int) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	for _, name := range names {
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			t.Fatalf("%q has no object around %s: %v", doc, name, err)
		}
		for {
			key, err := d.Token()
			if err != nil {
				t.Fatalf("%q has no %s: %v", doc, name, err)
			}
			if key == name {
				break
			}
			var skipped json.RawMessage
			must(t, d.Decode(&skipped))
		}
	}
	var value json.RawMessage
	must(t, d.Decode(&value))
	end = int(d.InputOffset())
	return end - len(value), end
}
