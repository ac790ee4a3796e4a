package proxy_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/ledger"
	stages "billbridge/proxy/moves"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"
)

// A rolloutGateway is a gateway between two sandboxes, each with its own bills. The test can use its store.
type rolloutGateway struct {
	*process
	old, fresh         *sandbox.Service
	oldCalls, newCalls *backend
	store              *store.Store
	file               string // the store's
}

func newRolloutGateway(t *testing.T, stage string, admin ...string) *rolloutGateway {
	t.Helper()
	return newRolloutBetween(t, "legacy", "v2", stage, admin...)
}

// newRolloutBetween is newRolloutGateway with the forms of the backends.
func newRolloutBetween(t *testing.T, old, fresh, stage string, admin ...string) *rolloutGateway {
	t.Helper()
	return newRollout(t, old, fresh, stage, noFront, "", admin...)
}

// newRolloutWith is newRolloutGateway with a handler in front of the backends, and with further keys in the section
// rollout.
func newRolloutWith(t *testing.T, stage string, front front, more string) *rolloutGateway {
	t.Helper()
	return newRollout(t, "legacy", "v2", stage, front, more)
}

// forced is a parameter of changes that are made whatever speaks against them.
var forced = "force=" + stages.JoinKinds(stages.ReasonKinds)

// patient is for a busy machine: with it no call is refused.
var patient = sentWithin(20 * time.Second)

// sentWithin returns a line of a config: see [proxytest.Tuned].
func sentWithin(most time.Duration) string {
	return proxytest.Tuned(func(c *config.Config) { c.Rollout.ProbeTimeout, c.Rollout.SendWithin = 20*time.Second, most })
}

// newRollout fails at the end of the test if a write reached the backends more than once, or its answer makes HTTP clients
// repeat it.
func newRollout(t *testing.T, old, fresh, stage string, front front, more string, admin ...string) *rolloutGateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "store.db")
	m := &rolloutGateway{old: newService(), fresh: newService(), file: file}
	m.oldCalls, m.newCalls = newBackend(t, front("old", m.old)), newBackend(t, front("new", m.fresh))
	t.Cleanup(func() {
		checkNoRepetition(t, m.logs.String(), append(m.oldCalls.received(), m.newCalls.received()...))
		writes := map[string]int{}
		for _, got := range append(m.oldCalls.received(), m.newCalls.received()...) {
			if id := got.header.Get("X-Request-Id"); !strings.HasSuffix(got.target, "/read") && id != "" {
				if writes[id]++; writes[id] > 1 {
					t.Errorf("the write %s reached the backends %d times", id, writes[id])
				}
			}
		}
	})
	if stage == "shadow" {
		more = ", bills: shared" + more
	}
	m.store = proxytest.BeginRollout(t, "sqlite:"+file, partner.Of(demoKey))
	must(t, m.store.Change(t.Context(), store.Change{Action: store.Staged, To: stage, By: "test", At: time.Now()}))
	more = patient + more
	m.process = newProcess(t, strings.Replace(anyPort, "0}", strings.Join(append([]string{"0"}, admin...), ", ")+"}", 1)+fmt.Sprintf(`
upstreams:
  old: {form: %s, url: %q}
  new: {form: %s, url: %q}
route: {default: old}
rollout: {old: old, new: new%s}
store: {url: "sqlite:%s"}
`, old, m.oldCalls.url, fresh, m.newCalls.url, more, file))
	return m
}

func (m *rolloutGateway) checkCalls(old, fresh int) {
	m.t.Helper()
	var got [2]int
	counts := func() string {
		return fmt.Sprintf("%d calls at the backends, want %d and %d\n%s", got, old, fresh, m.logs)
	}
	proxytest.Eventually(m.t, func() bool { // comparisons come later
		got = [2]int{m.oldCalls.count(), m.newCalls.count()}
		return got[0] >= old && got[1] >= fresh
	}, counts)
	equal(m.t, got, [2]int{old, fresh}, counts())
}

// The stage decides where a bill is created. All other calls go to the owner of the bill.
func TestStagesDecideOnCreates(t *testing.T) {
	t.Parallel()
	// The calls at the backends after the create, and after three more calls. In stage new the old backend is probed before each create, and
	// the bill is read back.
	for _, row := range tableOf(t) {
		for _, client := range forms {
			parallel(t, row[0]+"/"+client, func(t *testing.T) {
				play(newRolloutGateway(t, row[0]), `
success CLIENT create
calls FIRST
# from the owner
idInUse CLIENT create
success CLIENT read
success CLIENT destroy
calls SECOND
200 GET /metrics | billbridge_rollout_routed_total{reason="owner"
`, "CLIENT", client, "FIRST", row[1], "SECOND", row[2])
			})
		}
	}
}

