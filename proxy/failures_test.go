package proxy_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// A failureCase is one way in which a call to an upstream fails, and the expected answers to a read and to a write.
type failureCase struct {
	name        string
	config      string                                                // a further line, such as a limit
	fault       string                                                // as addFault has it
	deliver     func(http.ResponseWriter, *httptest.ResponseRecorder) // if set, sends the sandbox's reply
	read, write wantAnswer
}

// changedReply changes the body of the sandbox's reply, and sets its coding.
func changedReply(coding string, change func(body []byte) []byte) func(http.ResponseWriter, *httptest.ResponseRecorder) {
	return func(w http.ResponseWriter, reply *httptest.ResponseRecorder) {
		if coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		w.WriteHeader(reply.Code)
		_, _ = w.Write(change(reply.Body.Bytes()))
	}
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

//go:embed testdata/failures.txt
var failuresText string

func failureCases() (all []failureCase) {
	deliver := map[string]func(http.ResponseWriter, *httptest.ResponseRecorder){
		"204":        func(w http.ResponseWriter, _ *httptest.ResponseRecorder) { w.WriteHeader(204) },
		"not UTF-8":  changedReply("", func([]byte) []byte { return []byte("{\"code\":\"0000\",\"message\":\"\xff\"}") }),
		"empty body": changedReply("", func([]byte) []byte { return nil }),
		"not gzip":   changedReply("gzip", func(b []byte) []byte { return b }),
		"GZIP":       changedReply("GZIP", gzipped),
		"cut gzip":   changedReply("gzip", func(b []byte) []byte { z := gzipped(b); return z[:len(z)-9] }),
		"wrong gzip": changedReply("gzip", func(b []byte) []byte { z := gzipped(b); z[len(z)-6] ^= 1; return z }),
		"coding br":  changedReply("br", func(b []byte) []byte { return b }),
		"a part":     changedReply("", func([]byte) []byte { return []byte(`{"code":"0000",`) }),
		"a part, gz": changedReply("gzip", func(b []byte) []byte { return gzipped(b)[:12] }),
	}
	// A name, the fault or how the reply is delivered, what a read and a write are answered with, and a further line of the config.
	for _, row := range rows(strings.ReplaceAll(failuresText, "LONG", `{\"code\":\"0000\",\"message\":\"`+strings.Repeat("a", 5000)+`\"}`)) {
		row = append(row, "", "", "")
		w := failureCase{name: row[0], fault: row[1], deliver: deliver[row[1]], config: row[4]}
		w.read, w.write = wantOf(cmp.Or(row[2], "502:ERROR")), wantOf(cmp.Or(row[3], "unknown"))
		if w.deliver != nil {
			w.fault = ""
		}
		all = append(all, w)
	}
	return all
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
		if strings.HasPrefix(w.name, "timeout") { // a reply that begins in time, and does not end
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}
	})
	url, calls := back.url, 1 // that the upstream must get
	if w.name == "connection refused" {
		url, calls = refusedURL, 0
	}
	text := oneUpstream(upstream, url, w.config, "failures: {status: "+status+"}")
	if strings.HasPrefix(w.name, "timeout") {
		text = strings.ReplaceAll(text, "30s", "400ms")
	}
	b := newGateway(t, text)
	defer func() { checkNoRepetition(t, b.logs.String(), back.received()) }()
	for i, op := range operations {
		t.Run(op, func(t *testing.T) {
			billID := "1234567890ABCDEFGHI" + strconv.Itoa(i)
			prepareBill(t, service, stateBefore[op], billID)
			seen, passed := service.Calls()["bill."+op], back.count()
			addFault(t, service, w.fault)
			got := b.send(newCall(client, op).with("billId", billID))
			want := map[bool]wantAnswer{false: w.read, true: w.write}[isWrite(op)]
			if status == "always-200" && want.code != noCode && (isWrite(op) || want.status < 500) {
				want.status = http.StatusOK // a read without an answer is never answered with 200
			}
			got.check(t, client, want)
			if calls > 0 && isWrite(op) {
				equal(t, got.header.Get("Retry-After"), "")
			}
			// calls, and requests
			equal(t, [2]int{service.Calls()["bill."+op] - seen, back.count() - passed}, [2]int{calls, calls})
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

// A legacy read that succeeds has no code. It is a success only with HTTP 2xx, the requested bill and a known state.
func TestR24_BareLegacyRead(t *testing.T) {
	t.Parallel()
	for _, row := range rows(strings.ReplaceAll(string(proxytest.ReadFile(t, "testdata/barereads.txt")), "BILL\"", demoBill+`"`)) {
		for _, client := range forms {
			parallel(t, row[0]+"/"+client, func(t *testing.T) {
				status, err := strconv.Atoi(row[2])
				must(t, err)
				b := newGatewayTo(t, "legacy", newBackend(t, replyWith(status, row[3])))
				got := b.send(newCall(client, row[1]))
				if client == "legacy" && strings.Contains(row[3], `"code"`) {
					equal(t, got.status, 200)
					equal(t, got.body, row[3])
					return
				}
				got.check(t, client, wantOf(row[4]))
			})
		}
	}
}

// What the backend of a call does not have is said in words that a customer of the partner can read, the field last.
func TestCustomerCanReadWhatTheBackendDoesNotHave(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	for _, row := range [][4]string{
		{
			"sendType", "URL", "청구 서비스에 URL 기능이 없어 처리하지 않았습니다. TALK만 쓸 수 있습니다. (bill.sendType)",
			"Nothing was sent: the billing service does not have URL, only TALK. (bill.sendType)",
		},
		{
			"tax", "1000", "청구 서비스에 없는 기능이어서 처리하지 않았습니다. (bill.tax)",
			"Nothing was sent: the billing service does not have this. (bill.tax)",
		},
	} {
		create := v2("create").with(row[0], row[1])
		for i, language := range []string{"ko", "en"} {
			got := newGatewayTo(t, "legacy", back, "failures: {language: "+language+"}").send(create)
			equal[any](t, fields(t, got.body)["message"], row[2+i], got.status)
		}
	}
	back.expectCalls(t, 0)
}
