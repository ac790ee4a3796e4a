package translate_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// All goroutines of a gateway share a table and its translations. Concurrent exchanges do not get each other's values.
func TestTableIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "unknown: {request: pass, reply: pass}")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 {
				id := fmt.Sprintf("%d-%d", worker, i)
				call := table.Operation("bill.destroy").Translation("legacy", "v2").Start()
				out, err := call.Request(nil, []byte(`{"apikey":"k`+id+`","member":"m`+id+`","bill_id":"`+id+`","lang`+id+`":1}`))
				if want := `{"apiKey":"k` + id + `","member":"m` + id + `","bill":{"billId":"` + id + `"},"lang` + id + `":1}`; err != nil || string(out) != want {
					t.Errorf("%s, %v", out, err)
				}
				equal(t, call.Value("partner"), "k"+id, id)
				out, err = call.Reply(nil, 200, []byte(`{"code":"0000","message":"ok","data":{"billId":"`+id+`"}}`))
				if want := `{"code":"0000","msg":"ok","member":"m` + id + `","bill_id":"` + id + `"}`; err != nil || string(out) != want {
					t.Errorf("%s, %v", out, err)
				}
				call.Release()
				body, notice, err := table.Callback().Translate(nil, []byte(`{"apiKey":"k`+id+`","billId":"`+id+`","x`+id+`":1}`), "v2", "legacy")
				if want := `{"apikey":"k` + id + `","bill_id":"` + id + `","x` + id + `":1}`; err != nil || string(body) != want || notice.Values["bill"][0] != id {
					t.Errorf("%s %v, %v", body, notice.Values, err)
				}
				if _, err := table.YAML(); i == 0 && err != nil {
					t.Error(err)
				}
				if i == 0 {
					table.Operation("bill.read").Fields()
				}
			}
		})
	}
	group.Wait()
}

// A released call that is used again keeps nothing of the exchange before: no echo, no partner, no passed field, no value that a reply
// must equal, no report.
func TestReleasedCallKeepsNothing(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "unknown: {request: {legacy: pass, v2: drop}, reply: {v2: pass, legacy: drop}}")
	const empty = `{}`
	full := map[translate.Form]string{
		"legacy": `{"apikey":"SECRET","member":"SECRET","merchant":"SECRET","bill_id":"SECRET","price":"1","hash":"SECRET","SECRET":"SECRET","bill":{"bill_id":"SECRET"}}`,
		"v2":     `{"apiKey":"SECRET","member":"SECRET","merchant":"SECRET","bill":{"billId":"SECRET","price":1,"sendType":"TALK","hash":"SECRET","cancelReason":"SECRET","SECRET":1}}`,
	}
	fullReply := map[translate.Form]string{
		"v2":     `{"code":"0000","message":"SECRET","data":{"apiKey":"SECRET","billId":"SECRET","apprState":"F","hash":"SECRET","SECRET":"SECRET"}}`,
		"legacy": `{"code":"SECRET","msg":"SECRET","bill_id":"SECRET","appr_state":"F","SECRET":"SECRET"}`,
	}
	for _, name := range billOperations {
		for _, client := range forms {
			for _, upstream := range forms {
				translation := table.Operation(name).Translation(client, upstream)
				for range 20 { // the pool may hand out a new call now and then
					call := translation.Start()
					_, _ = call.Request(nil, []byte(full[client]))
					_, _ = call.Reply(nil, 200, []byte(fullReply[upstream]))
					call.Release()

					call = translation.Start()
					if call.Value("partner") != "" || call.Code() != "" || call.Succeeded() || call.Report.Unknown != 0 {
						t.Errorf("%s from %s to %s: a new call has %q %q", name, client, upstream, call.Value("partner"), call.Code())
					}
					before := fmt.Sprint(call.Report)
					sent, err := call.Request(nil, []byte(empty))
					if err != nil && !strings.HasPrefix(err.Error(), "BILL_008") || bytes.Contains(sent, []byte("SECRET")) {
						t.Errorf("%s from %s to %s: sends %s, %v", name, client, upstream, sent, err)
					}
					partner := call.Value("partner")
					got, _ := call.Reply(nil, 200, []byte(map[translate.Form]string{"v2": `{"code":"0000","message":"ok","data":{}}`, "legacy": `{"code":"0000","msg":"ok"}`}[upstream]))
					report := fmt.Sprint(call.Report)
					if bytes.Contains(got, []byte("SECRET")) || strings.Contains(before+report+partner, "SECRET") {
						t.Errorf("%s from %s to %s: answers %s %s %s", name, client, upstream, got, report, partner)
					}
					call.Release()

					// The bill of the request before must not make this a success.
					if name == "bill.read" && upstream == "legacy" {
						call = translation.Start()
						_, _ = call.Request(nil, []byte(empty))
						if out, err := call.Reply(nil, 200, []byte(`{"bill_id":"SECRET","appr_state":"F"}`)); err == nil {
							t.Errorf("from %s: a success by the request of another call: %s", client, out)
						}
						call.Release()
					}
				}
			}
		}
	}
}

