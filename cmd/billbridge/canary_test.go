package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"

	"github.com/tidwall/gjson"
)

// canaries are secrets of calls, replies, callbacks and of the config. No command and no file of the store may show them.
var canaries = map[string]string{
	"KEY": "canary-key-4f19", "PHONE": "01044448217", "NAME": "카나리아회원", "HASH": strings.Repeat("c4a9", 16), "CARDFIRST": "5412-88", "CARDLAST": "-7391",
	"APPROVAL": "90417731", "MESSAGE": "canary message \"4\"", "TOKEN": "canary/token+18", "STOREKEY": strings.Repeat("5ec2e7", 10) + "0bad",
}

// withCanaries replaces the names of the canaries by their values, as in JSON.
func withCanaries(text string) string {
	for name, value := range canaries {
		quoted := strconv.Quote(value)
		if name == "TOKEN" {
			quoted = strconv.Quote(url.QueryEscape(value)) // it stands in a URL
		}
		text = strings.ReplaceAll(text, "<"+name+">", quoted[1:len(quoted)-1])
	}
	return text
}

// spellings returns the forms in which a value can appear: those to search without regard to case, and the parts of its
// base64 that are the same whatever is before and after it.
func spellings(value string) (folded, exact []string) {
	ascii, quoted := strconv.QuoteToASCII(value), strconv.Quote(value)
	for _, one := range []string{value, hex.EncodeToString([]byte(value)), url.QueryEscape(value), url.PathEscape(value), ascii[1 : len(ascii)-1], quoted[1 : len(quoted)-1]} {
		folded = append(folded, strings.ToLower(one))
	}
	for before := range 3 {
		text := append(make([]byte, before), value...)
		from, to := (before*8+5)/6, len(text)*8/6
		exact = append(exact, base64.RawStdEncoding.EncodeToString(text)[from:to], base64.RawURLEncoding.EncodeToString(text)[from:to])
	}
	return folded, exact
}

// checkCanaries reports each canary that a text shows.
func checkCanaries(t *testing.T, where, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for name, value := range canaries {
		folded, exact := spellings(value)
		for _, one := range folded {
			if at := strings.Index(lower, one); at >= 0 {
				t.Errorf("%s shows %s as %q: %q", where, name, one, lower[max(0, at-100):min(len(lower), at+100)])
				break
			}
		}
		for _, one := range exact {
			if strings.Contains(text, one) {
				t.Errorf("%s shows %s in base64: %q", where, name, one)
				break
			}
		}
	}
}

// A canaryBackend puts canaries into every reply. The beginning of a bill's id determines what goes wrong.
type canaryBackend struct {
	form, url string

	mu        sync.Mutex
	addresses map[string]string // callback addresses by bill
	calls     map[string]int    // by the beginning of the bill's id
}

