package proxy_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// A failureCase is one way in which a call to an upstream fails, and the expected answers to a read and to a write.
type failureCase struct {
	name        string
	config      string // further lines, such as a limit
	timeout     string
	url         string // instead of the URL of the sandbox
	fault       *sandbox.Fault
	deliver     func(http.ResponseWriter, *httptest.ResponseRecorder) // if set, sends the sandbox's reply
	read, write wantAnswer
	calls       int // that the upstream must get
}

var (
	noReply      = &sandbox.Fault{Delay: time.Hour}
	longReply    = `{"code":"0000","message":"` + strings.Repeat("a", 5000) + `"}`
	shortReplies = "limits: {reply: 4KiB}"
)

func bodyFault(text string) *sandbox.Fault { return &sandbox.Fault{Body: text} }

// changedReply changes the header or the body of the sandbox's reply.
func changedReply(change func(h http.Header, body []byte) []byte) func(http.ResponseWriter, *httptest.ResponseRecorder) {
	return func(w http.ResponseWriter, reply *httptest.ResponseRecorder) {
		changed := change(w.Header(), reply.Body.Bytes())
		w.WriteHeader(reply.Code)
		_, _ = w.Write(changed)
	}
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

func failureCases() []failureCase {
	encoded := func(coding string, change func([]byte) []byte) func(http.ResponseWriter, *httptest.ResponseRecorder) {
		return changedReply(func(h http.Header, body []byte) []byte {
			h.Set("Content-Encoding", coding)
			return change(body)
		})
	}
	cases := []failureCase{
		{name: "success", read: success, write: success, calls: 1},
		{name: "gzip", fault: &sandbox.Fault{Gzip: true}, read: success, write: success, calls: 1},
		{name: "gzip in capitals", deliver: encoded("GZIP", gzipped), read: success, write: success, calls: 1},
		{name: "timeout", timeout: "400ms", fault: noReply, read: lateRead, write: unknownLate, calls: 1},
		{name: "connection refused", url: refusedURL, read: refused, write: refused},
		{name: "too large", config: shortReplies, fault: bodyFault(longReply), read: brokenRead, write: unknown, calls: 1},
		{name: "too large unzipped", config: shortReplies, fault: &sandbox.Fault{Body: longReply, Gzip: true}, read: brokenRead, write: unknown, calls: 1},
	}
	for _, row := range rows(`
connection dropped | {"drop":true}
truncated | {"truncate":true}
truncated gzip | {"truncate":true, "gzip":true}
HTML 404 | {"status":404, "body":"<html>no</html>"}
HTML 502 | {"status":502, "body":"<html>no</html>"}
HTML 200 | {"body":"<html>login</html>"}
not JSON | {"body":"oops"}
JSON twice | {"body":"{\"code\":\"0000\",\"message\":\"a\"}{\"code\":\"0000\"}"}
duplicate code | {"body":"{\"code\":\"0000\",\"c\\u006fde\":\"ERROR\",\"message\":\"a\",\"msg\":\"a\"}"}
an array | {"body":"[{\"code\":\"0000\"}]"}
an empty object | {"body":"{}"}
a number for a code | {"body":"{\"code\":0,\"message\":\"a\",\"msg\":\"a\",\"data\":{}}"}
null for a code | {"body":"{\"code\":null,\"message\":\"a\",\"msg\":\"a\",\"data\":{}}"}
an empty code | {"body":"{\"code\":\"\",\"message\":\"a\",\"msg\":\"a\",\"data\":{}}"}
`) {
		w := failureCase{name: row[0], fault: &sandbox.Fault{}, read: brokenRead, write: unknown, calls: 1}
		if err := json.Unmarshal([]byte(row[1]), w.fault); err != nil {
			panic(row[0])
		}
		cases = append(cases, w)
	}
	for name, deliver := range map[string]func(http.ResponseWriter, *httptest.ResponseRecorder){
		"204":                        func(w http.ResponseWriter, _ *httptest.ResponseRecorder) { w.WriteHeader(204) },
		"not UTF-8":                  changedReply(func(http.Header, []byte) []byte { return []byte("{\"code\":\"0000\",\"message\":\"\xff\"}") }),
		"empty body":                 changedReply(func(http.Header, []byte) []byte { return nil }),
		"not gzip":                   encoded("gzip", func(b []byte) []byte { return b }),
		"gzip cut off":               encoded("gzip", func(b []byte) []byte { z := gzipped(b); return z[:len(z)-9] }),
		"gzip with a wrong checksum": encoded("gzip", func(b []byte) []byte { z := gzipped(b); z[len(z)-6] ^= 1; return z }),
		"an unknown content coding":  encoded("br", func(b []byte) []byte { return b }),
	} {
		cases = append(cases, failureCase{name: name, deliver: deliver, read: brokenRead, write: unknown, calls: 1})
	}
	return cases
}

// Every failure occurs in every bill operation, between all forms, with both values of failures.status. A write with
// an unknown outcome is never answered as refused and never with HTTP 200. No call is sent twice.
func TestR24_R25_R26_FailuresOfEveryOperation(t *testing.T) {
	t.Parallel()
	for _, w := range failureCases() {
		for _, client := range forms {
			for _, upstream := range forms {
				for _, status := range []string{"own", "always-200"} {
					if status == "always-200" && (client == upstream || !slices.Contains([]string{"success", "timeout", "connection refused", "connection dropped", "HTML 502"}, w.name)) {
						continue // failures.status has the same effect in the other cases
					}
					parallel(t, strings.Join([]string{w.name, client, upstream, status}, "/"), func(t *testing.T) {
						w.run(t, client, upstream, status)
					})
				}
			}
		}
	}
}

func (w failureCase) run(t *testing.T, client, upstream, status string) {
	service := newService()
	back := newBackendFunc(t, func(rw http.ResponseWriter, r *http.Request) {
		if w.deliver == nil {
			service.ServeHTTP(rw, r)
			return
		}
		reply := httptest.NewRecorder()
		service.ServeHTTP(reply, r)
		w.deliver(rw, reply)
	})
	text := oneUpstream(upstream, cmp.Or(w.url, back.url), w.config, "failures: {status: "+status+"}")
	b := newGateway(t, strings.ReplaceAll(text, "30s", cmp.Or(w.timeout, "30s")))
	defer func() { checkNoRepetition(t, b.logs.String(), back.received()) }()
	for i, op := range operations {
		t.Run(op, func(t *testing.T) {
			billID := "1234567890ABCDEFGHI" + strconv.Itoa(i)
			prepareBill(t, service, stateBefore[op], billID)
			seen, passed := service.Calls()["bill."+op], back.count()
			if w.fault != nil {
				service.Fault(*w.fault)
			}
			got := b.send(newCall(client, op).with("billId", billID))
			want := map[bool]wantAnswer{false: w.read, true: w.write}[isWrite(op)]
			if status == "always-200" && want.code != "null" && (isWrite(op) || want.status < 500) {
				want.status = http.StatusOK // a read without an answer is never answered with 200
			}
			got.check(t, client, want)
			if w.calls > 0 && isWrite(op) && got.header.Get("Retry-After") != "" {
				t.Errorf("Retry-After: %s", got.header.Get("Retry-After"))
			}
			if want.code == "null" && !strings.Contains(got.body, "unknown: read before sending again") {
				t.Errorf("the text does not say that the outcome is unknown: %s", got.body)
			}
			seen, passed = service.Calls()["bill."+op]-seen, back.count()-passed
			if seen != w.calls || passed != w.calls {
				t.Errorf("the upstream got %d calls in %d requests, want %d", seen, passed, w.calls)
			}
		})
	}
}

// checkNoRepetition reads the access log. Some HTTP clients repeat a POST by themselves after certain statuses: no answer of
// the gateway itself, which has a reason in the log, has one of them if a backend got the write.
func checkNoRepetition(t *testing.T, log string, calls []received) {
	t.Helper()
	writes := map[string]bool{}
	for _, got := range calls {
		if !strings.HasSuffix(got.target, "/read") {
			writes[got.header.Get("X-Request-Id")] = true
		}
	}
	for line := range strings.Lines(log) {
		var call struct {
			Msg, ID, Reason string
			Status          int
		}
		_ = json.Unmarshal([]byte(line), &call)
		if call.Msg == "request" && writes[call.ID] && call.Reason != "" && slices.Contains([]int{408, 421, 425, 429, 503}, call.Status) {
			t.Errorf("some clients repeat this write: %s", line)
		}
	}
}

// stateBefore is the state in which a bill must be for an operation to succeed; "" means no bill.
var stateBefore = map[string]string{"create": "", "resend": "W", "read": "F", "destroy": "W", "cancel": "F"}

// prepareBill creates a bill at the service and brings it into a state.
func prepareBill(t testing.TB, s *sandbox.Service, state, billID string) {
	t.Helper()
	direct := func(op string) {
		q := v2(op).with("billId", billID)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, q.request())
		if code := codeOf(t, "v2", w.Body.String()); code != "0000" {
			t.Fatalf("%s: %s", op, w.Body)
		}
	}
	if state == "" {
		return
	}
	direct("create")
	switch state {
	case "F", "C":
		must(t, s.Pay(demoKey, billID))
		if state == "C" {
			direct("cancel")
		}
	case "D":
		direct("destroy")
	}
}

