package translate_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// The hashes are those of printf %s TEXT | sha256sum, and of openssl dgst -sha256 -hmac s3cret.
func TestSignRequest(t *testing.T) {
	t.Parallel()
	type row struct {
		Name, Overlay, Operation, Request, Text, Hash string
		Form                                          translate.Form
	}
	for _, row := range cases[row](t, "hash") {
		call := overlaid(t, row.Overlay).Operation(row.Operation).Translation(row.Form, row.Form).Start()
		must(t, call.Read([]byte(row.Request)))
		got, err := call.Sign("s3cret")
		must(t, err)
		equal(t, got.Text+" "+got.Hash, row.Text+" "+row.Hash, row.Name)
		call.Release()
	}
}

// A hash of a similar text does not verify.
func TestVerifyHash(t *testing.T) {
	t.Parallel()
	const good = "94ba6dd0e1fac53772c3a8a0aa857d2dabfd901249b152205e498e6a8f23cde0" // of B1,01000000000,020000
	const request = `{"bill":{"bill_id":"B1","phone":"01000000000","price":"020000","hash":"` + good + `"}}`
	type row struct{ Name, Path, Value, Want string }
	for _, row := range cases[row](t, "hash-verify") {
		call := shipped().Operation("bill.create").Translation("legacy", "legacy").Start()
		doc, err := sjson.SetRaw(request, row.Path, row.Value)
		must(t, err)
		must(t, call.Read([]byte(doc)))
		got := ""
		if err := call.VerifyHash(""); err != nil {
			var refusal *translate.Refusal
			if got = err.Error(); !errors.As(err, &refusal) {
				t.Errorf("%T", err)
			}
		}
		equal(t, got, row.Want, row.Name)
		call.Release()
	}
}

// renewRequests are requests in both forms, with the hash after and before the callback address.
var renewRequests = map[string][]string{
	"bill.create/v2": {
		`{"apiKey":"k","bill":{"sendType":"TALK","billId":"B1","price":20000,"hash":"§","callbackUrl":"https://p.example.com/c","phone":"01000000000"}}`,
		`{ "bill": {"callbackUrl":"https:\/\/p.example.com\/c", "price": "20000", "billId":"B1","hash" : "§","sendType":"TALK"}}`,
	},
	"bill.create/legacy":  {`{"apikey":"k","bill":{"callbackURL":"https://p.example.com/c","hash":"§","bill_id":"B1","price":"20000"}}`},
	"bill.destroy/v2":     {`{"apiKey":"k","bill":{"billId":"B1","price":20000,"hash":"§"}}`},
	"bill.destroy/legacy": {`{"apikey":"k","hash":"§","bill_id":"B1","price":20000}`},
	"bill.cancel/legacy":  {`{"apikey":"k","bill_id":"B1","hash":"§","price":"20000"}`},
}

// A renewed hash is that of what is sent. No other byte of the request changes, and the partner gets its own hash back.
func TestRenewHash(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "hash: {algorithm: hmac-sha256}\noperations: {bill.create: {reply: [{v2: hash, legacy: hash, must_equal_request: bill.hash}]}}")
	for place, requests := range renewRequests {
		for i, request := range requests {
			for _, to := range table.Forms() {
				t.Run(fmt.Sprint(place, i, "/", to), func(t *testing.T) {
					t.Parallel()
					name, form, _ := strings.Cut(place, "/")
					o, client := table.Operation(name), translate.Form(form)
					text := "B1,20000"
					if strings.Contains(request, "01000000000") {
						text = "B1,01000000000,20000"
					}
					sent, renewed := keyedHash("of the partner", text), keyedHash("of the backend", text)
					call := o.Translation(client, to).Start()
					defer call.Release()
					passed, err := call.Request(nil, []byte(strings.Replace(request, "§", sent, 1)))
					must(t, err)
					must(t, call.VerifyHash("of the partner"))
					if call.VerifyHash("of the backend") == nil {
						t.Error("it verifies with another secret")
					}
					got, err := call.RenewHash(passed, "of the backend")
					must(t, err)
					equal(t, string(got), strings.Replace(string(passed), sent, renewed, 1))

					const ours = "https://bridge.example.com/c/1"
					swapped := strings.NewReplacer("https://p.example.com/c", ours, `https:\/\/p.example.com\/c`, ours).Replace(string(got))
					equal(t, string(call.Replace(nil, "callback", ours)), swapped)

					reply := translationReply(t, o, to, renewed)
					answer, err := call.Reply(nil, 200, []byte(reply))
					must(t, err)
					if lacks := name == "bill.destroy" && client == "v2"; strings.Contains(string(answer), renewed) || !lacks && !strings.Contains(string(answer), sent) {
						t.Errorf("%s\n%s", reply, answer)
					}
				})
			}
		}
	}
}

// translationReply returns a success of an operation that repeats a hash.
func translationReply(t *testing.T, o *translate.Operation, form translate.Form, hash string) string {
	t.Helper()
	example := string(o.Schema(translate.Reply, form).AppendExample(nil))
	for path, value := range map[string]string{"apikey": "k", "bill_id": "B1", "hash": hash, "apiKey": "k", "billId": "B1"} {
		for _, full := range []string{path, "data." + path} {
			if gjson.Get(example, full).Exists() {
				var err error
				example, err = sjson.Set(example, full, value)
				must(t, err)
			}
		}
	}
	return example
}

func keyedHash(secret, text string) string {
	sum := hmac.New(sha256.New, []byte(secret))
	_, _ = sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil))
}
