package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// replayHeaders are headers with which Go's transport would send a POST a second time.
var replayHeaders = map[string][]string{
	"plain": nil, "Idempotency-Key": {"Idempotency-Key", "1"}, "X-Idempotency-Key": {"X-Idempotency-Key", "1"},
}

// An upstream reads a request and closes the connection without an answer, on a new connection and on a reused one. It
// gets each write once, and the outcome of a write is unknown. It gets a read once more if the connection was used before,
// and also each read that was refused on such a connection.
func TestR23_NoWriteIsSentTwice(t *testing.T) {
	t.Parallel()
	for name, headers := range replayHeaders {
		for _, op := range operations {
			for reused := range 3 {
				parallel(t, strings.Join([]string{name, op, strconv.Itoa(reused)}, "/"), func(t *testing.T) {
					var calls atomic.Int64
					back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
						if calls.Add(1) > int64(reused) {
							panic(http.ErrAbortHandler)
						}
						denies.ServeHTTP(w, r)
					})
					b := newGatewayTo(t, "v2", back)
					if op == "read" {
						for range reused {
							b.send(legacy(op))
						}
						b.send(legacy(op), headers...).check(t, "legacy", brokenRead)
						back.expectCalls(t, []int{1, 3, 5}[reused])
						return
					}
					for range reused {
						b.expect(legacy(op), noSuchBill)
					}
					b.send(legacy(op), headers...).check(t, "legacy", unknown)
					back.expectCalls(t, reused+1)
				})
			}
		}
	}
}

// When its caller disconnects, a read is cancelled at the upstream. A write is completed, and the log has its outcome.
func TestR27_DisconnectCancelsReadsNotWrites(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		parallel(t, op, func(t *testing.T) {
			arrived, cancelled, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
			service := newService()
			prepareBill(t, service, stateBefore[op], demoBill)
			back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				if isWrite(op) {
					<-goOn
					select { // a read is cancelled within 50 ms
					case <-r.Context().Done():
						t.Error("the write was cancelled")
					case <-time.After(200 * time.Millisecond):
					}
					service.ServeHTTP(w, r)
					return
				}
				<-r.Context().Done()
				close(cancelled)
			})
			b := newGatewayTo(t, "v2", back)
			leave, ended := b.sendAndLeave(legacy(op))
			receive(t, arrived, "call at the upstream")
			leave()
			equal(t, receive(t, ended, "end of the call") != nil, true)
			if isWrite(op) {
				close(goOn)
			} else {
				receive(t, cancelled, "end of the read at the upstream")
			}
			says := []string{`"status":499,"code":"ERROR"`, `"reason":"the caller went away"`, `!"outcome"`}
			if isWrite(op) {
				says = []string{`"status":200,"code":"0000"`, `!"reason"`, `!"outcome"`}
			}
			checkText(t, b.logs.Next(t), says...)
			back.expectCalls(t, 1)
			if !isWrite(op) { // not counted as an error of the upstream
				for line := range strings.Lines(b.scrape("billbridge_upstream_errors_total")) {
					if !strings.HasSuffix(line, " 0\n") {
						t.Error(line)
					}
				}
			}
		})
	}
}

// A caller that closes only its sending direction looks like one that has disconnected. It still gets an answer in its
// form: the read was cancelled, or the write was not sent.
func TestR27_HalfClosedCallerGetsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"read", "create"} {
		hang := make(chan struct{})
		back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
			if op == "read" {
				select {
				case <-r.Context().Done():
				case <-hang:
				}
			}
			newService().ServeHTTP(w, r)
		})
		got := newGatewayTo(t, "v2", back).raw(true, strings.Replace(nextCall(legacy(op)), "\r\n", "\r\nConnection: close\r\n", 1))
		close(hang)
		if len(got) != 1 {
			t.Fatalf("%d answers", len(got))
		}
		want, calls := success, 1
		switch { // the disconnect was noticed before the call was sent, or after it
		case op == "read":
			want = brokenRead
		case strings.Contains(got[0].body, "Nothing was sent"):
			want, calls = refused, 0
		}
		if got[0].check(t, "legacy", want); op != "read" {
			back.expectCalls(t, calls)
		}
	}
}

// A success that names another bill, or the key of another partner, is no answer, and the outcome of a write is
// unknown. In a probe it steers no create. Refusals name neither and are passed on.
func TestR45_SuccessOfAnotherBillOrPartnerIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, other := range [][2]string{{"other-key", "99999999999999999999"}, {"other-key", demoBill}, {demoKey, "99999999999999999999"}} {
		words := strings.NewReplacer("KEY", other[0], "BILL", other[1])
		replies := map[string]http.Handler{
			"v2":     replyWith(200, words.Replace(`{"code":"0000","message":"ok","data":{"apiKey":"KEY","billId":"BILL","hash":"other-hash","apprState":"F"}}`)),
			"legacy": replyWith(200, words.Replace(`{"code":"0000","msg":"ok","apikey":"KEY","bill_id":"BILL","hash":"other-hash","appr_state":"F"}`)),
		}
		for upstream, reply := range replies {
			b := newGatewayTo(t, upstream, newBackend(t, reply), "failures: {status: always-200}")
			play(b, `
unknown v2,legacy create,destroy,cancel | !other- | !9999
502:ERROR v2,legacy read | !other- | !9999`)
			if upstream == "v2" { // the reply of legacy has only code and msg
				play(b, "unknown v2,legacy resend | !other- | !9999")
			}
		}
		m := newRolloutWith(t, "new", at("old", replies["legacy"]), "")
		m.expect(v2("create"), refused)
		equal(t, m.oldCalls.writes()+m.newCalls.writes(), 0)
	}
}