// The old backend has a paid bill that the ledger does not know, and hides it from another merchant of the partner, whose
// bill with the same id is created at the new backend. The calls of either merchant reach its own bill.
func TestCancelReachesTheBillOfItsMerchant(t *testing.T) { playFile(t) }

// owner returns the row of the demo bill in the ledger.
func (m *rolloutGateway) owner() (proxytest.Owner, error) {
	return proxytest.On(m.store).Owner(m.t.Context(), partner.Of(demoKey), demoBill)
}

// waitForOwner waits until the row of the demo bill is so. It is recorded after the answer.
func (m *rolloutGateway) waitForOwner(so func(proxytest.Owner) bool) (row proxytest.Owner) {
	m.t.Helper()
	var err error
	proxytest.Eventually(m.t, func() bool { row, err = m.owner(); return err == nil && so(row) },
		func() string { return fmt.Sprintf("the ledger has %+v, %v", row, err) })
	return row
}

// checkBills fails unless the backends have so many bills.
func (m *rolloutGateway) checkBills(old, fresh int) {
	m.t.Helper()
	equal(m.t, [2]int{len(m.old.Bills()), len(m.fresh.Bills())}, [2]int{old, fresh})
}

// restart ends the gateway and starts another one on the same backends.
func (m *rolloutGateway) restart(text string) {
	m.t.Helper()
	m.stopAndWait()
	m.process = newProcess(m.t, text)
}

// storeDB opens the database of the store.
func (m *rolloutGateway) storeDB(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+m.file+"?_pragma=busy_timeout(20000)")
	must(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// A front returns what answers instead of the service of a backend.
type front func(backend string, service http.Handler) http.Handler

func noFront(_ string, service http.Handler) http.Handler { return service }

// everywhere answers at both backends.
func everywhere(h http.Handler) front { return func(string, http.Handler) http.Handler { return h } }

// at answers at one backend.
func at(name string, h http.Handler) front {
	return func(backend string, service http.Handler) http.Handler {
		if backend == name {
			return h
		}
		return service
	}
}

// paths answers the calls whose path has one of these ends. A nil handler closes the connection, as if the call
// waits in a queue.
func paths(by map[string]http.Handler) front {
	return func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for end, h := range by {
				switch {
				case !strings.HasSuffix(r.URL.Path, end):
				case h == nil:
					panic(http.ErrAbortHandler)
				default:
					h.ServeHTTP(w, r)
					return
				}
			}
			service.ServeHTTP(w, r)
		})
	}
}

// exec changes the database of the store.
func (m *rolloutGateway) exec(statement string) {
	m.t.Helper()
	if _, err := m.storeDB(m.t).Exec(statement); err != nil {
		m.t.Fatal(err)
	}
}

// older makes what the ledger knows of its bills older.
func (m *rolloutGateway) older(by time.Duration) {
	m.t.Helper()
	list, _, err := m.store.Bills(m.t.Context(), store.BillFilter{Limit: 1000, Now: time.Now()})
	unknown, _, also := m.store.Bills(m.t.Context(), store.BillFilter{List: store.UnknownBills, Limit: 1000, Now: time.Now()})
	must(m.t, errors.Join(err, also))
	for _, b := range append(list, unknown...) {
		for _, at := range []*time.Time{&b.Changed, &b.Tried, &b.Seen.At, &b.Said.At} {
			if !at.IsZero() {
				*at = at.Add(-by)
			}
		}
		if b.Doubt != nil {
			b.Doubt.At = b.Doubt.At.Add(-by)
		}
		for i := range b.Writes {
			b.Writes[i].At = b.Writes[i].At.Add(-by)
		}
		data, err := json.Marshal(b)
		must(m.t, err)
		unknown := "NULL"
		if b.Unknown() {
			unknown = fmt.Sprint(b.UnknownSince().UnixMilli())
		}
		m.exec(fmt.Sprintf("UPDATE billbridge_bills SET data = '%s', unknown = %s, version = %d WHERE partner = '%s' AND bill = '%s' AND version = %d",
			data, unknown, b.Version+1, b.Partner, b.ID, b.Version))
	}
}

// nextRequestLog returns the next line of the access log.
func (m *rolloutGateway) nextRequestLog() map[string]any {
	m.t.Helper()
	for {
		if line := fields(m.t, m.logs.Next(m.t)); line["msg"] == "request" {
			return line
		}
	}
}

