package proxy_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// wireSecrets are values that stand in calls, replies and callbacks, and must be found nowhere else. The last two
// are a part of the query of a callback address and of the address of a redirect.
var wireSecrets = map[string]string{
	"key": "canary-key-91b7", "another key": "canary-key-77aa", "phone": "01055559137", "name": "카나리아고객", "hash": strings.Repeat("c4a9", 16),
	"card": "5412-88**-****-3391", "approval": "90417731", "message": "canary-message", "token": "canary-token", "redirect": "canary-redirect",
}

// A wireBackend answers by the bill of the call, with secrets wherever a reply has a place, and keeps the callback
// addresses. The gate holds the calls of the bill "held".
type wireBackend struct {
	form   string
	server *httptest.Server
	gate   *gate

	mu        sync.Mutex
	addresses map[string]string // by bill
}

func newWireBackend(t *testing.T, form string, g *gate) *wireBackend {
	b := &wireBackend{form: form, gate: g, addresses: map[string]string{}}
	b.server = httptest.NewServer(b)
	t.Cleanup(b.server.Close)
	return b
}

// withSecrets replaces words by secrets.
func withSecrets(text string) string {
	s := wireSecrets
	return strings.NewReplacer("KEY", s["key"], "PHONE", s["phone"], "NAME", s["name"], "HASH", s["hash"], "CARD", s["card"], "NUM", s["approval"], "MESSAGE", s["message"], "TOKEN", s["token"]).Replace(text)
}

var (
	wireBillID  = regexp.MustCompile(`"bill_?[iI]d":"([^"]*)"`)
	wireAddress = regexp.MustCompile(`"callbackU(?:RL|rl)":"([^"]*)"`)
)

func (b *wireBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	bill := wireBillID.FindStringSubmatch(string(body))
	if bill == nil {
		return
	}
	if address := wireAddress.FindStringSubmatch(string(body)); address != nil {
		b.mu.Lock()
		b.addresses[bill[1]] = address[1]
		b.mu.Unlock()
	}
	kind, _, _ := strings.Cut(bill[1], "-")
	switch read := strings.HasSuffix(r.URL.Path, "/read"); {
	case kind == "held":
		b.gate.reached <- struct{}{}
		<-b.gate.release
		panic(http.ErrAbortHandler)
	case kind == "good" && read:
		kind = "record"
	case kind == "good", kind == "differs" && !read:
		kind = "done"
	case read && kind != "differs":
		kind = "none"
	case kind == "lost":
		panic(http.ErrAbortHandler)
	}
	reply := wireReplies[kind]
	if kind == "moved" {
		w.Header().Set("Location", "http://"+wireSecrets["redirect"]+".example.com/"+wireSecrets["key"])
	}
	status, _ := strconv.Atoi(reply[0])
	w.WriteHeader(status)
	_, _ = io.WriteString(w, withSecrets(strings.ReplaceAll(reply[1+slices.Index(forms, b.form)], "ID", bill[1])))
}

// A secretRun is a gateway with a rollout and callbacks whose calls all carry secrets, and the texts that must not
// show them.
type secretRun struct {
	t         *testing.T
	gateway   *process
	backends  []*wireBackend
	partner   *httptest.Server
	shown     map[string]*strings.Builder // by where it is shown
	failures  int
	callbacks map[int]int // by the status of the answer
}

func (s *secretRun) show(where, text string) {
	if s.shown[where] == nil {
		s.shown[where] = &strings.Builder{}
	}
	s.shown[where].WriteString(text + "\n")
}

// A refusal tells its sender, and no log, which name appears twice and which price is not a number, so no secret
// stands there.

// post sends a body and keeps the answer, unless it is one of the backend itself: a success or a refusal with its
// text.
func (s *secretRun) post(target, body string) (status int) {
	got, err := doRequest(s.gateway.client, http.MethodPost, target, body,
		"Traceparent", callerTrace, "Tracestate", "a="+wireSecrets["key"], "User-Agent", wireSecrets["name"], "Referer", wireSecrets["hash"],
		"Baggage", "k="+wireSecrets["key"], "X-Forwarded-For", wireSecrets["phone"], "Authorization", "Bearer "+wireSecrets["token"])
	must(s.t, err)
	if own := strings.Contains(got.body, wireSecrets["message"]) || strings.Contains(got.body, "is wrong"); got.status == 200 || own && got.status == 400 {
		return got.status
	}
	s.failures++
	s.show("answers", fmt.Sprintf("%d %s %s", got.status, got.header, got.body))
	return got.status
}

// wireCallOf is a call with a secret in each field that has a place for one.
func wireCallOf(form, op, bill, callback string) call {
	q := newCall(form, op).with("apiKey", wireSecrets["key"]).with("billId", bill).with("hash", wireSecrets["hash"])
	if op != "create" {
		return q
	}
	q = q.with("memberName", wireSecrets["name"]).with("productName", wireSecrets["name"]).with("phone", wireSecrets["phone"])
	return q.with("message", wireSecrets["message"]).with("expireDt", "2030-12-31").with("callbackUrl", callback)
}

