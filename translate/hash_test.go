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
	const destroy = `{"bill":{"billId":"B1","price":1}}`
	for name, row := range map[string]struct{ overlay, operation, form, request, text, hash string }{
		"with a phone":     {"", "bill.create", "legacy", `{"bill":{"bill_id":"B1","phone":"01000000000","price":"020000"}}`, "B1,01000000000,020000", "94ba6dd0e1fac53772c3a8a0aa857d2dabfd901249b152205e498e6a8f23cde0"},
		"an empty phone":   {"", "bill.create", "legacy", `{"bill":{"bill_id":"B1","phone":"","price":"020000"}}`, "B1,020000", "f21ce31f8f8ba38575870dbe78e9ff694cc03e9b65a168596a7f49dd5c488636"},
		"the other form":   {"", "bill.create", "v2", `{"bill":{"sendType":"URL","billId":"B1","phone":"01000000000","price":20000}}`, "B1,01000000000,20000", "fb59e3788be907c48e6353f48cc69f7b4187b70c306fa187605098f810b38d16"},
		"an escape":        {"", "bill.destroy", "v2", `{"bill":{"billId":"\u0042\/1","price":1}}`, "B/1,1", "3a058d24e2dc1229e0042b72305867ef98d39bfd789d3cf749404944e2567f6a"},
		"without the row":  {"operations: {bill.create: {request: [{v2: bill.phone, remove: true}], hash: {of: [bill.billId, bill.price]}}}", "bill.create", "legacy", `{"bill":{"bill_id":"B1","phone":"01000000000","price":"020000"}}`, "B1,020000", "f21ce31f8f8ba38575870dbe78e9ff694cc03e9b65a168596a7f49dd5c488636"},
		"in one form":      {"operations: {bill.create: {request: [{v2: bill.phone, legacy: null, loss: drop}]}}", "bill.create", "v2", `{"bill":{"billId":"B1","phone":"01000000000","price":20000}}`, "B1,01000000000,20000", "fb59e3788be907c48e6353f48cc69f7b4187b70c306fa187605098f810b38d16"},
		"huge digits":      {"", "bill.cancel", "legacy", `{"bill_id":"B1","price":"9007199254740993000001"}`, "B1,9007199254740993000001", "b3d0621f5314555bb6010a6deeff8b798660210258dd731e5ff21051c680dd39"},
		"HMAC":             {"hash: {algorithm: hmac-sha256}", "bill.destroy", "v2", destroy, "B1,1", "e0b68ad0208dd055216aca383d30e28c40ee13ab564bb3a5f620b5da74d14b30"},
		"the secret first": {"hash: {key: first}", "bill.destroy", "v2", destroy, "B1,1", "0e07593613e10dad6095fd08052477683cadfee56d04b190c2908b8f1cb0c5fd"},
		"the secret last":  {"hash: {key: last, join: '|'}", "bill.destroy", "v2", destroy, "B1|1", "4160497786f86837fc7ed8b112cb21f5f4ec7d987f6832a274de3e3f4e0db95d"},
		"another order":    {"operations: {bill.destroy: {hash: {of: {v2: [bill.price, bill.billId], legacy: [bill.billId]}}}}", "bill.destroy", "v2", destroy, "1,B1", "2b9088ae285642ed42d152062fc460eeb4a56c9343f2cce65e19ff278d9baaa0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			form := translate.Form(row.form)
			call := overlaid(t, row.overlay).Operation(row.operation).Translation(form, form).Start()
			defer call.Release()
			must(t, call.Read([]byte(row.request)))
			got, err := call.Sign("s3cret")
			must(t, err)
			equal(t, got.Text, row.text)
			equal(t, got.Hash, row.hash)
		})
	}
}

// A hash of a similar text does not verify.
func TestVerifyHash(t *testing.T) {
	t.Parallel()
	const good = "94ba6dd0e1fac53772c3a8a0aa857d2dabfd901249b152205e498e6a8f23cde0" // of B1,01000000000,020000
	const request = `{"bill":{"bill_id":"B1","phone":"01000000000","price":"020000","hash":"` + good + `"}}`
	for name, row := range map[string]struct{ path, value, want string }{
		"as it is":       {"bill.member_nm", `"x"`, ""},
		"another digit":  {"bill.price", `"020001"`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"no zero":        {"bill.price", `"20000"`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"no phone":       {"bill.phone", `null`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"another id":     {"bill.bill_id", `"B2"`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"capitals":       {"bill.hash", `"` + strings.ToUpper(good) + `"`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"a space":        {"bill.hash", `"` + good + ` "`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"empty":          {"bill.hash", `""`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"null":           {"bill.hash", `null`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"an object":      {"bill.hash", `{}`, "VALIDATION_002 bill.hash: is not the hash of the request"},
		"no price":       {"bill.price", `""`, "VALIDATION_001 bill.price: is missing"},
		"phone an array": {"bill.phone", `["01000000000"]`, "VALIDATION_001 bill.phone: has the wrong type: want a single value, got an array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := shipped().Operation("bill.create").Translation("legacy", "legacy").Start()
			defer call.Release()
			doc, err := sjson.SetRaw(request, row.path, row.value)
			must(t, err)
			must(t, call.Read([]byte(doc)))
			got := ""
			if err := call.VerifyHash(""); err != nil {
				var refusal *translate.Refusal
				if got = err.Error(); !errors.As(err, &refusal) {
					t.Errorf("%T", err)
				}
			}
			equal(t, got, row.want)
		})
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
