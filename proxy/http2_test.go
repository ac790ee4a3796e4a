package proxy_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// dialHTTP2 opens an HTTP/2 connection to a gateway.
func dialHTTP2(t *testing.T, address string, pool *x509.CertPool) (*tls.Conn, *http2.Framer) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	frames := http2.NewFramer(conn, conn)
	if _, err = io.WriteString(conn, http2.ClientPreface); errors.Join(err, frames.WriteSettings()) != nil {
		t.Fatal(err)
	}
	return conn, frames
}

// beginPost begins a stream with the header of a POST, with further fields.
func beginPost(frames *http2.Framer, stream uint32, path string, fields ...string) error {
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	fields = append([]string{
		":method", "POST", ":scheme", "https", ":authority", "a", ":path", path, "content-type", "application/json",
	}, fields...)
	for i := 0; i < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return err
		}
	}
	param := http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndHeaders: true}
	return frames.WriteHeaders(param)
}

// A caller opens 250 streams on one HTTP/2 connection, and sends a part of a body of 1 MiB on each. The gateway takes
// 32 of them, and holds what has arrived of these.
func TestR15_StreamsOfAConnectionAreLimited(t *testing.T) {
	t.Parallel()
	const attempted, allowed, part = 250, 32, 1 << 10
	a := newAuthority(t)
	back := newBackend(t, newService())
	p := a.newProcess(oneUpstream("v2", back.url))
	conn, frames := dialHTTP2(t, p.Address(), a.pool)
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	for i := range attempted {
		must(beginPost(frames, uint32(2*i+1), "/bill/read", "content-length", "1048576"))
	}
	settings := false
	for refused := 0; refused < attempted-allowed || !settings; {
		frame, err := frames.ReadFrame()
		must(err)
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			settings = true
			streams, _ := f.Value(http2.SettingMaxConcurrentStreams)
			if window, _ := f.Value(http2.SettingInitialWindowSize); streams != allowed || window != 64<<10 {
				t.Fatalf("%d streams, windows of %d bytes", streams, window)
			}
			must(frames.WriteSettingsAck())
			for i := range allowed {
				must(frames.WriteData(uint32(2*i+1), false, bytes.Repeat([]byte(" "), part)))
			}
		case *http2.RSTStreamFrame:
			if f.StreamID <= 2*allowed {
				t.Fatalf("stream %d is refused: %s", f.StreamID, f.ErrCode)
			}
			refused++
		case *http2.GoAwayFrame:
			t.Fatal(f)
		}
	}
	held := p.metrics
	proxytest.Eventually(t, func() bool { return p.bodyBytes() >= allowed*part }, held)
	if n := p.bodyBytes(); n > allowed*(part+16<<10) {
		t.Errorf("%d bytes are held", n)
	}
	back.expectCalls(t, 0)
	_ = conn.Close()
	proxytest.Eventually(t, func() bool { return p.bodyBytes() == 0 }, held)
}

// postLengths sends a call on an HTTP/2 connection of its own, with any lengths. The status is "reset" if the stream was.
func postLengths(t *testing.T, address string, pool *x509.CertPool, path, body string, lengths ...string) (status, answer string) {
	t.Helper()
	conn, frames := dialHTTP2(t, address, pool)
	defer conn.Close()
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var fields []string
	for _, length := range lengths {
		fields = append(fields, "content-length", length)
	}
	must(t, errors.Join(beginPost(frames, 1, path, fields...), frames.WriteData(1, true, []byte(body))))
	for {
		frame, err := frames.ReadFrame()
		must(t, err)
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
	r.process = newProcess(t, r.config("v2", "")+"tls: "+a.pair("front")+"\n"+callbacksOn)
	// check makes a call, and one more of each of the lengths.
	check := func(path, body, want, says string, lengths ...string) {
		t.Helper()
		status, answer := postLengths(t, r.Address(), a.pool, path, body, lengths...)
		if !slices.Contains(strings.Fields(want), status) || !strings.Contains(answer, says) {
			t.Errorf("%s, lengths %q: %s %s", path, lengths, status, answer)
		}
	}
	for _, client := range forms {
		q := newCall(client, "create")
		body := q.body()
		right, wrong := strconv.Itoa(len(body)), strconv.Itoa(len(body)+1)
		for _, lengths := range [][]string{{right, wrong}, {wrong, right}, {right, right}, {right, "x"}} {
			check(q.path(), body, "400", `"VALIDATION_001"`, lengths...)
			check("/from-upstreams/callback/"+strings.Repeat("0", 32), body, "400", "", lengths...)
		}
		for _, length := range []string{"x", "+" + right, "", right + ", " + wrong, "-1"} {
			check(q.path(), body, "400 reset", "", length)
		}
		r.back.expectCalls(t, 0)
	}
	read := v2("read").body()
	check("/bill/read", read, "200", "")
	check("/bill/read", read, "200", "", strconv.Itoa(len(read)))
}
