package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/sandbox"
)

// rolloutFaults are faults of a rollout, of its store, and of callbacks.
type rolloutFaults struct {
	*alertGateway
	old, new       *sandbox.Service
	oldURL, newURL string
	storeFile      string
	partner        string // its URL
	callback, lost string // addresses that the gateway gave out
}

// bridgeURL is the public URL of the gateway. The test replaces it, as the port is not known before.
const bridgeURL = "http://bridge.test"

func newRolloutFaults(t *testing.T) *rolloutFaults {
	t.Helper()
	f := &rolloutFaults{storeFile: filepath.Join(t.TempDir(), "bridge.db")}
	f.old, f.oldURL = newAlertSandbox(t)
	f.new, f.newURL = newAlertSandbox(t)
	partners := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"/gone": http.StatusGone, "/forbidden": http.StatusForbidden, "/created": http.StatusCreated}[r.URL.Path])
	}))
	t.Cleanup(partners.Close)
	f.partner = partners.URL
	f.alertGateway = startAlertGateway(t, nil, fmt.Sprintf(`upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
rollout: {old: old, new: new}
store: {url: "sqlite:%s"}
callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s, 1h, 1h, 1h]}
`, f.oldURL, f.newURL, f.storeFile, bridgeURL))
	return f
}

func (f *rolloutFaults) provoke() {
	f.run("rollout", "begin")
	for key, stage := range map[string][]string{"k-canary": {"canary", "--percent", "100"}, "k-new": {"new"}} {
		set := []string{"rollout", "set", "--partner", string(partner.Of(key)), "--force", rollout.JoinKinds(rollout.ReasonKinds), "--stage"}
		f.run(append(set, stage...)...)
	}
	for _, url := range []string{f.oldURL, f.newURL} { // past the gateway
		billCall(f.t, url, "create", "k-old", "TWICE", "")
	}
	billCall(f.t, f.partners, "destroy", "k-old", "TWICE", "")
	f.old.Fault(sandbox.Fault{Operation: "bill.read", Drop: true})
	billCall(f.t, f.partners, "destroy", "k-old", "UNCLEAR", "")
	f.old.Fault(sandbox.Fault{Operation: "bill.read", Code: "PARTNER_003"})
	billCall(f.t, f.partners, "create", "k-new", "BARRED", "")

	f.new.Fault(sandbox.Fault{
		Operation: "bill.read", Body: `{"code":"0000","message":"x","data":{"apiKey":"k-canary","billId":"PAID","apprState":"F","apprPrice":"1"}}`,
	})
	billCall(f.t, f.partners, "create", "k-canary", "PAID", "") // the gateway reads it back
	f.old.Fault(sandbox.Fault{Operation: "bill.create", Drop: true})
	billCall(f.t, f.partners, "create", "k-old", "UNKNOWN", "")
	f.provokeCallbacks()
	execSQL(f.t, f.storeFile, fmt.Sprint("UPDATE billbridge_unknown SET at = at - ", 24*3_600_000))
}

// addressOf creates a bill, and returns the callback address that the gateway gave the backend.
func (f *rolloutFaults) addressOf(bill, path string) string {
	billCall(f.t, f.partners, "create", "k-old", bill, f.partner+path)
	kept, err := f.old.Bill("k-old", bill)
	must(f.t, err)
	return strings.Replace(kept.CallbackURL, bridgeURL, f.partners, 1)
}

func (f *rolloutFaults) provokeCallbacks() {
	f.lost = f.addressOf("LOST", "/lost")
	created := f.addressOf("CREATED", "/created")
	for _, state := range []string{"F", "C"} {
		httpCall(f.t, http.MethodPost, created, fmt.Sprintf(`{"apikey":"k-old","bill_id":"CREATED","appr_state":%q}`, state))
	}
	for bill, path := range map[string]string{"GONE": "/gone", "FORBIDDEN": "/forbidden"} {
		f.callback = f.addressOf(bill, path)
		for _, body := range []string{
			`{"apikey":"k-new","bill_id":"BILL","appr_state":"F"}`, // of another partner
			`a text`,
			`{"x":1}`,
			`{"apikey":"k-old","bill_id":"BILL","appr_state":"F","appr_num":{"a":1}}`,
		} {
			httpCall(f.t, http.MethodPost, f.callback, strings.ReplaceAll(body, "BILL", bill))
		}
	}
	proxytest.Eventually(f.t, func() bool {
		return strings.Contains(f.run("callbacks", "list", "--state", "waiting"), "forbidden 403")
	}, func() string { return "no callback was forbidden" })
	execSQL(f.t, f.storeFile, "UPDATE billbridge_callbacks SET received = received - 7200000 WHERE state = 'waiting'")
	execSQL(f.t, f.storeFile, "UPDATE billbridge_addresses SET missing = created WHERE bill <> ''")
}

// loseAddress removes an address that the gateway gave out from its store, declares the store as restored, and makes a callback to the address.
func (f *rolloutFaults) loseAddress() {
	f.run("rollout", "restored")
	execSQL(f.t, f.storeFile, "DELETE FROM billbridge_addresses WHERE bill = 'LOST'")
	gives(f.t, http.StatusServiceUnavailable, "a lost address")(httpCall(f.t, http.MethodPost, f.lost, `{"apikey":"k-old","bill_id":"LOST","appr_state":"F"}`))
}

// breakStore makes the store fail, and makes a create and a callback.
func (f *rolloutFaults) breakStore() {
	execSQL(f.t, f.storeFile, "ALTER TABLE billbridge_owners RENAME TO owners_gone")
	execSQL(f.t, f.storeFile, "ALTER TABLE billbridge_callbacks RENAME TO callbacks_gone")
	billCall(f.t, f.partners, "create", "k-old", "LATER", "")
	httpCall(f.t, http.MethodPost, f.callback, `{"apikey":"k-old","appr_state":"C"}`)
	for _, table := range []string{"rollout", "waves", "unknown", "addresses", "stages", "audit"} {
		execSQL(f.t, f.storeFile, fmt.Sprintf("ALTER TABLE billbridge_%[1]s RENAME TO %[1]s_gone", table))
	}
}

// run runs a command at the gateway, and returns its output.
func (f *rolloutFaults) run(args ...string) string {
	f.t.Helper()
	if args[1] != "list" {
		args = append(args, "--by", "test")
	}
	code, out, errs := runCommand(f.t, false, append(args, "--admin", "http://"+f.admin, "--token", alertToken)...)
	equal(f.t, code, exitOK, args, out, errs)
	return out
}

// execSQL changes an SQLite store beside its gateway.
func execSQL(t *testing.T, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	must(t, err)
	_, err = db.Exec(statement)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
