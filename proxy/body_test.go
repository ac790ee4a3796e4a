package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// raw sends bytes over a new connection and returns all answers until the gateway closes the connection. With
// halfClose it closes its own direction first. A connection that stays open fails the test.
func (c *caller) raw(halfClose bool, parts ...string) []answer {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	for _, part := range parts {
		if _, err := io.WriteString(conn, part); err != nil {
			break // the gateway may close the connection earlier
		}
	}
	if halfClose {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	var answers []answer
	reader := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				c.t.Errorf("the connection was left open")
			}
			return answers
		}
		body, _ := io.ReadAll(res.Body)
		if res.Close { // ReadResponse moves the header Connection there
			res.Header.Set("Connection", "close")
		}
		answers = append(answers, answer{res.StatusCode, res.Header, string(body)})
	}
}

func head(path, more string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + more + "\r\n"
}

// nextCall is a whole request, which follows a bad one on the same connection.
func nextCall(q call) string {
	return head(q.path(), fmt.Sprintf("Content-Length: %d\r\n", len(q.body()))) + q.body()
}

// The limit counts the received bytes: with a length, without one, and with a length that is too small.
func TestR13_TooLarge(t *testing.T) {
	t.Parallel()
	const limit = 1024
	for _, form := range forms {
		q := newCall(form, "create")
		padded := func(size int) string {
			text := strings.TrimSuffix(q.body(), "\n")
			return text + strings.Repeat(" ", size-len(text))
		}
		chunked := func(text string) string {
			return head(q.path(), "Transfer-Encoding: chunked\r\n") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text)
		}
		sized := func(text string, more string) string {
			return head(q.path(), fmt.Sprintf("%sContent-Length: %d\r\n", more, len(text))) + text
		}
		for _, row := range []struct {
			name, text string
			half       bool
			status     int
		}{
			{"at the limit", sized(padded(limit), "Connection: close\r\n"), false, 200},
			{"at the limit, chunked", strings.Replace(chunked(padded(limit)), "Host:", "Connection: close\r\nHost:", 1), false, 200},
			{"over", sized(padded(limit+1), ""), false, 413},
			{"over, chunked", chunked(padded(limit + 1)), false, 413},
			{"much over, chunked", chunked(padded(limit * 600)), false, 413},
			{"much over", sized(padded(limit*600), ""), false, 413},
			{"a length of 16 EiB", head(q.path(), "Content-Length: 9223372036854775807\r\n"), false, 413},
			{"waits for 100 Continue", head(q.path(), "Expect: 100-continue\r\nContent-Length: 2000\r\n"), true, 413},
		} {
			for _, how := range []string{"own", "always-200"} {
				t.Run(row.name+"/"+form+"/"+how, func(t *testing.T) {
					t.Parallel()
					back := newBackend(t, newService())
					b := newGateway(t, oneUpstream("v2", back.url, "limits: {body: 1KiB}", "failures: {status: "+how+"}"))
					b.t = t
					got := b.raw(row.half, row.text)
					if len(got) != 1 {
						t.Fatalf("%d answers: %+v", len(got), got)
					}
					code, calls, status := "0000", 1, row.status
					if row.status != 200 {
						code, calls = "VALIDATION_001", 0
					}
					if how == "always-200" {
						status = 200
					}
					got[0].check(t, form, status, code)
					if n := len(back.received()); n != calls {
						t.Errorf("%d calls reached the upstream", n)
					}
				})
			}
		}
	}
}

// A body that is not one valid JSON object, or that two parsers could read differently, is refused between all forms.
// Nothing is sent.
func TestR01_R02_R03_R05_Intake(t *testing.T) {
	t.Parallel()
	bad := map[string]func(string) string{
		"empty":                func(string) string { return "" },
		"spaces":               func(string) string { return " \r\n" },
		"an array":             func(s string) string { return "[" + s + "]" },
		"text":                 func(string) string { return `"a"` },
		"null":                 func(string) string { return "null" },
		"cut off":              func(s string) string { return s[:len(s)-3] },
		"trailing text":        func(s string) string { return s + "x" },
		"twice":                func(s string) string { return s + s },
		"bad at the end":       func(s string) string { return strings.TrimSuffix(s, "}\n") + `,"z":tru}` },
		"a comment":            func(s string) string { return "//a\n" + s },
		"byte order mark":      func(s string) string { return "\ufeff" + s },
		"UTF-16":               func(s string) string { return "{\x00}\x00" },
		"duplicate":            func(s string) string { return strings.Replace(s, "{", `{"member":"a",`, 1) },
		"duplicate, escaped":   func(s string) string { return strings.Replace(s, "{", `{"\u006dember":"a",`, 1) },
		"duplicate price":      func(s string) string { return strings.Replace(s, `"price"`, `"pr\u0069ce":"1","price"`, 1) },
		"not UTF-8":            func(s string) string { return strings.Replace(s, "홍길동", "\xff", 1) },
		"overlong UTF-8":       func(s string) string { return strings.Replace(s, "홍길동", "\xc0\xaf", 1) },
		"lone surrogate":       func(s string) string { return strings.Replace(s, "홍길동", `\ud800`, 1) },
		"lone surrogate, name": func(s string) string { return strings.Replace(s, "{", `{"\udc00":1,`, 1) },
		"control character":    func(s string) string { return strings.Replace(s, "홍길동", "\x00", 1) },
		"too deep":             func(s string) string { return strings.Replace(s, "{", `{"z":`+nested(32)+",", 1) },
		"too deep, unclosed":   func(string) string { return strings.Repeat("[", 1000) },
	}
	for _, client := range forms {
		for _, upstream := range forms {
			t.Run(client+"/"+upstream, func(t *testing.T) {
				t.Parallel()
				back := newBackend(t, newService())
				b := newGateway(t, oneUpstream(upstream, back.url))
				q := newCall(client, "create")
				for name, spoil := range bad {
					t.Run(name, func(t *testing.T) {
						b.post(q.path(), spoil(q.body())).check(t, client, 400, "VALIDATION_001")
						b.checkMetrics(`billbridge_requests_in_flight{upstream="up"} 0`)
					})
				}
				if n := len(back.received()); n != 0 {
					t.Errorf("%d calls reached the upstream", n)
				}
				deep := strings.Replace(q.body(), "{", `{"z":`+nested(31)+",", 1)
				b.post(q.path(), deep).check(t, client, 200, "0000")
			})
		}
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// The process refuses 16 MiB of brackets and uses little memory for them.
func TestR03_SixteenMebibytesOfBrackets(t *testing.T) {
	back := newBackend(t, newService())
	b := newGateway(t, oneUpstream("v2", back.url, "limits: {body: 17MiB}"))
	body := strings.Repeat("[", 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.post("/if/bill/send", body).check(t, "legacy", 400, "VALIDATION_001")
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 20*16<<20 { // R04; the test's own copies count too
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	if len(back.received()) != 0 {
		t.Error("the body reached the upstream")
	}
}

// The code is only in its own field. The text begins with the field or the reason.
func TestRefusalNamesItsCodeOnce(t *testing.T) {
	t.Parallel()
	b := newGateway(t, oneUpstream("legacy", refusedURL))
	for body, want := range map[string]string{
		`price=1000`:               `{"code":"VALIDATION_001","message":"not JSON at byte 0","data":null}`,
		`{"bill":{"price":"1.5"}}`: `{"code":"VALIDATION_001","message":"bill.price: must be a whole number in digits","data":null}`,
	} {
		if got := b.post("/bill/destroy", body).body; got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}
