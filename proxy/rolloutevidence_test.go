package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/desk/certificate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"billbridge/proxy/operate"
)

// report returns the report of the rollout as soon as far accepts it.
func (p *process) report(t *testing.T, far func(operate.Report) bool) (r operate.Report) {
	t.Helper()
	body := ""
	proxytest.Eventually(t, func() bool {
		got := p.admin("GET", "/rollout/report")
		body = got.body
		r = operate.Report{}
		if err := json.Unmarshal([]byte(body), &r); err != nil || got.status != 200 {
			t.Fatalf("%d %s: %v", got.status, body, err)
		}
		return far(r)
	}, func() string { return "the report stays\n" + body + "\n" + p.logs.String() })
	return r
}

// verdictOn returns the verdict on an operation by one kind of evidence.
func verdictOn(r operate.Report, operation string, by evidence.Evidence) evidence.Verdict {
	for _, v := range r.Verdicts {
		if v.Operation == operation && v.Evidence == by {
			return v
		}
	}
	return evidence.Verdict{}
}

// writes is the number of calls that are not reads.
func (b *backend) writes() (n int) {
	for _, got := range b.received() {
		if !strings.HasSuffix(got.target, "/read") {
			n++
		}
	}
	return n
}

// newSharedBills is a gateway between the two forms of one service, so that both upstreams have the same bills.
func newSharedBills(t *testing.T, stage, overlay string) (p *process, service *sandbox.Service, old, fresh *backend) {
	t.Helper()
	service = newService()
	old, fresh = newBackend(t, service), newBackend(t, service)
	table := ""
	if overlay != "" {
		table = overlayFile(t, overlay)
	}
	p = newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
rollout: {old: old, new: new, bills: shared, default: %s, shadow: {ignore: [apprPayType, apprCashTrader]}}
`, old.url, fresh.url, stage)+table)
	return p, service, old, fresh
}

// Reads of a partner in stage shadow are also sent to the other upstream, writes never. The report finds an error in
// the table and does not report correct rows.
func TestShadowComparesReads(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for name, row := range map[string]struct {
			overlay string
			ruling  evidence.Ruling
			reason  string
		}{
			"right":   {"", evidence.Inconclusive, "comparisons: 6, at least 100 are needed"},
			"mistake": {"operations: {bill.read: {reply: [{v2: apprPrice, remove: true}, {v2: apprPrice, legacy: appr_num, role: amount}]}}", evidence.Fail, "differs: apprPrice (money) in"},
		} {
			parallel(t, client+"/"+name, func(t *testing.T) {
				p, service, old, fresh := newSharedBills(t, "shadow", row.overlay)
				read := func(bill string, n int) (v evidence.Verdict) { // the next payment must come after the comparison
					p.expect(newCall(client, "read").with("billId", bill), success)
					p.report(t, func(r operate.Report) bool {
						v = verdictOn(r, "bill.read", evidence.ByShadow)
						return v.Compared != nil && v.Number == n
					})
					return v
				}
				var v evidence.Verdict
				for i := range 3 {
					bill := fmt.Sprintf("SHADOW%014d", i)
					p.expect(newCall(client, "create").with("billId", bill), success)
					read(bill, 2*i+1)
					must(t, service.Pay(demoKey, bill))
					v = read(bill, 2*i+2)
					p.expect(newCall(client, "resend").with("billId", bill), wantAnswer{200, "BILL_006"})
				}
				if v.Ruling != row.ruling || !strings.HasPrefix(v.Reason.String(), row.reason) || v.Bills != 3 || (v.Differed > 0) != (name == "mistake") {
					t.Errorf("%+v %+v", v, v.Compared)
				}
				equal(t, fresh.writes(), 0)
				equal(t, old.writes(), 6)
				scraped := p.metrics()
				checkText(t, scraped, `billbridge_rollout_comparisons_total{class="`+map[evidence.Ruling]string{evidence.Fail: "differs", evidence.Inconclusive: "same"}[row.ruling]+`"} `)
			})
		}
	}
}

// A create with a client that the certificate of the partner does not have ends the certificate.
func TestCertificateEndsWithTheClient(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "old")
	c := certificate.Certificate{Partner: "Clinic", Form: "v2", Major: certificate.Major, Expires: time.Now().AddDate(1, 0, 0)}
	same, other := c, c
	same.Clients, other.Clients = []string{"Go-http-client/1.1"}, []string{"shop/1"}
	dir, desk := proxytest.CertifyPartners(t, same, other)
	config, id := *m.text.Load(), partner.ShortOf(demoKey)
	for i, want := range []string{"certified for v2 until ", "certified for another client: Go-http-client/1.1 created a bill at "} {
		m.reload(200, fmt.Sprintf("%s%spartners: {%s: {name: Clinic, certified: %s/%d}}\n", config, desk, id, dir, i))
		m.expect(newCall("v2", "create").with("billId", fmt.Sprint("CLIENT", i)), success)
		m.ask(200, "GET /rollout?partner="+id, want)
	}
}

// Each bill that a canary creates at the new backend is read there once. Calls are counted by backend.
func TestCanaryIsReadBack(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		m := newRolloutGateway(t, "old")
		m.mustPost("/rollout/stage?by=anna&partner=default&stage=canary&percent=100&" + forced)
		for i := range 5 {
			m.expect(newCall(client, "create").with("billId", fmt.Sprintf("CANARY%014d", i)), success)
		}
		m.expect(newCall(client, "create").with("billId", "REFUSED0000000000001").with("price", "50"), wantAnswer{200, "PAYMENT_003"})
		equal(t, len(m.fresh.Bills()), 5)
		r := m.report(t, func(r operate.Report) bool {
			v, calls := verdictOn(r, "bill.create", evidence.ByReadBack), verdictOn(r, "bill.create", evidence.ByCalls)
			return v.Compared != nil && v.Number == 5 && calls.CallStats != nil && calls.Calls[evidence.New] == 6
		})
		if v := verdictOn(r, "bill.create", evidence.ByReadBack); v.Ruling != evidence.Inconclusive || v.Bills != 5 || v.Differed != 0 || v.NotThere != 0 {
			t.Errorf("%+v %+v", v, v.Compared)
		}
		if v := verdictOn(r, "bill.create", evidence.ByCalls); len(v.Unsupported) != 0 {
			t.Errorf("%+v %+v", v, v.CallStats)
		}
		reads := m.newCalls.count() - m.newCalls.writes()
		equal(t, reads, 5)
		// A bill that the partner's read shows paid is read once more, and only once.
		for range 2 {
			for i := range 3 {
				id := fmt.Sprintf("CANARY%014d", i)
				if err := m.fresh.Pay(demoKey, id); err != nil && reads == 5 {
					t.Fatal(err)
				}
				m.expect(newCall(client, "read").with("billId", id), success)
			}
			reads += 3
			r = m.report(t, func(r operate.Report) bool { return verdictOn(r, "bill.create", evidence.ByReadBack).Number == 8 })
		}
		v := verdictOn(r, "bill.create", evidence.ByReadBack)
		if n := m.newCalls.count() - m.newCalls.writes(); v.Bills != 5 || v.Paid != 3 || v.Differed != 0 || n != reads+3 {
			t.Errorf("%+v, %d reads, want %d", v.Compared, n, reads+3)
		}
	})
}

// A difference in the read of a bill at the new backend is shown as old and new, like all others.
func TestReportNamesTheBackends(t *testing.T) {
	t.Parallel()
	var has atomic.Bool
	record := replyWith(200, `{"bill_id":"`+demoBill+`","appr_state":"W","appr_price":"111"}`)
	var m *rolloutGateway
	m = newRolloutWith(t, "new", at("old", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if has.Load() {
			record.ServeHTTP(w, r)
			return
		}
		m.old.ServeHTTP(w, r)
	})), "")
	m.expect(v2("create"), success)
	m.mustPost("/rollout/stage?by=anna&partner=default&stage=shadow&" + forced)
	has.Store(true)
	m.expect(v2("read"), success)
	r := m.report(t, func(r operate.Report) bool { return verdictOn(r, "bill.read", evidence.ByShadow).Compared != nil })
	fields := verdictOn(r, "bill.read", evidence.ByShadow).Fields
	if len(fields) == 0 || fields[0].Old != "111" || fields[0].New != "(empty)" {
		t.Errorf("%+v", fields)
	}
}

// A read without a key, which a backend answers, is not counted for any partner and does not prevent a verdict.
func TestCallsWithoutAPartnerAreNoEvidence(t *testing.T) {
	t.Parallel()
	always := replyWith(200, `{"code":"0000","msg":"ok","appr_state":"W"}`)
	m := newRolloutWith(t, "shadow", at("old", always), "")
	m.post("/if/bill/read", `{"member":"m","merchant":"s","bill_id":"B1"}`).is(t, 200)
	m.expect(legacy("create"), success)
	if r := m.report(t, func(r operate.Report) bool { return true }); len(r.Verdicts) != 0 {
		t.Errorf("%+v", r)
	}
	m.newCalls.expectCalls(t, 0)
}

// A call that one backend refuses anyway does not count against the form of the other. A call that was refused because
// of the form of its backend, and that the other form can carry, counts against the form of its backend.
func TestFieldLossCountsOnlyWhereTheOtherBackendAccepts(t *testing.T) {
	t.Parallel()
	m := newRolloutBetween(t, "v2", "legacy", "old")
	m.expect(v2("create"), success)
	m.expect(v2("create").with("billId", "REFUSED0000000000001").with("tax", "1819").with("price", "50"), wantAnswer{200, "PAYMENT_003"})
	if r := m.report(t, func(operate.Report) bool { return true }); len(r.Verdicts) != 0 {
		t.Errorf("%+v", r)
	}
	m.expect(v2("create").with("billId", "TAXED000000000000001").with("tax", "1819"), success)
	r := m.report(t, func(r operate.Report) bool { return len(r.Verdicts) > 0 })
	if v := verdictOn(r, "bill.create", evidence.ByCalls); v.Ruling != evidence.Fail || v.Reason.String() != "the form of the new backend cannot carry VALIDATION_001 bill.tax (calls: 1)" {
		t.Errorf("%+v", v)
	}

	m = newRolloutBetween(t, "legacy", "v2", "old")
	m.expect(v2("create"), success)
	m.expect(v2("create").with("billId", "TAXED000000000000001").with("tax", "1819"), invalid)
	m.mustPost("/rollout/stage?by=anna&partner=default&stage=new&" + forced)
	m.expect(v2("create").with("billId", "ATTHENEWBACKEND00001"), success)
	// The refused create was never sent to the old backend, so it is not one of its calls.
	r = m.report(t, func(r operate.Report) bool { return len(r.Verdicts) > 0 })
	if b := verdictOn(r, "bill.create", evidence.ByCalls).CallStats; b == nil || b.Calls != [2]int{1, 1} || len(b.Codes) != 1 {
		t.Errorf("%+v", b)
	}
	m.ask(409, "POST /rollout/stop?by=a", "old cannot carry bill.create: VALIDATION_001 bill.tax (calls: 1, the last at ")
}

// Sub-business operations go to one upstream in every stage, also if both upstreams have them.
func TestSubBusinessCallsKeepTheirUpstream(t *testing.T) {
	t.Parallel()
	for _, stage := range rollout.Stages {
		m := newRolloutBetween(t, "v2", "v2", string(stage))
		m.post("/read/mapping", `{"apiKey":"`+demoKey+`"}`).check(t, "v2", success)
		m.checkCalls(1, 0)
	}
}

// The call statistics are stored when the server ends.
func TestCountsAreStoredAtTheEnd(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	m.expect(v2("create"), success)
	m.stopAndWait()
	if kept, err := m.store.CountsIn(t.Context(), "", store.AllPartners.Of(partner.Of(demoKey))); err != nil || len(kept) != 1 || kept[0].Operation != "bill.create" {
		t.Errorf("%+v, %v", kept, err)
	}
}

// Bills are compared in bulk as reads of the partner are, and count for the same verdict. Only reads are sent.
func TestBillsAreComparedInBulk(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		overlay string
		shows   string
	}{
		"right":   {"", `"bills":{"not_there":1,"same":3},"old_only":0,"new_only":0,"left":0}`},
		"mistake": {"operations: {bill.read: {reply: [{v2: apprPrice, remove: true}, {v2: apprPrice, legacy: appr_num, role: amount}]}}", `"bills":{"differs":3,"not_there":1},`},
	} {
		parallel(t, name, func(t *testing.T) {
			p, service, old, fresh := newSharedBills(t, "old", row.overlay)
			bulk := "/rollout/compare?rate=100&ids=BULK1%0ABULK2%0ABULK3%0AOTHER&partner=" + string(partner.Of(demoKey))
			p.adminPost(409, bulk, "", "when it has called since the start")
			for i := range 3 {
				bill := fmt.Sprint("BULK", i+1)
				p.expect(v2("create").with("billId", bill), success)
				must(t, service.Pay(demoKey, bill))
			}
			p.mustPost(bulk, row.shows)
			v := verdictOn(p.report(t, func(operate.Report) bool { return true }), "bill.read", evidence.ByShadow)
			if v.Number != 3 || v.Bulk != 3 || v.NotThere != 1 || v.Bills != 3 || v.Paid != 3 || (v.Ruling == evidence.Fail) != (name == "mistake") {
				t.Errorf("%+v %+v", v, v.Compared)
			}
			equal(t, fresh.writes(), 0)
			equal(t, old.writes(), 3)
		})
	}
}

// A digit of the amount is another one in 1 of 200 replies of the new backend. The reads of a partner can miss that; those of a bulk comparison
// of 2,000 bills do not: no partner of 20 leaves stage shadow, and so none reaches drained.
func TestBulkComparisonFindsARareMistake(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	const runs, bills, reads = 20, 2000, 120
	var passed [2]atomic.Int64 // without a bulk comparison and after it
	t.Run("runs", func(t *testing.T) {
		for seed := range uint64(runs) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				service, random := newService(), rand.New(rand.NewPCG(seed, 0))
				var mu sync.Mutex
				old := newBackend(t, service)
				fresh := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder()
					service.ServeHTTP(answer, r)
					mu.Lock()
					wrong := random.IntN(200) == 0
					mu.Unlock()
					body := answer.Body.String()
					if wrong {
						body = strings.Replace(body, `"apprPrice":"30000"`, `"apprPrice":"30001"`, 1)
					}
					_, _ = io.WriteString(w, body)
				})
				p := newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
store: {url: "sqlite:%s/bridge.db"}
rollout: {old: old, new: new, bills: shared, default: shadow, shadow: {ignore: [apprPayType, apprCashTrader]}}
`, old.url, fresh.url, t.TempDir()))
				var ids []string
				for i := range bills {
					bill := fmt.Sprintf("RARE%d", i)
					ids = append(ids, bill)
					answer := httptest.NewRecorder()
					service.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/bill", strings.NewReader(v2("create").with("billId", bill).body())))
					must(t, service.Pay(demoKey, bill))
				}
				for i := range reads {
					p.expect(v2("read").with("billId", ids[i]), success)
					p.report(t, func(r operate.Report) bool {
						v := verdictOn(r, "bill.read", evidence.ByShadow)
						return v.Compared != nil && v.Number+v.Unclear == i+1
					})
				}
				next := func(n *atomic.Int64) {
					got := p.admin(http.MethodPost, "/rollout/next?preview=true&partner="+string(partner.Of(demoKey)))
					if !strings.Contains(got.body, `"kind":"verdict"`) {
						n.Add(1)
					}
				}
				next(&passed[0])
				for rest := ids; len(rest) > 0; {
					page := rest[:min(200, len(rest))]
					var r operate.ComparedBills
					got := p.mustPost("/rollout/compare?rate=100&limit=200&partner=" + string(partner.Of(demoKey)) + "&ids=" + strings.Join(page, "%0A"))
					must(t, json.Unmarshal([]byte(got), &r))
					rest = rest[len(page)-r.Left:]
				}
				next(&passed[1])
			})
		}
	})
	t.Logf("%d runs, 1 of 200 replies has another digit: %d partners could leave shadow after %d reads, %d after a bulk comparison of %d bills",
		runs, passed[0].Load(), reads, passed[1].Load(), bills)
	if passed[1].Load() > 0 || passed[0].Load() == 0 {
		t.Error("that is not what was expected")
	}
}