// Request keeps the content of dst, even if it looks like the beginning of JSON.
func TestOutputIsAppended(t *testing.T) {
	t.Parallel()
	for _, g := range readGolden(t) {
		o := shipped().Operation(g.Operation)
		if g.Overlay != "" || o == nil {
			continue
		}
		for _, p := range g.Requests {
			for _, before := range []string{"", "{", `{"a":1,`, ","} {
				call := o.Translation(p.From, p.To).Start()
				dst := make([]byte, 0, 8192)
				out, err := call.Request(append(dst, before...), []byte(p.In))
				if err == nil && string(out) != before+p.Out {
					t.Errorf("%s after %q: %s", p.Name, before, out)
				}
				call.Release()
			}
		}
	}
}

// The order of an object's members does not matter: the output is the same, in the order of the table.
func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, g := range readGolden(t) {
		table := g.table(t)
		for message, list := range map[string][]*pair{"request": g.Requests, "reply": g.Replies} {
			for _, p := range list {
				if p.Out == "" || p.From == p.To || p.Recognised != "" || strings.HasPrefix(g.Overlay, "unknown: {re") {
					continue
				}
				for seed := range uint64(5) {
					mixed := *p
					mixed.In = string(shuffled([]byte(p.In), seed))
					if got := g.run(table, &mixed, message == "reply"); got.Out != p.Out || !slices.Equal(got.Dropped, p.Dropped) {
						t.Fatalf("%s: %s became %s, not %s", p.Name, mixed.In, got.Out, p.Out)
					}
				}
			}
		}
	}
}

// A request can be read before its upstream is known. The call that has read it translates it to the other form, and a call that is
// started with it passes it in the same form. Both have the same output and the same values of roles as a fresh call.
func TestRequestIsReadOnce(t *testing.T) {
	t.Parallel()
	enforcing := overlaid(t, "bounds: enforce\nunknown: {request: pass}")
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
				changing, same := o.Translation(client, other), o.Translation(client, client)
				if changing == nil || same == nil {
					continue
				}
				for _, body := range bodies {
					at := fmt.Sprintf("%s %s %s", o.Name, client, body)
					read := changing.Start()
					if err := read.Read([]byte(body)); err != nil {
						if _, want := same.Start().Request(nil, []byte(body)); want == nil || want.Error() != err.Error() {
							t.Errorf("%s: Read returns %v, Request %v", at, err, want)
						}
						continue
					}
					started := same.StartWith(read)
					for translation, call := range map[*translate.Translation]*translate.Call{changing: read, same: started} {
						fresh := translation.Start()
						want, wantErr := fresh.Request(nil, []byte(body))
						for range 2 { // Translate may be called twice, to find out whether the other form can represent the request
							if got, err := call.Translate(nil); string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
								t.Errorf("%s: translated to %s %v, want %s %v", at, got, err, want, wantErr)
							}
						}
						if got, want := string(call.Replace(nil, "callback", "here")), string(fresh.Replace(nil, "callback", "here")); got != want {
							t.Errorf("%s: %s, want %s", at, got, want)
						}
						// After a refusal a fresh call may not have read all fields.
						var refusal *translate.Refusal
						if !errors.As(wantErr, &refusal) && (billing.IdentityOf(call) != billing.IdentityOf(fresh) || call.Value("amount") != fresh.Value("amount")) {
							t.Errorf("%s: %v, want %v", at, billing.IdentityOf(call), billing.IdentityOf(fresh))
						}
						fresh.Release()
					}
					equal(t, billing.IdentityOf(started), billing.IdentityOf(read), at)
					started.Release()
					read.Release()
				}
			}
		}
	}
}
