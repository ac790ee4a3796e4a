package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"billbridge/proxy/proxytest"
)

// hostileLine ends a line of the log, begins another, and has characters that a terminal obeys: controls of ASCII and ISO 8859-1, and marks
// that change the direction of text or are invisible.
const hostileLine = "\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\nlevel=ERROR msg=forged\r\x1b[31m\x7f\u0085\u009b31m\u202e\u2066\u2028\u200b\ufeff\U000e0041=\"\\"

// hostileUpstream breaks off every create, and answers all other calls with hostile values.
func hostileUpstream(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(hostileLine)
	must(t, err)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/bill":
			panic(http.ErrAbortHandler)
		case "/bill/cancel":
			_, _ = io.WriteString(w, hostileLine)
		case "/bill/destroy":
			w.Header().Set("Location", "http://127.0.0.1/"+url.PathEscape(hostileLine))
			w.WriteHeader(http.StatusFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"code":%s,"message":%[1]s,%[1]s:%[1]s,"data":{"apprState":%[1]s,"billId":%[1]s}}`, text)
		}
	}))
	t.Cleanup(upstream.Close)
	return upstream.URL
}

// provoke sends hostile values to a gateway, in every place that a caller, an upstream or an operator can fill.
func provoke(t *testing.T, partners, admin string) {
	t.Helper()
	text, err := json.Marshal(hostileLine)
	must(t, err)
	send := func(method, target, body string, header map[string]string) {
		r, err := http.NewRequest(method, target, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		for name, value := range header {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	bill := "ID\u202e\u009b\u2066" // it fits into the limit of a bill id
	header := map[string]string{"X-Request-Id": "a\u202e\u009b\u2028", "User-Agent": "\u202e", "X-Forwarded-For": "\u202e"}
	for _, path := range []string{"/bill", "/bill/resend", "/bill/read", "/bill/destroy", "/bill/cancel", "/auth/mapping", "/if/bill/send", "/if/bill/resend", "/if/bill/read", "/if/bill/destroy", "/if/bill/cancel"} {
		for _, id := range []string{bill, hostileLine} {
			quoted, _ := json.Marshal(id)
			for _, value := range []string{`"1"`, string(text)} {
				body := `{"apiKey":"k","member":%[2]s,"merchant":%[2]s,"memberId":%[2]s,"merchantId":%[2]s,"callbackUrl":"http://127.0.0.1:1/%[3]s","more %[3]s":%[2]s,"bill":{"billId":%[1]s,"sendType":"URL","price":1,"hash":%[2]s,"callbackUrl":"http://127.0.0.1:1/%[3]s"}}`
				if strings.HasPrefix(path, "/if/") {
					body = `{"apikey":"k","member":%[2]s,"merchant":%[2]s,"bill_id":%[1]s,"hash":%[2]s,"price":"1","more %[3]s":%[2]s,"bill":{"bill_id":%[1]s,"price":"1","hash":%[2]s,"callbackURL":"http://127.0.0.1:1/%[3]s"}}`
				}
				send("POST", partners+path, fmt.Sprintf(body, quoted, value, url.PathEscape("\u202e")), header)
			}
		}
	}
	send("POST", partners+"/"+url.PathEscape(hostileLine), hostileLine, header)
	send("POST", partners+"/callback/"+url.PathEscape(hostileLine), hostileLine, header)
	send("POST", partners+"/bill", hostileLine, header)
	evil := url.QueryEscape(hostileLine)
	for _, target := range []string{
		"/store/clock?by=" + evil, "/store/clock?by=" + url.QueryEscape("an operator\u00a0\u202e"), "/callbacks/drop?by=" + evil + "&bill=" + evil + "&upstream=" + evil,
		"/callbacks/replay?by=o&bill=" + evil, "/callbacks/drop?by=o&bill=" + evil, "/-/reload?x=" + evil, "/" + url.PathEscape(hostileLine),
	} {
		send("POST", admin+target, "", map[string]string{"Authorization": "Bearer right"})
		send("POST", admin+target, "", map[string]string{"Authorization": "Bearer \u202e\u009b"})
	}
}

// TestR36_EveryLineOfTheLogIsOneRecord: whatever callers, upstreams and operators send, each line of the log is one record, and no
// character of it can change what a terminal shows.
func TestR36_EveryLineOfTheLogIsOneRecord(t *testing.T) {
	t.Parallel()
	for name, terminal := range map[string]bool{"JSON": false, "text": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "billbridge.yaml")
			config := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, token: right}\nstore: {url: \"sqlite:billbridge.db\"}\n" +
				"callbacks: {public_url: http://127.0.0.1:1, allow: [127.0.0.0/8], ports: []}\nupstreams: {new: {form: v2, url: " + hostileUpstream(t) + "}}\n"
			proxytest.WriteFile(t, file, config)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			out, log := &firstLine{line: make(chan string, 1)}, new(bytes.Buffer) // which a handler writes to under its lock
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, []string{"serve", "--config", file}, system{out: out, err: log, env: noEnvironment, terminal: terminal})
			}()
			var partners, admin string
			select {
			case line := <-out.line:
				if _, err := fmt.Sscanf(strings.NewReplacer(",", " ", ". ", " ", ".\n", " ").Replace(line), "Listening for partners on %s admin on %s", &partners, &admin); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			case code := <-ended:
				t.Fatalf("exit code %d: %s", code, log)
			}
			provoke(t, "http://"+partners, "http://"+admin)
			stop()
			equal(t, <-ended, exitOK, "exit code")
			checkLines(t, log.String(), terminal)
		})
	}
}

var textRecord = regexp.MustCompile(`^(?:[a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^ "=]+)(?: |$))+$`)

// checkLines checks the lines of a log, and that hostile values have reached it.
func checkLines(t *testing.T, log string, text bool) {
	t.Helper()
	bidi := 0
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q is not printable at byte %d", line, i)
		}
		record := map[string]any{}
		if text {
			if !textRecord.MatchString(line) {
				t.Errorf("not one record: %s", line)
			}
			if _, after, found := strings.Cut(line, ` bill="`); found {
				record["bill"], _ = strconv.Unquote(`"` + after[:strings.IndexByte(after, '"')+1])
			}
			if !strings.HasPrefix(line, "time=") {
				t.Errorf("forged: %s", line)
			}
		} else if err := json.Unmarshal([]byte(line), &record); err != nil || record["msg"] == "forged" {
			t.Errorf("not one record: %s: %v", line, err)
		}
		if bill, _ := record["bill"].(string); strings.Contains(bill, "\u202e\u009b") {
			bidi++
		}
	}
	if bidi == 0 {
		t.Errorf("no hostile value has reached the log:\n%s", log)
	}
}

// firstLine is an output of which the first line is read.
type firstLine struct {
	mu   sync.Mutex
	text strings.Builder
	line chan string
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.text.String()
	f.text.Write(p)
	if !strings.Contains(before, "\n") && strings.Contains(f.text.String(), "\n") {
		f.line <- f.text.String()
	}
	return len(p), nil
}

// The values of the log are not changed: what is escaped is read back as it was.
func TestR36_EscapedLogValuesAreReadBack(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(newLog(system{err: &out})).Info(hostileLine, "이름", hostileLine, slog.Group("a\u202e", "b", "결제 \U0001f600"), "invalid", "\xff\xc0")
	line := strings.TrimSuffix(out.String(), "\n")
	if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q", line)
	}
	var got map[string]any
	must(t, json.Unmarshal([]byte(line), &got))
	if got["msg"] != hostileLine || got["이름"] != hostileLine || got["invalid"] != "\ufffd\ufffd" || got["a\u202e"].(map[string]any)["b"] != "결제 \U0001f600" {
		t.Errorf("%q", got)
	}
	if !strings.Contains(line, "이름") || !strings.Contains(line, "결제 \U0001f600") {
		t.Errorf("printable text is escaped: %s", line)
	}
}