// calls makes all operations of a bill in both forms, whole and in ways that are refused.
func (s *secretRun) calls(bill string) {
	for _, op := range operations {
		for _, form := range forms {
			q := wireCallOf(form, op, bill, s.partner.URL+"/paid?token="+wireSecrets["token"])
			at, body := s.gateway.url+q.path(), q.body()
			s.post(at, body)
			s.post(at, body[:len(body)-5])
			s.post(at, strings.ReplaceAll(body, `"`+wireSecrets["key"]+`"`, `{"`+wireSecrets["phone"]+`":"`+wireSecrets["name"]+`"}`))
			s.post(at, strings.ReplaceAll(body, "30000", "3e9"))
			s.post(at, strings.Replace(body, "{", `{"`+wireSecrets["phone"]+`":"`+wireSecrets["name"]+`",`, 1))
			s.post(at, withSecrets(`{"apiKey":"KEY","apikey":"KEY","bill":"PHONE"}`))
			s.post(at+"/"+wireSecrets["key"]+"?"+wireSecrets["token"], body)
			s.post(at, strings.Replace(body, s.partner.URL, "http://user:"+wireSecrets["token"]+"@127.0.0.1", 1))
		}
	}
}

// notify sends callbacks to the address of a bill, whole and in ways that are refused.
func (s *secretRun) notify(b *wireBackend, bill, address string) {
	whole := withSecrets(strings.ReplaceAll(`{"apiKey":"KEY","billId":"ID","apprState":"F","apprPrice":30000,"apprIssuer":"NAME","apprIssuerNum":"CARD","apprNum":"NUM","PHONE":"TOKEN"}`, "ID", bill))
	if b.form == "legacy" {
		whole = withSecrets(strings.ReplaceAll(`{"apikey":"KEY","bill_id":"ID","appr_state":"F","appr_price":"30000","appr_issuer":"NAME","appr_issuer_num":"CARD","appr_num":"NUM","PHONE":"TOKEN"}`, "ID", bill))
	}
	for _, body := range []string{
		whole, whole[:len(whole)-4], strings.Replace(whole, wireSecrets["key"], wireSecrets["another key"], 1), strings.Replace(whole, bill, wireSecrets["token"], 1),
		strings.Replace(whole, "{", `{"appr_state":"`+wireSecrets["phone"]+`","apprState":"`+wireSecrets["name"]+`",`, 1), strings.Replace(whole, `"F"`, `["`+wireSecrets["name"]+`"]`, 1), "KEY=" + wireSecrets["key"],
	} {
		s.callbacks[s.post(address, body)]++
	}
	s.post(address+wireSecrets["token"], whole)
}

// admin asks the admin listener for everything that it shows, also with a key where the name of a partner belongs.
func (s *secretRun) admin(bills []string) {
	id := partner.Of(wireSecrets["key"]).Short()
	ask := func(method, path string) string {
		got := s.gateway.admin(method, path)
		s.show("admin listener", fmt.Sprintf("%s %s: %d %s", method, strings.ReplaceAll(path, wireSecrets["key"], "KEY"), got.status, got.body))
		return got.body
	}
	var of strings.Builder
	for _, bill := range bills {
		fmt.Fprintf(&of, "POST /rollout/read?partner=%s&bill=%s\n", id, bill)
	}
	for _, row := range rows(of.String() + withSecrets(`
GET /
GET /metrics
GET /-/ready?verbose
GET /callbacks
GET /rollout
GET /rollout/report
GET /audit
GET /rollout/bills
GET /rollout/bills?outcome=unknown
GET /store/clock
GET /rollout/report?partner=`+id+`
GET /rollout/report?partner=KEY
GET /rollout/bills?partner=KEY
GET /callbacks?partner=KEY
POST /rollout/read?bill=good-0&partner=KEY
POST /rollout/stage?stage=new&by=a&partner=KEY
POST /rollout/stage?stage=default&by=a&partner=KEY
POST /rollout/reset?by=a&`+forced+`&partner=KEY
POST /callbacks/replay?by=a&partner=KEY
POST /rollout/assign?by=a&owner=old&bill=good-0&partner=KEY`)) {
		method, path, _ := strings.Cut(row[0], " ")
		ask(method, path)
	}
	var listed struct{ Callbacks []struct{ ID string } }
	if err := json.Unmarshal([]byte(ask("GET", "/callbacks")), &listed); err != nil || len(listed.Callbacks) == 0 {
		s.t.Errorf("%d callbacks are listed: %v", len(listed.Callbacks), err)
	}
	for _, c := range listed.Callbacks {
		ask("GET", "/callbacks/"+c.ID)
	}
}

