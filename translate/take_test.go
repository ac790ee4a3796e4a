package translate_test

import (
	"errors"
	"fmt"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A request that was read once, before its upstream was known, is carried as if it had been read for that upstream: to the other
// form by the call that read it, to the same form by a call that takes it over. Roles say the same in all of them.
func TestRequestThatIsReadOnce(t *testing.T) {
	t.Parallel()
	enforcing, err := translate.Compile(32, billing.Table(), translate.File{Name: "enforce.yaml", Data: []byte("bounds: enforce\nunknown: {request: pass}")})
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{
		`{}`, `[]`, ``, `{"apiKey":"k","apiKey":"l"}`, `{"bill":5}`, `{"bill":null,"apikey":{"x":1},"apiKey":["k"]}`, `{"bill":{"billId":{},"price":"1e2"}}`,
		`{"apikey":"k","bill_id":[],"price":"x","unknown":{"deep":[1,2]}}`, `{"apiKey":"k","bill":{"sendType":"FAX","tax":"1","billId":"A"}}`,
		`{"\u0061pikey":"k","bill":{"bill_\u0069d":"A","colour":"red"},"z":1}`,
	}
	for _, table := range []*translate.Table{shipped(), enforcing} {
		for _, o := range table.Operations() {
			bodies := odd
			for _, g := range readGolden(t) {
				if g.Operation == o.Name {
					for _, p := range g.Requests {
						bodies = append(bodies, p.In)
					}
				}
			}
			for _, client := range table.Forms() {
				other := table.Forms()[0]
				if other == client {
					other = table.Forms()[1]
				}
				cross, same := o.Translation(client, other), o.Translation(client, client)
				if cross == nil || same == nil {
					continue
				}
				for _, body := range bodies {
					at := fmt.Sprintf("%s %s %s", o.Name, client, body)
					read := cross.Start()
					if err := read.Read([]byte(body)); err != nil {
						if _, want := same.Start().Request(nil, []byte(body)); want == nil || want.Error() != err.Error() {
							t.Errorf("%s: Read says %v, Request %v", at, err, want)
						}
						continue
					}
					taken := same.StartWith(read)
					for translation, call := range map[*translate.Translation]*translate.Call{cross: read, same: taken} {
						fresh := translation.Start()
						want, wantErr := fresh.Request(nil, []byte(body))
						for range 2 { // a call may be asked again, to find out whether the other form could carry it
							if got, err := call.Translate(nil); string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
								t.Errorf("%s: carried %s %v, want %s %v", at, got, err, want, wantErr)
							}
						}
						if got, want := string(call.Replace(nil, "callback", "here")), string(fresh.Replace(nil, "callback", "here")); got != want {
							t.Errorf("%s: %s, want %s", at, got, want)
						}
						// After a refusal a fresh call may not have read all of it.
						var refusal *translate.Refusal
						if !errors.As(wantErr, &refusal) && (billing.IdentityOf(call) != billing.IdentityOf(fresh) || call.Value("amount") != fresh.Value("amount")) {
							t.Errorf("%s: %v, want %v", at, billing.IdentityOf(call), billing.IdentityOf(fresh))
						}
						fresh.Release()
					}
					if billing.IdentityOf(taken) != billing.IdentityOf(read) {
						t.Errorf("%s: %v and %v", at, billing.IdentityOf(taken), billing.IdentityOf(read))
					}
					taken.Release()
					read.Release()
				}
			}
		}
	}
}
