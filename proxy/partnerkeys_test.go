package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// newKey is a further key of the partner with demoKey.
const newKey = "the-new-key-of-the-partner"

// acceptsBothKeys are backends that know newKey as a key of the partner with demoKey.
func acceptsBothKeys(_ string, service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		from, to := newKey, demoKey
		if !strings.Contains(string(body), newKey) {
			from = demoKey
		}
		r.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), from, to)))
		reply := httptest.NewRecorder()
		service.ServeHTTP(reply, r)
		w.Header().Set("Content-Type", reply.Header().Get("Content-Type"))
		w.WriteHeader(reply.Code)
		_, _ = io.WriteString(w, strings.ReplaceAll(reply.Body.String(), to, from))
	})
}

// Bills of two partners, which become one with two keys: each bill stays at its owner and none is created again, by
// whichever key, also after a restart and after the config lists the key no more. Stage and counts are one.
func TestBillsOfTwoKeysStayAtTheirOwners(t *testing.T) {
	t.Parallel()
	m := newRolloutWith(t, "old", acceptsBothKeys, "")
	first, second := partner.Of(demoKey), partner.Of(newKey)
	must(t, m.store.Seen(t.Context(), second, time.Now().Add(-time.Hour)))
	m.mustPost("/rollout/stage?partner=" + string(first) + "&stage=new&by=test&" + forced)
	id := func(n int) string { return fmt.Sprintf("1234567890ABCDEFGH%02d", n) }
	bill := func(form, op, key string, n int) call {
		return newCall(form, op).with("apiKey", key).with("billId", id(n))
	}
	m.expect(bill("v2", "create", demoKey, 1), success)
	m.expect(bill("v2", "create", newKey, 2), success)
	m.checkBills(1, 1) // by two stages

	without := *m.text.Load()
	with := without + fmt.Sprintf("partners: {Hana Clinic: {keys: [%s, %s]}}\n", first, second)
	command := "run billbridge rollout key add " + string(first) + " --hash " + string(second)
	m.reload(400, with, command)
	m.restart(with) // the gateway starts, and the key has no effect
	checkText(t, m.logs.String(), `"level":"ERROR","msg":"keys of partners in the config have no effect: their calls are those of other partners"`, command)
	m.ask(200, "GET /rollout", command)
	m.expect(bill("legacy", "create", newKey, 3), success)
	m.checkBills(2, 1)

	proxytest.Eventually(t, func() bool { // the ledger has the outcome after the answer
		row, err := m.store.Owner(t.Context(), second, id(3))
		return err == nil && row.State == store.Owned
	}, func() string { return m.logs.String() })
	add := fmt.Sprintf("/store/keys?partner=%s&hash=%s", first, second)
	m.mustPost(add+"&preview=true", `"bills":2`, `"preview":true`)
	equal(t, operatorsPartners(t, m), 2)
	m.mustPost(add+"&by=anna", `"bills":2`, `"keys":["`+string(first)+`","`+string(second)+`"]`)
	check := func(found string) {
		t.Helper()
		equal(t, operatorsPartners(t, m), 1, found)
		for n, at := range map[int]string{1: "new", 2: "old", 3: "old"} {
			for _, form := range forms {
				for _, key := range []string{demoKey, newKey} {
					m.expect(bill(form, "read", key, n), success)
					if got := m.send(bill(form, "create", key, n)); !strings.Contains(got.body, "BILL_001") {
						t.Errorf("%s: bill %d at %s is created again: %d %s", found, n, at, got.status, got.body)
					}
				}
			}
		}
	}
	check("added")
	m.checkBills(2, 1)
	m.reload(200, with)
	m.restart(with)
	check("restarted")
	m.checkBills(2, 1)

	m.expect(bill("v2", "create", newKey, 4), success) // at the stage of the partner
	m.checkBills(2, 2)
	m.expect(bill("v2", "destroy", demoKey, 2), success)
	m.expect(bill("v2", "destroy", newKey, 1), success)
	for _, b := range append(m.old.Bills(), m.fresh.Bills()...) {
		if destroyed := b.ID == id(1) || b.ID == id(2); destroyed != (b.State == "D") {
			t.Errorf("bill %s has the state %s", b.ID, b.State)
		}
	}
	m.ask(200, "GET /rollout?partner="+string(second[:12]), `"partner":"`+first.Short()+`"`, `"name":"Hana Clinic"`, `"keys":["`+first.Short()+`","`+second.Short()+`"]`, `"stage":"new"`)
	for _, key := range []string{demoKey, newKey} { // the gateway reads with the key that was used last
		m.expect(bill("v2", "read", key, 4), success)
		m.ask(200, "GET /rollout/bill?partner="+string(second)+"&bill="+id(4), `"partner":"`+first.Short()+`"`, `"owner":"new"`)
		calls := m.newCalls.received()
		checkText(t, calls[len(calls)-1].body, key)
	}
	m.ask(200, "GET /partners/"+second.Short(), "<code>"+second.Short()+"</code>")
	m.ask(200, "GET /audit", `"action":"key_add","by":"anna"`, `"subject":"`+second.Short()+`"`)
	if m.waitForLog(`"partner":"` + first.Short()); strings.Contains(m.logs.String(), `"partner":"`+second.Short()) {
		t.Error("calls with the new key are logged as those of another partner")
	}

	m.reload(200, without) // the config does not list the key any more: it stays one of the partner
	checkText(t, m.logs.String(), `"keys":"`+second.Short()+" of "+first.Short())
	m.restart(without)
	m.expect(bill("v2", "create", newKey, 5), success)
	m.checkBills(2, 3)
	if got := m.send(bill("v2", "create", newKey, 3)); !strings.Contains(got.body, "BILL_001") {
		t.Errorf("a bill is created again: %d %s", got.status, got.body)
	}
	m.checkBills(2, 3)
}

