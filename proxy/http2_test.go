package proxy_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"billbridge/proxy/proxytest"
)

// A caller opens 250 streams on one HTTP/2 connection, and sends half of a body of 1 MiB on each. The gateway takes
// 32 of them, and holds what has arrived of these.
func TestR15_StreamsOfAConnectionAreLimited(t *testing.T) {
	t.Parallel()
	const attempted, allowed, half = 250, 32, 512 << 10
	a := newAuthority(t)
	a.issue("front")
	back := newBackend(t, newService())
	p := newProcess(t, anyPort+"tls: "+a.pair("front")+"\n"+oneUpstream("v2", back.url))
	conn, err := tls.Dial("tcp", p.Address(), &tls.Config{RootCAs: a.pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	frames := http2.NewFramer(conn, conn)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(err)
	must(frames.WriteSettings())
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for i := range attempted {
		head.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/bill/read"}, {"content-type", "application/json"}, {"content-length", "1048576"}} {
			must(encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		must(frames.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndHeaders: true}))
	}
	refused, streams := 0, -1
	window, windows, left := int64(65535), map[uint32]int64{}, map[uint32]int{}
	chunk := bytes.Repeat([]byte(" "), 16<<10)
	for done := 0; refused < attempted-allowed || done < allowed; {
		frame, err := frames.ReadFrame()
		must(err)
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			most, _ := f.Value(http2.SettingMaxConcurrentStreams)
			initial, _ := f.Value(http2.SettingInitialWindowSize)
			if streams = int(most); streams != allowed || initial != 64<<10 {
				t.Fatalf("%d streams, windows of %d bytes", most, initial)
			}
			for i := range allowed {
				windows[uint32(2*i+1)], left[uint32(2*i+1)] = int64(initial), half
			}
			must(frames.WriteSettingsAck())
		case *http2.RSTStreamFrame:
			if f.StreamID <= 2*allowed {
				t.Fatalf("stream %d is refused: %s", f.StreamID, f.ErrCode)
			}
			refused++
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				window += int64(f.Increment)
			} else {
				windows[f.StreamID] += int64(f.Increment)
			}
		case *http2.GoAwayFrame:
			t.Fatal(f)
		}
		for id, n := range left { // send what the windows allow
			for n > 0 && min(window, windows[id]) > 0 {
				size := min(window, windows[id], int64(len(chunk)), int64(n))
				must(frames.WriteData(id, false, chunk[:size]))
				window, windows[id], n = window-size, windows[id]-size, n-int(size)
			}
			if left[id] = n; n == 0 {
				delete(left, id)
				done++
			}
		}
	}
	held := func() string { return p.admin("GET", "/metrics").body }
	size := regexp.MustCompile(`(?m)^billbridge_body_bytes (\S+)$`)
	proxytest.Eventually(t, func() bool {
		n, err := strconv.ParseFloat(size.FindStringSubmatch(held())[1], 64)
		if most := float64(allowed * (half + 16<<10)); err == nil && n > most {
			t.Fatalf("%v bytes are held, more than %v", n, most)
		}
		return n >= allowed*half
	}, func() string { return fmt.Sprintf("the bodies are not held:\n%s", held()) })
	if n := len(back.received()); n != 0 {
		t.Errorf("%d calls reached the upstream", n)
	}
	_ = conn.Close()
	proxytest.Eventually(t, func() bool { return strings.Contains(held(), "billbridge_body_bytes 0\n") }, held)
	t.Logf("%d of %d streams were refused", refused, attempted)
}

// postLengths sends a call on an HTTP/2 connection of its own, with any lengths. The status is "reset" if the stream was.
func postLengths(t *testing.T, address string, pool *x509.CertPool, path, body string, lengths ...string) (status, answer string) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	frames := http2.NewFramer(conn, conn)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	fields := []string{":method", "POST", ":scheme", "https", ":authority", "a", ":path", path, "content-type", "application/json"}
	for _, length := range lengths {
		fields = append(fields, "content-length", length)
	}
	for i := 0; i < len(fields); i += 2 {
		err = errors.Join(err, encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	_, sent := io.WriteString(conn, http2.ClientPreface)
	if err := errors.Join(
		err, sent, frames.WriteSettings(),
		frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true}),
		frames.WriteData(1, true, []byte(body)),
	); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = f.PseudoValue("status")
		case *http2.DataFrame:
			answer += string(f.Data())
		case *http2.RSTStreamFrame:
			return "reset", answer
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return status, answer
		}
	}
}

// Two lengths of a body are refused over HTTP/2 as over HTTP/1.1: of a call in its form, and of a callback. A length that is no
// number is refused or ends the stream. Nothing is sent.
func TestR09_LengthsOverHTTP2(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("front")
	r := newCallbackParties(t)
	r.process = newProcess(t, anyPort+"tls: "+a.pair("front")+"\n"+oneUpstream("v2", r.back.url)+"store: {url: \"sqlite:"+r.file+"\"}\n"+callbacksOn)
	for _, client := range forms {
		q := newCall(client, "create")
		body := q.body()
		right, wrong := strconv.Itoa(len(body)), strconv.Itoa(len(body)+1)
		for _, lengths := range [][]string{{right, wrong}, {wrong, right}, {right, right}, {right, "x"}} {
			status, answer := postLengths(t, r.Address(), a.pool, q.path(), body, lengths...)
			if status != "400" || !strings.Contains(answer, `"VALIDATION_001"`) {
				t.Errorf("%s, lengths %q: %s %s", client, lengths, status, answer)
			}
			callback := "/from-upstreams/callback/" + strings.Repeat("0", 32)
			if status, _ := postLengths(t, r.Address(), a.pool, callback, body, lengths...); status != "400" {
				t.Errorf("a callback, lengths %q: %s", lengths, status)
			}
		}
		for _, length := range []string{"x", "+" + right, "", right + ", " + wrong, "-1"} {
			if status, answer := postLengths(t, r.Address(), a.pool, q.path(), body, length); status != "400" && status != "reset" {
				t.Errorf("%s, length %q: %s %s", client, length, status, answer)
			}
		}
		if n := len(r.back.received()); n != 0 {
			t.Fatalf("%d calls were sent", n)
		}
	}
	read := newCall("v2", "read").body()
	for _, lengths := range [][]string{nil, {strconv.Itoa(len(read))}} {
		if status, answer := postLengths(t, r.Address(), a.pool, "/bill/read", read, lengths...); status != "200" {
			t.Errorf("lengths %q: %s %s", lengths, status, answer)
		}
	}
}
