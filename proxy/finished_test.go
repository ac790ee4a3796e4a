package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/accesslog"
	"billbridge/proxy/sandbox"

	"github.com/tidwall/gjson"
)

// A finishedGateway calls its handler directly, and keeps what Options.Finished got last, with its line of the log.
type finishedGateway struct {
	*proxy.Gateway
	log            bytes.Buffer
	last           proxy.Finished
	request, reply string
	count          int
}

func newFinishedGateway(t *testing.T, text string) *finishedGateway {
	t.Helper()
	g := &finishedGateway{}
	handler := accesslog.New(&g.log, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	t.Cleanup(handler.Close)
	var err error
	g.Gateway, err = proxy.New(parse(t, text), proxy.Options{Logger: slog.New(handler), Finished: func(f *proxy.Finished) {
		g.last, g.request, g.reply = *f, string(f.Request), string(f.Reply) // they are valid during the call only
		g.last.Bill = strings.Clone(f.Bill)
		g.count++
	}})
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

func (g *finishedGateway) call(id, method, path, body string) {
	g.log.Reset()
	g.last, g.count = proxy.Finished{}, 0
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", id)
	g.ServeHTTP(httptest.NewRecorder(), r)
}

// A success that log.sample leaves out of the log is reported too, and says so.
func TestFinishedSaysWhetherTheLineWasWritten(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "S", demoBill)
	back := newBackend(t, service)
	for _, row := range []struct {
		ok     string
		logged bool
	}{{"0", false}, {"1", true}} {
		g := newFinishedGateway(t, oneUpstream("v2", back.url, "log: {sample: {ok: "+row.ok+"}}"))
		q := v2("read")
		g.call("read", http.MethodPost, q.path(), q.body())
		if g.count != 1 || g.last.Logged != row.logged || (g.log.Len() > 0) != row.logged || !g.last.Succeeded {
			t.Errorf("ok: %s: %+v, log %q", row.ok, g.last, &g.log)
		}
	}
}

// Without the console nothing is kept.
func TestFinishedIsForTheConsole(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "S", demoBill)
	back := newBackend(t, service)
	g := newFinishedGateway(t, oneUpstream("v2", back.url, "admin: {console: false}"))
	q := legacy("read")
	g.call("off", http.MethodPost, q.path(), q.body())
	if g.count != 0 || !strings.Contains(g.log.String(), `"id":"off"`) {
		t.Errorf("%d calls were reported; the log is %q", g.count, &g.log)
	}
	g.Use(parse(t, oneUpstream("v2", back.url)))
	if g.call("on", http.MethodPost, q.path(), q.body()); g.count != 1 {
		t.Errorf("%d calls were reported after a reload", g.count)
	}
}

// The messages of calls that run at the same time do not mix, although the gateway uses its buffers again.
func TestFinishedKeepsTheMessagesOfEachCall(t *testing.T) {
	t.Parallel()
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bill := gjson.GetBytes(body, "bill.billId").String()
		_, _ = io.WriteString(w, `{"code":"BILL_003","message":"`+bill+strings.Repeat("x", len(body)%97)+`","data":null}`)
	})
	mixed := make(chan string, 1)
	g, err := proxy.New(parse(t, oneUpstream("v2", back.url)), proxy.Options{Finished: func(f *proxy.Finished) {
		runtime.Gosched() // other calls may use a buffer that was given back too early
		if bill := gjson.GetBytes(f.Request, "bill_id").String(); bill != f.ID || !strings.HasPrefix(gjson.GetBytes(f.Reply, "message").String(), bill+"x") || f.Bill != bill {
			select {
			case mixed <- fmt.Sprintf("%s: bill %s, request %s, reply %s", f.ID, f.Bill, f.Request, f.Reply):
			default:
			}
		}
	}})
	must(t, err)
	t.Cleanup(g.Close)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 100 {
				bill := fmt.Sprint("B", caller, "-", i)
				r := httptest.NewRequest(http.MethodPost, "/if/bill/read", strings.NewReader(legacy("read").with("billId", bill).body()))
				r.Header.Set("X-Request-Id", bill)
				g.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	callers.Wait()
	select {
	case text := <-mixed:
		t.Error(text)
	default:
	}
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
	checkText(t, g.log.String()+g.last.Line(), "!"+demoKey, `"outcome":"unknown"`)
}