// operatorsPartners is the number of partners.
func operatorsPartners(t *testing.T, m *rolloutGateway) int {
	t.Helper()
	var list operate.PartnerList
	must(t, json.Unmarshal([]byte(m.ask(200, "GET /rollout/partners")), &list))
	return list.All
}

// A key is refused that would make two bills one, that is not settled, or that may have bills which a drained partner would not be asked for.
func TestKeyIsNotAdded(t *testing.T) {
	t.Parallel()
	first, second := partner.Of(demoKey), partner.Of(newKey)
	for name, c := range map[string]struct {
		seen   time.Duration // ago
		before func(m *rolloutGateway)
		says   string
		status int
	}{
		"the same bills": {time.Hour, func(m *rolloutGateway) {
			for _, id := range []partner.ID{first, second} {
				_, err := m.store.Found(t.Context(), id, demoBill, "old", time.Now())
				must(t, err)
			}
		}, "Not changed: 1 bill ids are stored under the key and under the partner: " + demoBill + ".", 409},
		"not settled": {time.Minute, func(*rolloutGateway) {}, "Not changed: a call with the key was first seen at ", 409},
		"not drained": {time.Hour, func(m *rolloutGateway) {
			must(t, m.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: first, To: "drained", By: "test", At: time.Now()}))
		}, "Not changed: the partner is drained, and the key is not: ", 409},
		"never seen": {0, func(m *rolloutGateway) {
			must(t, m.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: first, To: "drained", By: "test", At: time.Now()}))
		}, `"bills":0`, 200},
	} {
		parallel(t, name, func(t *testing.T) {
			m := newRolloutGateway(t, "old")
			if c.seen > 0 {
				must(t, m.store.Seen(t.Context(), second, time.Now().Add(-c.seen)))
			}
			c.before(m)
			m.ask(c.status, fmt.Sprintf("POST /store/keys?partner=%s&hash=%s&by=anna", first, second), c.says)
		})
	}
	m := newRolloutGateway(t, "old")
	for _, row := range rows(`
400 hash=` + newKey + `&by=anna | hash must be all 64 lower-case hex digits of the SHA-256 of the key
400 hash=` + string(second) + ` | by must be your name, for the audit log: 1 to 100 printable characters
409 hash=` + string(first) + `&by=anna | Not changed: a key and its partner need all digits of their hashes, which must differ.
`) {
		status, query, _ := strings.Cut(row[0], " ")
		equal(t, strings.TrimSpace(m.ask(map[string]int{"400": 400, "409": 409}[status], "POST /store/keys?partner="+string(first)+"&"+query)), row[1])
	}
}

// Without a store the config alone says which keys are of one partner: limits and names are those of the partner.
func TestKeysOfOnePartnerShareItsLimits(t *testing.T) {
	t.Parallel()
	first, second := partner.Of(demoKey), partner.Of(newKey)
	for name, c := range map[string]struct {
		keys string
		want wantAnswer
	}{
		"one partner":  {string(first) + ", " + string(second), wantAnswer{503, "MAINTAINED_METHOD"}},
		"two partners": {string(first), success},
	} {
		parallel(t, name, func(t *testing.T) {
			g := newGate("/read", 1)
			defer g.open()
			b := newGatewayTo(t, "v2", newBackend(t, acceptsBothKeys("", g.holdCalls(newService()))),
				"limits: {partner: {in_flight: 1}}\npartners: {Hana Clinic: {keys: ["+c.keys+"], failures: {language: ko}}}\n")
			create := v2("create")
			b.expect(create, success)
			held := b.later(v2("read"))
			receive(t, g.reached, "call at the upstream")
			got := b.expect(v2("read").with("apiKey", newKey), c.want)
			if korean := strings.ContainsFunc(got.body, func(r rune) bool { return r >= '가' && r <= '힣' }); c.want != success && !korean {
				t.Errorf("not in the language of the partner: %s", got.body)
			}
			g.open()
			(<-held).check(t, "v2", success)
			own := first
			if c.want == success {
				own = second
			}
			proxytest.Eventually(t, func() bool {
				return strings.Count(b.logs.String(), `"partner":"`+own.Short()) >= 1
			}, b.logs.String)
			equal(t, strings.Contains(b.logs.String(), second.Short()), own == second)
		})
	}
}
