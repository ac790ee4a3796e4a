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

	"github.com/google/go-cmp/cmp"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func (g *finishedGateway) call(id, path, body string) {
	g.log.Reset()
	g.last, g.count = proxy.Finished{}, 0
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", id)
	g.ServeHTTP(httptest.NewRecorder(), r)
}

// Each exchange is reported once when it has ended, however it ended, with its messages and with the line of the access log.
func TestFinishedDescribesEveryExchange(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "S", demoBill)
	back := newBackend(t, service)
	g := newFinishedGateway(t, oneUpstream("v2", back.url, "limits: {body: 64KiB}"))
	dropped := sandbox.Fault{Drop: true}
	read, resend := newCall("legacy", "read"), newCall("legacy", "resend")
	for _, row := range []struct {
		name, path, body string
		fault            *sandbox.Fault
		want             proxy.Finished
		reply            string // a part of it; "" if there is none
	}{
		{"read", read.path(), read.body(), nil, proxy.Finished{Operation: "bill.read", Upstream: "up", Form: "v2", Status: 200, Code: "0000", Called: true, Succeeded: true, Bill: demoBill, ReplyStatus: 200}, `"apprState"`},
		{"no-such-bill", read.path(), read.with("billId", "NONE").body(), nil, proxy.Finished{Operation: "bill.read", Upstream: "up", Form: "v2", Status: 200, Code: "BILL_003", Called: true, Bill: "NONE", ReplyStatus: 200}, "BILL_003"},
		{"refused", "/if/bill/send", newCall("legacy", "create").with("price", "1.5").body(), nil, proxy.Finished{Operation: "bill.create", Upstream: "up", Form: "v2", Status: 400, Code: "VALIDATION_001", Bill: demoBill, Reason: "refused", Field: "bill.price"}, ""},
		{"not-json", read.path(), "{", nil, proxy.Finished{Operation: "bill.read", Upstream: "up", Form: "v2", Status: 400, Code: "VALIDATION_001", Reason: "refused"}, ""},
		{"no-path", "/if/none", "{}", nil, proxy.Finished{Operation: "none", Upstream: "none", Status: 404, Code: "ERROR", Reason: "no such path"}, ""},
		{"unknown", resend.path(), resend.body(), &dropped, proxy.Finished{Operation: "bill.resend", Upstream: "up", Form: "v2", Status: 502, Code: "none", Called: true, Unknown: true, Bill: demoBill, Reason: "reset", Level: slog.LevelWarn}, ""},
		{"unusable", read.path(), read.body(), &sandbox.Fault{Body: "<html>"}, proxy.Finished{Operation: "bill.read", Upstream: "up", Form: "v2", Status: 502, Code: "ERROR", Called: true, Bill: demoBill, Reason: "not_json", Level: slog.LevelWarn, ReplyStatus: 200}, "<html>"},
		{"large", read.path(), read.with("billId", strings.Repeat("9", proxy.MaxKept)).body(), nil, proxy.Finished{Operation: "bill.read", Upstream: "up", Form: "v2", Status: 200, Code: "BILL_003", Called: true, Bill: strings.Repeat("9", 100), ReplyStatus: 200}, "BILL_003"},
	} {
		if row.fault != nil {
			service.Fault(*row.fault)
		}
		g.call(row.name, row.path, row.body)
		got := g.last
		if g.count != 1 || got.At.IsZero() || got.Took <= 0 || got.Called != (got.UpstreamTook > 0) || got.Line() != g.log.String() || !got.Logged {
			t.Errorf("%s: %d times, %+v, line %q, log %q", row.name, g.count, got, got.Line(), &g.log)
		}
		if row.name != "no-path" && (got.Translation == nil || got.BodyTook <= 0 || got.BodyTook > got.Took || got.RequestSize != len(row.body)) {
			t.Errorf("%s: %+v", row.name, got)
		}
		large := got.RequestSize > proxy.MaxKept
		if row.name != "no-path" && (!large && g.request != row.body || large && got.Request != nil) || row.reply == "" != (got.Reply == nil) || !strings.Contains(g.reply, row.reply) || got.ReplySize != len(g.reply) {
			t.Errorf("%s: request %q, reply %q", row.name, g.request, g.reply)
		}
		partner := map[bool]string{true: "", false: "5f7b2ed74a97"}[row.name == "not-json" || row.name == "no-path"]
		if string(got.Partner) != partner || got.ID != row.name || got.Client != "legacy" {
			t.Errorf("%s: partner %q, id %q, client %q", row.name, got.Partner, got.ID, got.Client)
		}
		if !strings.HasPrefix(got.Reason, row.want.Reason) || row.want.Reason == "" && got.Reason != "" {
			t.Errorf("%s: reason %q, want %q", row.name, got.Reason, row.want.Reason)
		}
		got.At, got.Took, got.BodyTook, got.UpstreamTook, got.Translation = row.want.At, 0, 0, 0, nil
		got.Request, got.Reply, got.RequestSize, got.ReplySize, got.Partner, got.ID, got.Client, got.Logged = nil, nil, 0, 0, "", "", "", false
		got.Reason = row.want.Reason
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", row.name, diff)
		}
	}
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
		q := newCall("v2", "read")
		g.call("read", q.path(), q.body())
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
	q := newCall("legacy", "read")
	g.call("off", q.path(), q.body())
	if g.count != 0 || !strings.Contains(g.log.String(), `"id":"off"`) {
		t.Errorf("%d calls were reported; the log is %q", g.count, &g.log)
	}
	g.Use(parse(t, oneUpstream("v2", back.url)))
	if g.call("on", q.path(), q.body()); g.count != 1 {
		t.Errorf("%d calls were reported after a reload", g.count)
	}
}

// The messages of calls that run at the same time do not mix, although the gateway uses its buffers again.
func TestFinishedKeepsTheMessagesOfEachCall(t *testing.T) {
	t.Parallel()
	back := newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bill := gjson.GetBytes(body, "bill.billId").String()
		_, _ = io.WriteString(w, `{"code":"BILL_003","message":"`+bill+strings.Repeat("x", len(body)%97)+`","data":null}`)
	}))
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 100 {
				bill := fmt.Sprint("B", caller, "-", i)
				r := httptest.NewRequest(http.MethodPost, "/if/bill/read", strings.NewReader(newCall("legacy", "read").with("billId", bill).body()))
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
	resend := newCall("legacy", "resend")
	g.call("x", resend.path(), resend.with("billId", demoKey).body())
	if !g.last.Unknown || g.last.Bill != "" {
		t.Errorf("%+v", g.last)
	}
	if line := g.log.String() + g.last.Line(); strings.Contains(line, demoKey) || !strings.Contains(line, `"outcome":"unknown"`) {
		t.Error(line)
	}
}
