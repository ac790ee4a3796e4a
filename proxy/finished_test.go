package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/sandbox"

	"github.com/tidwall/gjson"
)

// A finishedGateway keeps what Options.Finished got last, with its line of the log.
type finishedGateway struct {
	*gateway
	last           proxy.Finished
	request, reply string
	count          int
}

func newFinishedGateway(t *testing.T, text string) *finishedGateway {
	t.Helper()
	g := &finishedGateway{gateway: newGateway(t, text)}
	g.finished = func(f *proxy.Finished) {
		g.last, g.request, g.reply = *f, string(f.Request), string(f.Reply) // they are valid during the call only
		g.last.Bill = strings.Clone(f.Bill)
		g.count++
	}
	return g
}

func (g *finishedGateway) call(id, method, path, body string) {
	g.logs.Take()
	g.last, g.count = proxy.Finished{}, 0
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", id)
	g.ServeHTTP(httptest.NewRecorder(), r)
}

// Without the console nothing is kept. A success that log.sample leaves out of the log is reported too, and says so.
func TestFinishedIsForTheConsole(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "S", demoBill)
	back := newBackend(t, service)
	g := newFinishedGateway(t, oneUpstream("v2", back.url))
	q := legacy("read")
	for _, row := range []struct {
		config        string
		count, logged int
	}{{"admin: {console: false}", 0, 1}, {"", 1, 1}, {"log: {sample: {ok: 0}}", 1, 0}, {"log: {sample: {ok: 1}}", 1, 1}} {
		g.Use(parse(t, oneUpstream("v2", back.url, row.config)))
		g.call("x", http.MethodPost, q.path(), q.body())
		equal(t, g.count, row.count, row.config)
		equal(t, strings.Count(g.logs.String(), `"id":"x"`), row.logged, row.config)
		equal(t, g.last.Logged, row.count+row.logged == 2, row.config)
	}
}

// The messages of calls that run at the same time do not mix, although the gateway uses its buffers again.
func TestFinishedKeepsTheMessagesOfEachCall(t *testing.T) {
	t.Parallel()
	g := newGatewayTo(t, "v2", newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bill := gjson.GetBytes(body, "bill.billId").String()
		_, _ = io.WriteString(w, `{"code":"BILL_003","message":"`+bill+strings.Repeat("x", len(body)%97)+`","data":null}`)
	}))
	g.finished = func(f *proxy.Finished) {
		runtime.Gosched() // other calls may use a buffer that was given back too early
		equal(t, gjson.GetBytes(f.Request, "bill_id").String(), f.ID)
		equal(t, f.Bill, f.ID)
		checkText(t, string(f.Reply), `"message":"`+f.ID+"x")
	}
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 100 {
				bill := fmt.Sprint("B", caller, "-", i)
				r := legacy("read").with("billId", bill).request()
				r.Header.Set("X-Request-Id", bill)
				g.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	callers.Wait()
}

// A caller that writes its key into the field of the bill finds it neither in the log nor in the console.
func TestR35_KeyAsBillIsNotReported(t *testing.T) {
	t.Parallel()
	service := newService()
	back := newBackend(t, service)
	g := newFinishedGateway(t, oneUpstream("v2", back.url, ""))
	service.Fault(sandbox.Fault{Drop: true})
	resend := legacy("resend")
	g.call("x", http.MethodPost, resend.path(), resend.with("billId", demoKey).body())
	if !g.last.Unknown || g.last.Bill != "" {
		t.Errorf("%+v", g.last)
	}
	checkText(t, g.logs.String()+g.last.Line(), "!"+demoKey, `"outcome":"unknown"`)
}
