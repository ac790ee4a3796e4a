package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
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
	play := func(script string) {
		t.Helper()
		play(m, script, "KEY1", demoKey, "KEY2", newKey, "SECOND", string(second), "SHORT2", second.Short())
	}
	play(`
200 POST /rollout/stage?partner={partner}&stage=new&by=test&{forced}
success v2 create apiKey=KEY1 billId=B1
success v2 create apiKey=KEY2 billId=B2
# by two stages
bills 1 1`)

	without := *m.text.Load()
	with := without + fmt.Sprintf("partners: {Hana Clinic: {keys: [%s, %s]}}\n", first, second)
	command := "run billbridge rollout key add " + string(first) + " --hash " + string(second)
	m.reload(400, with, command)
	m.restart(with) // the gateway starts, and the key has no effect
	play(`
logs "level":"ERROR","msg":"keys of partners in the config have no effect: their calls are those of other partners" | ` + command + `
200 GET /rollout | ` + command + `
success legacy create apiKey=KEY2 billId=B3
bills 2 1`)

	proxytest.Eventually(t, func() bool { // the ledger has the outcome after the answer
		row, err := proxytest.On(m.store).Owner(t.Context(), second, "B3")
		return err == nil && row.State == ledger.Owned
	}, m.logs.String)
	play(`
200 POST /store/keys?partner={partner}&hash=SECOND&preview=true | "bills":2 | "preview":true
200 GET /rollout/partners | "all":2
200 POST /store/keys?partner={partner}&hash=SECOND&by=anna | "bills":2 | "keys":["{partner}","SECOND"]`)
	const stay = `
200 GET /rollout/partners | "all":1
success v2,legacy read apiKey=KEY1 billId=B1,B2,B3
success v2,legacy read apiKey=KEY2 billId=B1,B2,B3
idInUse v2,legacy create apiKey=KEY1 billId=B1,B2,B3
idInUse v2,legacy create apiKey=KEY2 billId=B1,B2,B3
bills 2 1`
	play(stay)
	m.reload(200, with)
	m.restart(with)
	play(stay + `
# at the stage of the partner
success v2 create apiKey=KEY2 billId=B4
bills 2 2
success v2 destroy apiKey=KEY1 billId=B2
success v2 destroy apiKey=KEY2 billId=B1`)
	for _, b := range append(m.old.Bills(), m.fresh.Bills()...) {
		equal(t, b.State == "D", b.ID == "B1" || b.ID == "B2", b.ID)
	}
	play(`200 GET /rollout?partner=SHORT2 | "partner":"{short}" | "name":"Hana Clinic" | "keys":["{short}","SHORT2"] | "stage":"new"`)
	for _, key := range []string{demoKey, newKey} { // the gateway reads with the key that was used last
		play("success v2 read billId=B4 apiKey=" + key + "\n200 POST /rollout/read?partner=SECOND&bill=B4 | \"partner\":\"{short}\" | \"owner\":\"new\"")
		checkText(t, m.newCalls.last(t).body, key)
	}
	play(`
200 GET /partners/SHORT2 | <code>SHORT2</code>
200 GET /audit | "action":"key_add","by":"anna" | "subject":"SHORT2"
log "partner":"{short}"
# calls with the new key are not logged as those of another partner
logs !"partner":"SHORT2"`)

	m.reload(200, without) // the config does not list the key any more: it stays one of the partner
	checkText(t, m.logs.String(), `"keys":"`+second.Short()+" of "+first.Short())
	m.restart(without)
	play(`
success v2 create apiKey=KEY2 billId=B5
bills 2 3
idInUse v2 create apiKey=KEY2 billId=B3
bills 2 3`)
}

// A key is refused that would make two bills one, that is not settled, or that may have bills which a drained partner would not be asked for.
func TestKeyIsNotAdded(t *testing.T) {
	t.Parallel()
	first, second := partner.Of(demoKey), partner.Of(newKey)
	// When the key was first seen, where the same bill is under the partner and under the key, the stage of the partner, and the answer.
	for _, row := range tableOf(t) {
		parallel(t, fmt.Sprint(row[:3]), func(t *testing.T) {
			m := newRolloutGateway(t, "old")
			if ago, err := time.ParseDuration(row[0]); err == nil {
				must(t, m.store.Seen(t.Context(), second, time.Now().Add(-ago)))
			}
			for i, at := range strings.Fields(row[1]) {
				_, err := proxytest.On(m.store).Found(t.Context(), []partner.ID{first, second}[i], demoBill, at, time.Now(), "")
				must(t, err)
			}
			must(t, m.store.Change(t.Context(), store.Change{Action: store.Staged, Partner: first, To: row[2], By: "test", At: time.Now()}))
			play(m, row[3]+" POST /store/keys?partner={partner}&by=anna&hash="+string(second)+" | "+row[4], "{demo}", demoBill)
		})
	}
	play(newRolloutGateway(t, "old"), `
400 POST /store/keys?partner={partner}&hash=KEY&by=anna | hash must be all 64 lower-case hex digits of the SHA-256 of the key
400 POST /store/keys?partner={partner}&hash=SECOND | by must be your name, for the audit log: 1 to 100 printable characters
409 POST /store/keys?partner={partner}&hash={partner}&by=anna | Not changed: a key and its partner need all digits of their hashes, which must differ.
`, "KEY", newKey, "SECOND", string(second))
}

// Without a store the config alone says which keys are of one partner: limits and names are those of the partner.
func TestKeysOfOnePartnerShareItsLimits(t *testing.T) {
	t.Parallel()
	first, second := partner.Of(demoKey), partner.Of(newKey)
	for name, c := range map[string]struct {
		keys string
		want wantAnswer
	}{
		"one partner":  {string(first) + ", " + string(second), refused},
		"two partners": {string(first), success},
	} {
		parallel(t, name, func(t *testing.T) {
			g := newGate(t, "/read", 1)
			b := newGatewayTo(t, "v2", newBackend(t, acceptsBothKeys("", g.holdCalls(newService()))),
				"limits: {partner: {in_flight: 1}}\npartners: {Hana Clinic: {keys: ["+c.keys+"]}}\n")
			b.expect(v2("create"), success)
			held := g.held(&b.caller, v2("read"))
			b.expect(v2("read").with("apiKey", newKey), c.want)
			g.open()
			(<-held).check(t, "v2", success)
			own := first
			if c.want == success {
				own = second
			}
			proxytest.Eventually(t, func() bool { return strings.Contains(b.logs.String(), `"partner":"`+own.Short()) }, b.logs.String)
			equal(t, strings.Contains(b.logs.String(), second.Short()), own == second)
		})
	}
}