func newCanaryBackend(t *testing.T, form string) *canaryBackend {
	t.Helper()
	b := &canaryBackend{form: form, addresses: map[string]string{}, calls: map[string]int{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *canaryBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	bill, op := billRefOf(body).bill, opOf(b.form, r.URL.Path)
	kind, _, _ := strings.Cut(bill, "-")
	b.mu.Lock()
	b.calls[kind]++
	if address := gjson.GetBytes(body, "bill.callbackUrl").String() + gjson.GetBytes(body, "bill.callbackURL").String(); address != "" {
		b.addresses[bill] = address
	}
	has := kind == "DIFF" || kind != "LOST" && b.addresses[bill] != ""
	b.mu.Unlock()
	answer := map[string]string{
		"v2":     `{"code":"0000","message":"<MESSAGE>","data":{"apiKey":"<KEY>","member":"<NAME>","merchant":"s","billId":"BILL","hash":"<HASH>","shortUrl":"https://x.example.com/<TOKEN>"}}`,
		"legacy": `{"code":"0000","msg":"<MESSAGE>","apikey":"<KEY>","member":"<NAME>","merchant":"s","bill_id":"BILL","hash":"<HASH>"}`,
	}
	if op == "read" {
		answer = map[string]string{
			"v2":     `{"code":"0000","message":"<MESSAGE>","data":{"apiKey":"<KEY>","billId":"BILL","apprState":"F","apprPrice":30000,"apprIssuer":"<NAME>","apprIssuerNum":"<CARDFIRST>**-****<CARDLAST>","apprNum":"<APPROVAL>"}}`,
			"legacy": `{"apikey":"<KEY>","bill_id":"BILL","appr_state":"F","appr_price":"30000","appr_issuer":"<NAME>","appr_issuer_num":"<CARDFIRST>**-****<CARDLAST>","appr_num":"<APPROVAL>"}`,
		}
	}
	switch {
	case kind == "LOST" && op != "read" || kind == "BREAK" && (op == "cancel" || op == "destroy"):
		panic(http.ErrAbortHandler)
	case op == "read" && !has:
		answer = map[string]string{"v2": `{"code":"BILL_003","message":"<NAME> <PHONE>","data":null}`, "legacy": `{"code":"BILL_003","msg":"<NAME> <PHONE>"}`}
	case kind == "FAIL":
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]string{"v2": `{"code":"VALIDATION_002","message":"<HASH> of <PHONE>","data":{"apiKey":"<KEY>"}}`, "legacy": `{"code":"VALIDATION_002","msg":"<HASH> of <PHONE>","apikey":"<KEY>"}`}
	case kind == "PAGE":
		w.WriteHeader(http.StatusBadGateway)
		answer[b.form] = `<html><KEY> <NAME> <PHONE> <CARDFIRST></html>`
	case kind == "DIFF" && b.form == "v2":
		answer[b.form] = strings.NewReplacer("<NAME>", "<PHONE>", "<CARDLAST>", "<APPROVAL>", "30000", "40000").Replace(answer[b.form])
	}
	_, _ = io.WriteString(w, strings.ReplaceAll(withCanaries(answer[b.form]), "BILL", bill))
}

// notify sends the callbacks of all bills, each whole and cut off. It returns the number of accepted ones.
func (b *canaryBackend) notify(ctx context.Context, t *testing.T, client *http.Client) (accepted int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for bill, address := range b.addresses {
		body := `{"apiKey":"<KEY>","billId":"BILL","apprState":"F","apprPrice":30000,"apprIssuer":"<NAME>","apprIssuerNum":"<CARDFIRST>**-****<CARDLAST>","apprNum":"<APPROVAL>","phone":"<PHONE>","hash":"<HASH>"}`
		if b.form == "legacy" {
			body = `{"apikey":"<KEY>","bill_id":"BILL","appr_state":"F","appr_price":"30000","appr_issuer":"<NAME>","appr_issuer_num":"<CARDFIRST>**-****<CARDLAST>","appr_num":"<APPROVAL>","phone":"<PHONE>","hash":"<HASH>"}`
		}
		body = strings.ReplaceAll(withCanaries(body), "BILL", bill)
		for _, one := range []string{body[:len(body)-3], body} {
			status, _, err := post(ctx, client, address, one)
			must(t, err)
			if status == http.StatusOK {
				accepted++
			}
		}
	}
	return accepted
}

// canaryCalls makes the calls of a bill in a form, and returns the number of successes.
func canaryCalls(ctx context.Context, t *testing.T, client *http.Client, form, bill, callback string) (succeeded int) {
	t.Helper()
	for _, op := range operations {
		call := map[string]string{"v2": `{"apiKey":"<KEY>","member":"m","merchant":"s","bill":{"billId":"BILL","price":30000,"hash":"<HASH>","cancelReason":"<MESSAGE>"}}`, "legacy": `{"apikey":"<KEY>","member":"m","merchant":"s","bill_id":"BILL","price":"30000","hash":"<HASH>"}`}
		if op == "create" {
			call = map[string]string{
				"v2":     `{"apiKey":"<KEY>","member":"m","merchant":"s","bill":{"billId":"BILL","sendType":"TALK","price":30000,"hash":"<HASH>","memberName":"<NAME>","phone":"<PHONE>","message":"<MESSAGE>","productName":"<NAME>","expireDt":"2099-12-31","callbackUrl":"CALLBACK"}}`,
				"legacy": `{"apikey":"<KEY>","member":"m","merchant":"s","bill":{"bill_id":"BILL","price":"30000","hash":"<HASH>","member_nm":"<NAME>","phone":"<PHONE>","message":"<MESSAGE>","product_nm":"<NAME>","expire_dt":"2099-12-31","callbackURL":"CALLBACK"}}`,
			}
		}
		body := strings.NewReplacer("BILL", bill, "CALLBACK", callback+"/"+bill+"?token="+url.QueryEscape(canaries["TOKEN"])).Replace(withCanaries(call[form]))
		status, _, err := post(ctx, client, clusterURL+operationPath(form, op), body)
		must(t, err)
		if status == http.StatusOK {
			succeeded++
		}
	}
	return succeeded
}

// newCanaryPartner refuses the callbacks of bills DEAD-…, with canaries in its answer, and accepts all others. It expects the
// canaries in the callbacks.
func newCanaryPartner(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Query().Get("token") != canaries["TOKEN"] || !bytes.Contains(body, []byte(canaries["NAME"])) || !bytes.Contains(body, []byte(canaries["CARDLAST"])) {
			t.Errorf("the callback at %s has no canaries: %s, %v", r.URL, body, err)
		}
		if strings.Contains(r.URL.Path, "DEAD") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, withCanaries(`{"code":"<KEY>","message":"<NAME> <PHONE> <TOKEN>"}`))
			return
		}
		_, _ = io.WriteString(w, callbackAnswer("legacy"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The output of commands about bills, callbacks and a rollout, and the files of a store with store.key, show no key, phone,
// name, hash, card digit, message or token of a callback address.
func TestR35_CommandsShowNoSecrets(t *testing.T) {
	t.Parallel()
	b, backends, callback := newCluster(t), []*canaryBackend{newCanaryBackend(t, "legacy"), newCanaryBackend(t, "v2")}, newCanaryPartner(t)
	file := filepath.Join(b.folder, "bridge.db")
	must(t, proxytest.BeginRollout(t, "sqlite:"+file, partner.Of(canaries["KEY"])).Close())
	g := b.start(t, withCanaries(fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
failures: {explain: 300ms}
rollout: {old: old, new: new}
store: {url: "sqlite:%s", key: "<STOREKEY>"}
callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s]}
`, backends[0].url, backends[1].url, file, clusterURL)))
	keyFile, config := filepath.Join(b.folder, "key"), filepath.Join(b.folder, "billbridge.yaml")
	ref, admin := partner.Of(canaries["KEY"]).Short(), "http://"+g.operator
	addresses := filepath.Join(b.folder, "addresses")
	token := url.QueryEscape(canaries["TOKEN"])
	lists := callback + "/a?token=" + token + "\nftp://user:" + token + "@example.com/?token=" + token + "\nhttp://10.0.0.1/?token=" + token + "\nhttp://%zz?token=" + token + "\n"
	for name, text := range map[string]string{keyFile: canaries["KEY"] + "\n", addresses: lists} {
		proxytest.WriteFile(t, name, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // for all calls
	defer cancel()

	const anyCode = -1
	// does runs a command. Its output must have no canary, and the text shows.
	does := func(code int, shows string, args ...string) string {
		t.Helper()
		got, out, errs := runCommand(t, false, args...)
		if code != anyCode && got != code || !strings.Contains(out+errs, shows) {
			t.Errorf("%q: exit code %d, want %d and %q in:\n%s%s", args, got, code, shows, out, errs)
		}
		checkCanaries(t, fmt.Sprintf("stdout of %q", args), out)
		checkCanaries(t, fmt.Sprintf("stderr of %q", args), errs)
		return out
	}
	// both runs a command as a table and as JSON.
	both := func(code int, shows string, args ...string) {
		t.Helper()
		does(code, shows, args...)
		does(code, shows, append(args, "--json")...)
	}
	at := func(args ...string) []string { return append(args, "--admin", admin) }

	client := b.client(t)
	kinds, stages := []string{"GOOD", "DEAD", "LOST", "BREAK", "FAIL", "PAGE", "DIFF"}, []string{"old", "shadow", "new"}
	succeeded, bills := 0, []string{}
	for _, stage := range stages {
		does(exitOK, stage, at("rollout", "set", "--key-file", keyFile, "--stage", stage, "--by", "kim", "--force", rollout.JoinKinds(rollout.ReasonKinds))...)
		for _, kind := range kinds {
			for _, form := range []string{"v2", "legacy"} {
				bill := kind + "-" + stage + "-" + form
				bills = append(bills, bill)
				succeeded += canaryCalls(ctx, t, client, form, bill, callback)
			}
		}
	}
	accepted := 0
	for _, backend := range backends {
		accepted += backend.notify(ctx, t, client)
		for _, kind := range kinds {
			if backend.calls[kind] == 0 {
				t.Errorf("the %s backend had no call of a bill %s", backend.form, kind)
			}
		}
	}
	awaitNoneWaiting(t, g, accepted)

	both(exitOK, "DEAD-old-v2", at("callbacks", "list")...)
	both(exitOK, "GOOD-old-legacy", at("callbacks", "list", "--state", "delivered")...)
	both(exitOK, "BREAK-old-v2", at("callbacks", "list", "--partner", ref, "--bill", "BREAK-old-v2")...)
	shown := 0
	for line := range strings.Lines(does(exitOK, "", at("callbacks", "list", "--json")...)) {
		both(exitOK, gjson.Get(line, "bill").String(), at("callbacks", "show", gjson.Get(line, "id").String())...)
		shown++
	}
	does(exitOK, "would be queued", at("callbacks", "replay", "--all", "--dry-run")...)
	does(exitOK, "would be dropped", at("callbacks", "drop", "--partner", ref, "--dry-run")...)
	does(exitOK, "queued", at("callbacks", "replay", "--bill", "DEAD-shadow-v2")...)
	awaitNoneWaiting(t, g, accepted)
	does(exitOK, "dropped", at("callbacks", "drop", "--bill", "DEAD-shadow-v2")...)
	both(exitOK, "kim", at("callbacks", "audit")...)
	both(exitOK, "GOOD-old-v2", at("bills", "list")...)
	both(exitOK, "LOST-shadow-legacy", at("bills", "list", "--outcome", "unknown")...)
	for _, format := range []string{"text", "markdown", "json"} {
		does(exitError, ref, at("rollout", "report", "--format", format)...) // a verdict is FAIL
	}
	both(exitOK, ref, at("rollout", "status")...)
	both(exitOK, ref, at("rollout", "audit")...)
	for n := 0; n < len(bills); n += 2 { // one of each kind and stage
		for m, command := range [][]string{{"bills", "read", bills[n]}, {"rollout", "bill", "--bill", bills[n]}} {
			who := [][]string{{"--partner", ref}, {"--key-file", keyFile}}[(n/2+m)%2]
			both(anyCode, bills[n], at(append(command, who...)...)...) // a read that fails is an error
		}
	}
	does(exitOK, "machine", at("store", "clock")...)
	does(exitOK, "", "check", "--config", config)
	does(exitOK, "", "check", "--config", config, "--offline")
	does(exitError, "", "check", "--config", config, "--addresses", addresses)
	backup := filepath.Join(b.folder, "backup.db")
	does(exitOK, "", "store", "backup", backup, "--config", config)

	// A key in the place of a partner's hash, and a token as the password of the URL of the gateway.
	for _, command := range [][]string{{"callbacks", "list"}, {"callbacks", "replay"}, {"bills", "list"}, {"bills", "read", "GOOD-old-v2"}, {"rollout", "report"}, {"rollout", "bill", "--bill", "GOOD-old-v2"}, {"rollout", "set", "--stage", "old"}} {
		if code, out, errs := runCommand(t, false, at(append(command, "--partner", canaries["KEY"])...)...); code == exitOK {
			t.Errorf("%q accepts a key as the partner", command)
		} else {
			checkCanaries(t, fmt.Sprintf("output of %q with a key as the partner", command), out+errs)
		}
	}
	does(exitUsage, "without user and password", "bills", "list", "--admin", "http://user:"+token+"@"+g.operator)

	files := checkStoreFiles(t, file+"*", 3, bills[0])
	terminate(t, b, g)
	files += checkStoreFiles(t, file+"*", 1, bills[0])
	files += checkStoreFiles(t, backup, 1, bills[0])
	checkCanaries(t, "the output of the gateway", g.process.all("stdout", "stderr"))
	if succeeded < len(bills) || accepted < len(bills)/2 || shown != accepted {
		t.Errorf("%d calls succeeded, %d callbacks were accepted, and %d are shown: too few", succeeded, accepted, shown)
	}
	t.Logf("%d bills, of which %d were sent to the old and %d to the new backend, %d successful calls, %d callbacks, %d bytes of the store", len(bills), len(backends[0].addresses), len(backends[1].addresses), succeeded, accepted, files)
}

// checkStoreFiles searches the files of a store for canaries, and returns their size. They must have the id of a bill, which is
// not encrypted.
func checkStoreFiles(t *testing.T, pattern string, atLeast int, bill string) (size int) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) < atLeast {
		t.Fatalf("the store has the files %v, want at least %d: %v", names, atLeast, err)
	}
	found := false
	for _, name := range names {
		text := proxytest.ReadFile(t, name)
		checkCanaries(t, name, string(text))
		found, size = found || bytes.Contains(text, []byte(bill)), size+len(text)
	}
	if !found {
		t.Errorf("%v do not have the bill %s", names, bill)
	}
	return size
}
