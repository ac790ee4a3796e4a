package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"billbridge/translate"
)

const ours = "https://bridge.example.com/c/7"

// Replace changes only the value of the role: everything else has the same content, and between equal forms the same bytes. It does
// not change the report of Request, nor what a reply echoes.
func FuzzReplace(f *testing.F) {
	seeds(f, func(_, direction uint8, doc, _ []byte) { f.Add(direction, doc, ours) })
	for _, doc := range []string{ // § is the address
		`{"b\u0069ll":{"c\u0061llbackUrl" : "\u0068ttps:\/\/x"}}`, " {\t\"bill\"\n:{ \"callbackURL\":\r§ , \"callbackUrl\":\"a\"}} ",
		" {\r\n\t\"bill\"  :\n{ \"callbackUrl\"\t:\r\n§ \t, \"x\" : 1.50 } } \n", `{"bill":{"price":5.00e1,"callbackUrl":§}}`,
		`{"message":§,"bill":{"message":§,"callbackUrl":§,"pageRedirectUrl":§},"callbackUrl":§}`, `{"callbackUrl":§,"bill":{"callbackUrl":§}}`,
		`{"bill":{"x":{"callbackUrl":§},"callbackUrl":§,"y":[§]},"callbackUrl":§}`, `{"bill":{"bill_id":§,"callbackUrl":§}}`,
		`{"bill":{"callbackURL":null}}`, `{"bill":{"callbackURL":""}}`, `{"bill":{"callbackURL":[§]}}`, `{"bill":{"callbackURL":{}}}`,
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
		report := fmt.Sprint(call.Report)
		got := call.Replace(nil, "callback", address)
		if again := call.Replace([]byte("x"), "callback", address); string(again[min(1, len(again)):]) != string(got) || fmt.Sprint(call.Report) != report {
			t.Fatalf("%q, then %q, with %s, then %v", got, again, report, call.Report)
		}
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
