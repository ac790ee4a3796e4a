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
)

// raw sends bytes over a new connection and returns all answers until the gateway closes the connection. With
// halfClose it closes its own direction first. A connection that stays open fails the test.
func (c *caller) raw(halfClose bool, parts ...string) []answer {
	c.t.Helper()
	conn := dial(c.t, strings.TrimPrefix(c.url, "http://"), "")
	defer conn.Close()
	for _, part := range parts {
		if _, err := io.WriteString(conn, part); err != nil {
			break // the gateway may close the connection earlier
		}
	}
	if halfClose {
		_ = conn.CloseWrite()
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
		chunked := func(size int, more string) string {
			return head(q.path(), more+"Transfer-Encoding: chunked\r\n") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, padded(size))
		}
		sized := func(size int, more string) string {
			return head(q.path(), fmt.Sprintf("%sContent-Length: %d\r\n", more, size)) + padded(size)
		}
		const closes = "Connection: close\r\n"
		for name, text := range map[string]string{
			"at the limit":           sized(limit, closes),
			"at the limit, chunked":  chunked(limit, closes),
			"over":                   sized(limit+1, ""),
			"over, chunked":          chunked(limit+1, ""),
			"much over, chunked":     chunked(limit*600, ""),
			"much over":              sized(limit*600, ""),
			"a length of 16 EiB":     head(q.path(), "Content-Length: 9223372036854775807\r\n"),
			"waits for 100 Continue": head(q.path(), "Expect: 100-continue\r\nContent-Length: 2000\r\n"),
		} {
			for _, how := range []string{"own", "always-200"} {
				parallel(t, name+"/"+form+"/"+how, func(t *testing.T) {
					b := newBridge(t, "v2", "limits: {body: 1KiB}", "failures: {status: "+how+"}")
					got := b.raw(name == "waits for 100 Continue", text)
					if len(got) != 1 {
						t.Fatalf("%d answers: %+v", len(got), got)
					}
					want, calls := wantAnswer{413, "VALIDATION_001"}, 0
					if strings.Contains(text, closes) {
						want, calls = success, 1
					}
					if how == "always-200" {
						want.status = 200
					}
					got[0].check(t, form, want)
					b.back.expectCalls(t, calls)
				})
			}
		}
	}
}

// The process refuses 16 MiB of brackets and uses little memory for them.
func TestR03_SixteenMebibytesOfBrackets(t *testing.T) {
	b := newBridge(t, "v2", "limits: {body: 17MiB}")
	body := strings.Repeat("[", 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.post("/if/bill/send", body).check(t, "legacy", invalid)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 20*16<<20 { // R04; the test's own copies count too
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	equal(t, b.back.count(), 0)
}

// The code is only in its own field. The text begins with the field or the reason.
func TestRefusalNamesItsCodeOnce(t *testing.T) {
	t.Parallel()
	b := newGateway(t, oneUpstream("legacy", refusedURL))
	for body, want := range map[string]string{
		`price=1000`:               `{"code":"VALIDATION_001","message":"not JSON at byte 0","data":null}`,
		`{"bill":{"price":"1.5"}}`: `{"code":"VALIDATION_001","message":"bill.price: must be a whole number in digits","data":null}`,
	} {
		equal(t, b.post("/bill/destroy", body).body, want, body)
	}
}

// sized is the head of a call whose body has so many bytes.
func sized(path string, length int) string {
	return head(path, fmt.Sprintf("Content-Length: %d\r\n", length))
}
