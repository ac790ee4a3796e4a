package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/store"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// A callbackGateway relays callbacks between a sandbox and the server of a partner.
type callbackGateway struct {
	*process
	service *sandbox.Service
	back    *backend
	partner *backend
	file    string // of the store
}

// RoundTrip sends the callbacks of the sandbox to the listener of the gateway, as DNS and a load balancer would do
// with public_url.
func (r *callbackGateway) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != "bridge.example.com" {
		return nil, fmt.Errorf("a callback went to %s and not to the gateway", req.URL.Host)
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = "http", r.Address()
	return r.client.Do(req)
}

const callbacksOn = "callbacks: {public_url: https://bridge.example.com/from-upstreams, allow: [127.0.0.0/8], ports: []}\n"

// newCallbackGateway has one upstream, up. The server of the partner accepts every callback.
func newCallbackGateway(t *testing.T, upstream string) *callbackGateway {
	t.Helper()
	return newCallbackGatewayWith(t, upstream, "}\n")
}

// newCallbackGatewayWith has further keys at the end of the section callbacks.
func newCallbackGatewayWith(t *testing.T, upstream, more string) *callbackGateway {
	t.Helper()
	r := newCallbackParties(t)
	r.process = newProcess(t, r.config(upstream, "")+strings.TrimSuffix(callbacksOn, "}\n")+more)
	return r
}

// newCallbackParties is a callbackGateway whose gateway does not run yet.
func newCallbackParties(t *testing.T) *callbackGateway {
	t.Helper()
	r := &callbackGateway{file: filepath.Join(t.TempDir(), "store.db")}
	r.service = newService(func(o *sandbox.Options) { o.Transport = r })
	t.Cleanup(func() { _ = r.service.Close() })
	r.back = newBackend(t, r.service)
	r.partner = newBackend(t, replyWith(200, `{"code":"0000","msg":"성공하였습니다."}`))
	return r
}

// nthCallback waits for the nth callback at the server of the partner.
func (r *callbackGateway) nthCallback(n int) received {
	r.t.Helper()
	r.waitFor(fmt.Sprintf("%d callbacks at the partner", n), func() bool { return r.partner.count() >= n })
	return r.partner.received()[n-1]
}

// waitFor polls until so is true.
func (r *callbackGateway) waitFor(what string, so func() bool) {
	r.t.Helper()
	proxytest.Eventually(r.t, so, func() string { return fmt.Sprintf("no %s\n%s", what, r.logs) })
}

// addressAtUpstream returns the callback address in the nth call that the upstream got.
func (r *callbackGateway) addressAtUpstream(n int) string {
	r.t.Helper()
	found := wireAddress.FindStringSubmatch(r.back.received()[n-1].body)
	if found == nil {
		r.t.Fatal("no address at the upstream")
	}
	return found[1]
}

// A bill is created in the form of the partner and paid at an upstream of either form. The partner gets the callback
// that an upstream of its own form would have sent.
func TestCallbacksBetweenAllForms(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, client, upstream string) {
		r := newCallbackGateway(t, upstream)
		theirs := r.partner.url + "/paid?of=our%20bills"
		q := newCall(client, "create").with("callbackUrl", theirs)
		r.expect(q, success)
		ours := r.addressAtUpstream(1)
		equal(t, regexp.MustCompile(`^https://bridge.example.com/from-upstreams/callback/.{32}$`).MatchString(ours), true, ours)
		must(t, r.service.Pay("", demoBill))
		got := r.nthCallback(1)
		equal(t, got.method+" "+got.target+" "+got.header.Get("Content-Type"), "POST /paid?of=our%20bills application/json; charset=utf-8")
		equal(t, strings.HasPrefix(got.header.Get("Webhook-Id"), "cb_"), true, got.header)
		direct := newService()
		t.Cleanup(func() { _ = direct.Close() })
		direct.ServeHTTP(httptest.NewRecorder(), q.request())
		must(t, direct.Pay("", demoBill))
		want, relayed := fields(t, direct.Callbacks()[0].Body), fields(t, got.body)
		if client == upstream {
			equal(t, got.body, r.service.Callbacks()[0].Body, "between equal forms the body must not change")
		} else {
			// No public document pairs the words of one form with the numbers of the other, and a legacy
			// upstream has no place for the rest.
			for _, name := range []string{"apprPayType", "appr_pay_type", "apprCardMerchantNum", "apprSign", "cardType", "dscTxNum", "udItem"} {
				delete(want, name)
				delete(relayed, name)
			}
		}
		equal(t, cmp.Diff(want, relayed), "")
	})
}

// Between equal forms every other byte of a request stays as it is.
func TestOnlyTheAddressIsChanged(t *testing.T) {
	t.Parallel()
	r := newCallbackGateway(t, "v2")
	theirs := r.partner.url + "/a"
	escaped := strings.ReplaceAll(theirs, "/", `\/`)
	body := strings.NewReplacer("ESCAPED", escaped, "THEIRS", theirs).Replace("{ \"apiKey\":\"demo-partner-key\",\r\n\t\"extra\":[1e3,\"THEIRS\"], " +
		"\"bill\" : {\"callbackUrl\" : \"ESCAPED\",\"billId\":\"\\u0041\", \"price\":\"030000\"} , \"callbackUrl\":\"THEIRS\"}\n")
	r.post("/bill", body)
	got := r.back.first(t).body
	equal(t, got, strings.Replace(body, escaped, gjson.Get(got, "bill.callbackUrl").Str, 1))
	checkText(t, got, "https://bridge.example.com/from-upstreams/callback/")
}