// dump keeps the stacks of all goroutines while calls are held at both backends.
func (s *secretRun) dump() {
	var calling sync.WaitGroup
	for n, form := range forms {
		q := wireCallOf(form, "create", fmt.Sprint("held-", n), "")
		calling.Go(func() { s.gateway.send(q) }) // it is answered after the dump
	}
	held := s.backends[0].gate
	for range forms {
		receive(s.t, held.reached, "call at a backend")
	}
	stacks := make([]byte, 8<<20)
	s.show("goroutines", string(stacks[:runtime.Stack(stacks, true)]))
	for debug := 1; debug <= 2; debug++ {
		var b strings.Builder
		must(s.t, pprof.Lookup("goroutine").WriteTo(&b, debug))
		s.show("goroutines", b.String())
	}
	held.open()
	calling.Wait()
}

// TestR35_SecretsOfARollout: good, refused and unknown calls, callbacks and every question of an operator, in each
// stage of a rollout. The secrets are in no log, metric, answer of the gateway, answer of the admin listener or
// stack of a goroutine.
func TestR35_SecretsOfARollout(t *testing.T) {
	t.Parallel()
	held := newGate(t, "", 0)
	s := &secretRun{t: t, backends: []*wireBackend{newWireBackend(t, "legacy", held), newWireBackend(t, "v2", held)}, shown: map[string]*strings.Builder{}, callbacks: map[int]int{}}
	var answers atomic.Int64
	s.partner = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := answers.Add(1) % 6
		w.Header().Set("Location", "http://"+wireSecrets["redirect"]+".example.com/")
		w.Header().Set("Retry-After", wireSecrets["token"])
		if n == 5 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader([]int{200, 302, 500, 200, 200}[n])
		_, _ = io.WriteString(w, withSecrets([]string{`{"code":"0000"}`, "KEY", "NAME", `{"code":"9999","PHONE":1}`, `{"code":"KEY"}`}[n]))
	}))
	t.Cleanup(s.partner.Close)
	callbacks := newSocket(t)
	s.gateway = newProcessOnSockets(t, anyPort+fmt.Sprintf(`upstreams:
  old: {form: legacy, url: %q, timeout: 10s}
  new: {form: v2, url: %q, timeout: 10s}
route: {default: old}
rollout: {old: old, new: new, settle: 1m}
callbacks: {public_url: "http://%s", listen: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s, 10ms, 10ms]}
store: {url: %q}
`, s.backends[0].server.URL, s.backends[1].server.URL, callbacks.Addr(), callbacks.Addr(), proxytest.SQLite(t)), map[string]net.Listener{"callbacks.listen": callbacks})
	s.gateway.mustPost("/rollout/begin?by=a")
	var bills []string
	for n, stage := range []string{"old", "canary&percent=50", "new", "drained"} {
		if n > 0 {
			s.gateway.mustPost("/rollout/stage?by=a&" + forced + "&partner=" + partner.Of(wireSecrets["key"]).Short() + "&stage=" + stage)
		}
		for i, kind := range strings.Fields("good differs refused page odd code twice moved lost") {
			if i%4 != n && !proxytest.Long() { // the short form has each kind in one stage
				continue
			}
			bill := fmt.Sprintf("%s-%d", kind, n)
			bills = append(bills, bill)
			s.calls(bill)
		}
	}
	for _, b := range s.backends {
		b.mu.Lock()
		addresses := maps.Clone(b.addresses)
		b.mu.Unlock()
		for bill, address := range addresses {
			s.notify(b, bill, address)
		}
	}
	s.dump()
	s.admin(bills)
	log := s.gateway.logs.String()
	s.show("log", log)
	for where, text := range s.shown {
		for name, secret := range wireSecrets {
			for _, at := range regexp.MustCompile(regexp.QuoteMeta(secret)).FindAllStringIndex(text.String(), 3) {
				t.Errorf("%s is in %s: …%s", name, where, text.String()[max(0, at[0]-300):min(text.Len(), at[1]+100)])
			}
		}
		t.Logf("%d bytes of %s have none of the %d secrets", text.Len(), where, len(wireSecrets))
	}
	t.Logf("%d failures were answered by the gateway itself; callbacks by the status of their answer: %v", s.failures, s.callbacks)
	checkText(t, log, `"outcome":"unknown"`, "no more attempts are made", "a callback is refused", partner.Of(wireSecrets["key"]).Short())
	if s.failures < 500 || s.callbacks[200] == 0 || len(s.callbacks) < 3 {
		t.Error("it did not come to everything that it is about")
	}
}

// wireReplies are the replies by the kind of a bill, with status, v2 and legacy. ID is the bill.
var wireReplies = func() map[string][]string {
	all := map[string][]string{}
	for _, row := range rows(secretReplies) {
		all[row[0]] = row[1:]
	}
	return all
}()

//go:embed testdata/secretreplies.txt
var secretReplies string