// A legacy read that succeeds has no code. It is a success only with HTTP 200, the requested bill and a known state.
func TestR24_BareLegacyRead(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		status int
		body   string
		want   wantAnswer
	}{
		{"the requested bill", 200, `{"bill_id":"` + demoBill + `","appr_state":"F"}`, success},
		{"another bill", 200, `{"bill_id":"0000000000ABCDEFGHIJ","appr_state":"F"}`, brokenRead},
		{"no bill", 200, `{"appr_state":"F"}`, brokenRead},
		{"an unknown state", 200, `{"bill_id":"` + demoBill + `","appr_state":"X"}`, brokenRead},
		{"another status", 201, `{"bill_id":"` + demoBill + `","appr_state":"F"}`, brokenRead},
		{"an error status", 500, `{"bill_id":"` + demoBill + `","appr_state":"F"}`, brokenRead},
		{"a code alone", 200, `{"code":"0000","msg":"성공하였습니다."}`, brokenRead},
		{"an empty bill", 200, `{"code":"0000","msg":"ok","bill_id":"","appr_state":"W"}`, brokenRead},
		{"with a code", 200, `{"code":"BILL_003","msg":"없음","bill_id":"` + demoBill + `","appr_state":"F"}`, wantAnswer{200, "BILL_003"}},
		{"on a write", 200, `{"bill_id":"` + demoBill + `","appr_state":"D"}`, unknown},
	} {
		for _, client := range forms {
			parallel(t, row.name+"/"+client, func(t *testing.T) {
				op := "read"
				if row.name == "on a write" {
					op = "destroy"
				}
				b := newGatewayTo(t, "legacy", newBackend(t, replyWith(row.status, row.body)))
				got := b.send(newCall(client, op))
				if client == "legacy" && strings.Contains(row.body, `"code"`) {
					if got.status != 200 || got.body != row.body {
						t.Errorf("the body was changed: %s", got.body)
					}
					return
				}
				got.check(t, client, row.want)
			})
		}
	}
}