// While a callback address cannot be stored, the bill is not created and the gateway is not ready.
func TestR30_NotStoredNotSent(t *testing.T) {
	t.Parallel()
	r := newCallbackGateway(t, "v2")
	// On a busy machine the first check of the store may take too long.
	r.waitForAdmin("/-/ready", "!not")
	must(t, os.Rename(r.file, r.file+".gone"))
	play(r, "refused v2,legacy create callbackUrl="+r.partner.url+" | Nothing was sent")
	r.back.expectCalls(t, 0)
	r.waitForAdmin("/-/ready", "not ready: the store cannot be written to\n")
	checkText(t, r.logs.String(), "no longer the one that was opened", `"level":"ERROR","msg":"a callback address cannot be stored"`)
	// Calls without an address still work.
	r.expect(v2("create").with("callbackUrl", nil), success)
	r.expect(legacy("read"), success)
}

// A config that drops or renames the upstream of stored addresses is refused, and so is another store or listener. An upstream
// may move, and the section callbacks may go: package relay has what happens then.
func TestReloadOfCallbacks(t *testing.T) {
	t.Parallel()
	r := newCallbackGateway(t, "v2")
	play(r, "success legacy create callbackUrl="+r.partner.url)
	before := *r.text.Load()
	for _, row := range rows(strings.NewReplacer("FILE", r.file, "NOW", newBackend(t, r.service).url, "URL", r.back.url).Replace(section(t))) {
		r.text.Store(&before)
		play(r, "reload "+row[1]+" "+row[0]+" | "+row[2])
	}
	r.reload(200, strings.Replace(before, callbacksOn, "", 1), "reloaded")
	checkText(t, r.logs.String(), "the URL of an upstream has changed", r.back.url)
	play(r, "success legacy create billId=ANOTHER0000000000001 callbackUrl="+r.partner.url)
	checkText(t, r.back.last(t).body, r.partner.url)
}

// callbacks.listen accepts only callbacks. The partners' listener still accepts callbacks to addresses that were given
// out before.
func TestCallbackListener(t *testing.T) {
	t.Parallel()
	p := newProcess(t, anyPort+oneUpstream("v2", refusedURL)+callbackListener(t))
	for _, row := range tableOf(t) {
		cells := strings.Fields(strings.NewReplacer("callbacks/", p.CallbackAddress()+"/", "partners/", p.Address()+"/",
			"UNKNOWN", strings.Repeat("0f", 16)).Replace(row[0]))
		got, err := doRequest(p.client, cells[1], "http://"+cells[2], "{}")
		must(t, err)
		equal(t, fmt.Sprint(got.status), cells[0], row[0])
		checkText(t, got.body, row[1])
		equal(t, got.header.Get("X-Request-Id") != "", true)
	}
}

// callbackListener returns the sections of a gateway that has a listener for callbacks.
func callbackListener(t *testing.T) string {
	return "store: {url: " + proxytest.SQLite(t) + "}\n" + strings.Replace(callbacksOn, "ports", "listen: 127.0.0.1:0, ports", 1)
}

// A delivery that is in progress at the stop is completed, and the store has its result.
func TestDrainWaitsForCallbackDeliveries(t *testing.T) {
	t.Parallel()
	r := newCallbackGateway(t, "v2")
	g := newGate(t, "", 1)
	partner := newBackend(t, g.holdCalls(replyWith(200, `{"code":"0000"}`)))
	play(r, "success v2 create callbackUrl="+partner.url)
	must(t, r.service.Pay("", demoBill))
	receive(t, g.reached, "attempt")
	r.drain()
	r.mustRun()
	g.open()
	must(t, receive(t, r.ended, "end of the server"))
	p, err := proxytest.Open(t, "sqlite:"+r.file).Page(t.Context(), store.Filter{})
	if must(t, err); len(p.Callbacks) != 1 || p.Callbacks[0].State != store.Delivered {
		t.Errorf("%+v", p.Callbacks)
	}
}

// config has one upstream and the store, with further keys of its section.
func (r *callbackGateway) config(upstream, store string) string {
	return anyPort + oneUpstream(upstream, r.back.url) + "store: {url: \"sqlite:" + r.file + "\"" + store + "}\n"
}

// A bill without its own address notifies the address of the registration. A registration is in v2, and so are the
// callbacks to its address (field notes, Callbacks).
func TestBillWithoutAddressUsesTheAddressOfTheRegistration(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		r := newCallbackGateway(t, "v2")
		for _, merchant := range []string{"north", "north", "south"} { // a repeated registration gets the same address
			play(r, `post 200 /auth/mapping {"apiKey":"demo-partner-key","memberId":"academy","merchantId":"MERCHANT","businessNumber":"1234567890","callbackUrl":"URL/registered","redirectUrl":"https://partner.example.com/back"} | "code":"0000"`,
				"MERCHANT", merchant, "URL", r.partner.url)
		}
		first := r.addressAtUpstream(1)
		equal(t, r.addressAtUpstream(2), first)
		equal(t, r.addressAtUpstream(3) != first, true, first)
		must(t, r.service.CompleteMapping(demoKey, "academy", "north"))
		checkText(t, r.nthCallback(1).body, `"mappingStatus":"COMPLETED"`)
		r.expect(newCall(client, "create").with("callbackUrl", nil).with("member", "academy").with("merchant", "north"), success)
		checkText(t, r.back.last(t).body, "!callback")
		must(t, r.service.Pay("", demoBill))
		got := r.nthCallback(2)
		equal(t, got.target, "/registered")
		checkText(t, got.body, `"billId":"`+demoBill+`"`)
	})
}
