package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// After SIGTERM the gateway is not ready and serves for drain.delay, so that load balancers see it before it stops.
func TestR38_ServesWhileNotReadyForDrainDelay(t *testing.T) {
	t.Parallel()
	upstream := oneUpstream("v2", newBackend(t, newService()).url)
	for delay := time.Second; ; delay *= 4 { // a busy machine may not come to the call before the drain
		p := newProcess(t, anyPort+upstream+"drain: {delay: "+delay.String()+"}\n")
		p.stop()
		checkText(t, p.logs.Next(t), `"msg":"not ready, serving until the drain begins","delay":"`)
		p.ask(503, "GET /-/ready")
		got, err := p.client.Post(p.url+"/bill/read", "application/json", strings.NewReader(v2("read").body()))
		if err != nil && delay < time.Minute {
			continue
		}
		if err != nil || got.StatusCode != 200 || !got.Close {
			t.Fatalf("%v, %+v", err, got)
		}
		_ = got.Body.Close()
		checkText(t, p.logs.Next(t), `"operation":"bill.read"`)
		checkText(t, p.logs.Next(t), `"msg":"draining","at_most":`)
		return
	}
}

// By default the delay ends when no connection is open: nobody has to notice the stop.
func TestDefaultDrainDelayEndsWithTheLastConnection(t *testing.T) {
	t.Parallel()
	text := anyPort + oneUpstream("v2", refusedURL)
	equal(t, proxytest.Config(t, text).Drain.Delay, config.DurationOrZero(2*time.Second))
	p := newProcess(t, text+proxytest.Tuned(func(c *config.Config) { c.Drain.Delay = config.DurationOrZero(time.Hour) })) // so that it does not end by itself
	open := p.open("")
	in := bufio.NewReader(open)
	if got, err := rawAnswer(open, in, nextCall(v2("read"))); err != nil || got.Close {
		t.Errorf("%+v %v", got, err)
	}
	p.stop()
	p.waitForLog(`"not ready, serving until the drain begins","delay":"1h"`)
	if got, err := rawAnswer(open, in, nextCall(v2("read"))); err != nil || !got.Close {
		t.Errorf("%+v %v", got, err)
	}
	_ = open.Close() // the gateway has closed it, too
	must(t, receive(t, p.ended, "end of the server"))
}

// During an outage of the store the gateway stays ready with ready.store: reported, and is not ready with required.
// The cause is shown only with the token.
func TestReadyStoreReportedKeepsTheGatewayReady(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]answer{
		"required": {status: 503, body: "not ready: the store cannot be written to\nserving: ok\nlog: ok\nstore: the store cannot be written to\n"},
		"reported": {status: 200, body: "ready\nserving: ok\nlog: ok\nstore: the store cannot be written to (reported only)\n"},
	} {
		parallel(t, mode, func(t *testing.T) {
			m := newRolloutGateway(t, "old")
			p := newProcess(t, strings.Replace(*m.text.Load(), "admin: {", `admin: {token: "letmein", `, 1)+"ready: {store: "+mode+"}\n")
			withToken := func(path string, status int, says ...string) {
				t.Helper()
				p.admin("GET", path, "Authorization", "Bearer letmein").is(t, status, says...)
			}
			const ready = "ready\nserving: ok\nlog: ok\nstore: ok\n"
			p.waitForAdmin("/-/ready?verbose", ready) // on a busy machine the first pings can take longer than readiness waits
			withToken("/metrics", 200, "\nbillbridge_store_up 1\n", "\nbillbridge_store_free_bytes ")
			m.exec("ALTER TABLE billbridge_bills RENAME TO gone")
			p.waitForAdmin("/-/ready?verbose", "cannot be written to")
			equal(t, p.ask(want.status, "GET /-/ready?verbose"), want.body)
			withToken("/-/ready?verbose", want.status, "no such table: billbridge_bills")
			withToken("/metrics", 200, "\nbillbridge_store_up 0\n")
			equal(t, strings.Count(p.logs.String(), "the store cannot be written to"), 1)
			p.expect(legacy("read"), refused) // the owner of the bill cannot be looked up
			m.exec("ALTER TABLE gone RENAME TO billbridge_bills")
			p.waitForAdmin("/-/ready?verbose", ready)
		})
	}
}

// A call in progress keeps the timeouts of the config with which it started. A reload to shorter timeouts does not
// shorten the drain.
func TestR38_DrainOutlivesAReload(t *testing.T) {
	t.Parallel()
	p := newProcess(t, strings.Replace(anyPort+oneUpstream("v2", refusedURL), "30s", "60s", 1))
	play(p, "reload 200 60s => 1s")
	p.stopAndWait()
	checkText(t, p.logs.String(), `"msg":"draining","at_most":"1m`)
}

// A callerWriter is the ResponseWriter of a caller that disconnects while its answer is written or flushed.
type callerWriter struct {
	http.ResponseWriter
	write, flush func() error
}

func nothing() error { return nil }

func (l callerWriter) Write(p []byte) (int, error) {
	if err := l.write(); err != nil {
		return 0, err
	}
	return l.ResponseWriter.Write(p)
}

func (l callerWriter) FlushError() error { return l.flush() }

// A caller may disconnect as soon as it has its answer, while the ledger still records the call. The log must not
// report it as gone.
func TestDisconnectAfterTheAnswerIsNotLogged(t *testing.T) {
	t.Parallel()
	// What happens when the call is at the upstream, and when its answer is written and flushed; and whether the caller is logged as gone.
	for _, row := range tableOf(t) {
		parallel(t, row[0], func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			do := func(what string) func() error {
				return func() error {
					if what == "leaves" {
						leave()
					}
					return map[string]error{"broken": errors.New("broken pipe"), "unable": http.ErrNotSupported}[what]
				}
			}
			service := newService()
			b := newGateway(t, sharedBills(newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				_ = do(row[1])()
				service.ServeHTTP(w, r)
			}).url))
			q := v2("create") // a write, which continues without its caller
			b.ServeHTTP(callerWriter{httptest.NewRecorder(), do(row[2]), do(row[3])}, q.request().WithContext(ctx))
			line := b.logs.Next(t)
			checkText(t, line, `"code":"0000"`)
			equal(t, strings.Contains(line, `"caller_gone":true`), row[4] == "gone", line)
		})
	}
}
