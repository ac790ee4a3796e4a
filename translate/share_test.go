package translate_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// A table and its crossings are shared by every goroutine of the gateway: many exchanges at once, each with
// its own values, get back their own.
func TestTableIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	table, err := translate.Compile(32, billing.Table(), translate.File{Name: "pass.yaml", Data: []byte("unknown: {request: pass, reply: pass}")})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 {
				id := fmt.Sprintf("%d-%d", worker, i)
				crossing := table.Operation("bill.destroy").Translation("legacy", "v2")
				call := crossing.Start()
				out, err := call.Request(nil, []byte(`{"apikey":"k`+id+`","member":"m`+id+`","bill_id":"`+id+`","lang`+id+`":1}`))
				if want := `{"apiKey":"k` + id + `","member":"m` + id + `","bill":{"billId":"` + id + `"},"lang` + id + `":1}`; err != nil || string(out) != want {
					t.Errorf("%s, %v", out, err)
				}
				if call.Value("partner") != "k"+id {
					t.Errorf("partner %s of %s", call.Value("partner"), id)
				}
				out, err = call.Reply(nil, 200, []byte(`{"code":"0000","message":"ok","data":{"billId":"`+id+`"}}`))
				if want := `{"code":"0000","msg":"ok","member":"m` + id + `","bill_id":"` + id + `"}`; err != nil || string(out) != want {
					t.Errorf("%s, %v", out, err)
				}
				call.Release()
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

// A call that is given back and taken again knows nothing of the exchange before: no echo, no partner, no
// field that passed, no proof, no report.
func TestReleasedCallForgets(t *testing.T) {
	t.Parallel()
	table, err := translate.Compile(32, billing.Table(), translate.File{Name: "pass.yaml", Data: []byte("unknown: {request: {legacy: pass, v2: drop}, reply: {v2: pass, legacy: drop}}")})
	if err != nil {
		t.Fatal(err)
	}
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
				crossing := table.Operation(name).Translation(client, upstream)
				for range 20 { // the pool may hand out a new call now and then
					call := crossing.Start()
					_, _ = call.Request(nil, []byte(full[client]))
					_, _ = call.Reply(nil, 200, []byte(fullReply[upstream]))
					call.Release()

					call = crossing.Start()
					if call.Value("partner") != "" || call.Code() != "" || call.Succeeded() || call.Report.Unknown != 0 {
						t.Errorf("%s from %s to %s: a new call knows %q %q", name, client, upstream, call.Value("partner"), call.Code())
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

					// What the bill before was asked for proves nothing of this one.
					if name == "bill.read" && upstream == "legacy" {
						call = crossing.Start()
						_, _ = call.Request(nil, []byte(empty))
						if out, err := call.Reply(nil, 200, []byte(`{"bill_id":"SECRET","appr_state":"F"}`)); err == nil {
							t.Errorf("from %s: proved by another call: %s", client, out)
						}
						call.Release()
					}
				}
			}
		}
	}
}

// The output is appended: what stands in dst stays, also where it looks like the beginning of something.
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

// The order of an object's members means nothing: whatever it is, the output is the same, in the table's order.
func TestOrderOfMembersMeansNothing(t *testing.T) {
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