// A client that reads only bodies and one that reads only statuses both see that the outcome is unknown.
func TestR26_Always200DoesNotHideAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, op := range writes {
			back := newBackend(t, aborts)
			b := newGatewayTo(t, "v2", back, "failures: {status: always-200}")
			got := b.send(newCall(client, op))
			equal(t, strings.Contains(got.body, "Destroy it, read it destroyed, use a new id."), (op == "create"), client, op, got.body)
			if got.status/100 == 2 || fields(t, got.body)["code"] != nil || !slices.Contains([]int{502, 504}, got.status) {
				t.Errorf("%s %s: HTTP %d %s", client, op, got.status, got.body)
			}
		}
	}
}

// Whatever code an upstream returns, the caller gets the same code in its form.
func TestCodesOfTheUpstreamPassThrough(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, upstream := range forms {
			service := newService()
			b := newGatewayTo(t, upstream, newBackend(t, service))
			for _, code := range append(sandbox.Catalogue()[1:], "9800", "NEW_CODE_1") {
				for _, op := range operations {
					service.Fault(sandbox.Fault{Operation: "bill." + op, Code: code})
					b.expect(newCall(client, op), wantAnswer{200, code})
				}
			}
		}
	}
}

// The text for the partner does not have the cause of a failure: the access log has it, for the operator.
func TestAccessLogHasTheCause(t *testing.T) {
	t.Parallel()
	for want, handler := range map[string]http.Handler{
		"status: HTTP 302 is not passed on":      replyWith(302, "{}"),
		"too_large: over 1024 bytes":             replyWith(200, `{"code":"`+strings.Repeat("0", 2000)+`"}`),
		"not_json: unsupported Content-Encoding": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "br") }),
		"not_json: not valid gzip":               http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }),
	} {
		b := newGatewayTo(t, "v2", newBackend(t, handler), "limits: {reply: 1KiB}")
		got := b.send(v2("create"))
		if line := b.logs.Next(t); !strings.Contains(line, want) || strings.Contains(got.body, want) {
			t.Errorf("want %s in %s, and not in %s", want, line, got.body)
		}
	}
}