// During a rollout the line of a call has the reason for its backend. The lines of other calls have no reason.
func TestLogShowsTheReasonForTheBackend(t *testing.T) { playFile(t) }

// The line and the metric of a call that is not sent have the partner and no upstream. Earlier versions had the
// upstream and not the partner.
func TestLogOfCallsThatAreNotSent(t *testing.T) { playFile(t) }

// refuseWith refuses every call with a code.
func refuseWith(form, code, text string) http.Handler {
	if form == "legacy" {
		return replyWith(200, fmt.Sprintf(`{"code":%q,"msg":%q}`, code, text))
	}
	return replyWith(200, fmt.Sprintf(`{"code":%q,"message":%q,"data":null}`, code, text))
}

// The backends refuse a create without a merchant, in stage new as in stage old.
func TestCreateWithoutAMerchantIsRefused(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		codes := map[string]bool{}
		for _, stage := range []string{"old", "new"} {
			m := newRolloutGateway(t, stage)
			got := m.send(newCall(client, "create").with("merchant", ""))
			got.is(t, 200, "!MAINTAINED_METHOD")
			m.checkBills(0, 0)
			codes[codeOf(t, client, got.body)] = true
		}
		equal(t, len(codes), 1, codes)
	}
}

// The table can say that this refusal means "no such bill". If it does not, it is unknown whether the old backend has
// the bill.
func TestPartnerUnknownToTheOldBackendCreatesAtTheNewOne(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"PARTNER_003", "PARTNER_005", "PARTNER_007"} {
		for more, script := range map[string]string{
			overlayAfter(t, "forms: {legacy: {codes: {"+code+": not_found}}}"): "success legacy create\nbills 0 1",
			"": "refused legacy create\nbills 0 0\nmetric billbridge_rollout_refused_total{reason=\"barred\"} 1",
		} {
			parallel(t, code+" "+script[:7], func(t *testing.T) {
				play(newRolloutWith(t, "new", at("old", refuseWith("legacy", code, "who is it?")), more), script)
			})
		}
	}
}

// An overlay adds a read with role: bill in one form or in both. Probes still use bill.read. With the added read every
// read of an unknown bill panicked, and creates were not sent.
func TestOverlayReadIsNotUsedForProbes(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{
		"in one form":   `v2: /bill/check, effect: read, request: {apiKey: {role: partner}, bill.billId: {role: bill}}, reply: {billId: {}}`,
		"in both forms": `v2: /bill/check, legacy: /if/bill/check, effect: read, request: {apiKey: {legacy: apikey, role: partner}, bill.billId: {legacy: bill_id, role: bill}}, reply: {billId: bill_id}`,
	} {
		parallel(t, name, func(t *testing.T) {
			m := newRolloutWith(t, "new", noFront, overlayAfter(t, "operations: {+bill.check: {"+second+"}}"))
			play(m, `
noSuchBill v2,legacy read
success legacy create
bills 0 1
success legacy read
logs !panic`)
			for _, got := range append(m.oldCalls.received(), m.newCalls.received()...) {
				checkText(t, got.target, "!/check")
			}
		})
	}
}

// A read that an overlay adds can succeed without the state of the bill. Only a state shows that a bill with an
// unknown create exists.
func TestReadWithoutAStateDoesNotShowTheBill(t *testing.T) {
	t.Parallel()
	overlay := "operations: {+bill.check: {v2: /bill/check, legacy: /if/bill/check, effect: read, " +
		"request: {apiKey: {legacy: apikey, role: partner}, bill.billId: {legacy: bill_id, role: bill}}, reply: {valid: valid}}}"
	valid := replyWith(200, `{"code":"0000","message":"ok","data":{"valid":"Y"}}`)
	m := newRolloutWith(t, "new", paths(map[string]http.Handler{"/bill": nil, "/bill/check": valid}), overlayAfter(t, overlay))
	m.expect(v2("create"), unknown)
	m.post("/bill/check", `{"apiKey":"`+demoKey+`","bill":{"billId":"`+demoBill+`"}}`).is(t, 200, `"valid":"Y"`)
	m.send(v2("read").with("billId", "another")) // on the same connection, so the previous call is recorded
	row := m.waitForOwner(func(o proxytest.Owner) bool { return o.Upstream == "new" })
	equal(t, row.State, ledger.Pending)
}

// A create that is refused for its hash leaves nothing: the next one, with the right hash, is a new create.
func TestCreateAfterAWrongHashInARollout(t *testing.T) { playFile(t) }
