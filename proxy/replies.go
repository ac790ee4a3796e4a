package proxy

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"billbridge/proxy/httpconn"
)

// slowAfter is how long an answer is being read before it can be cut.
const slowAfter = time.Second

// reach takes what is missing to n bytes.
func (h *held) reach(n int) (ok bool) { return h.take(int64(n) - h.taken) }

// write limits the time for reading an answer, until written is called: if its memory is needed, it ends earlier.
func (h *held) write(w http.ResponseWriter, within time.Duration) (written func()) {
	began, writer := time.Now(), http.NewResponseController(w)
	_ = writer.SetWriteDeadline(began.Add(within))
	return h.transfer(func() bool {
		return time.Since(began) > slowAfter && writer.SetWriteDeadline(began) == nil
	})
}

// readReply reads the whole body and decompresses it. It returns an error if the result is longer than the limit, or if
// the budget for bodies is used up. The reply to a write is read also then: else its outcome would become unknown.
func readReply(reply *httpconn.Reply, r *upstreamRequest) error {
	body, buf, limit := reply.Body, r.reply, r.limit
	switch strings.ToLower(reply.ContentEncoding) {
	case "", "identity":
	case "gzip", "x-gzip":
		unzip, err := gzip.NewReader(reply.Body)
		if err != nil {
			return unzipError(err)
		}
		body = unzip
	default:
		return &callError{reason: "not_json", detail: "unsupported Content-Encoding"}
	}
	buf.Grow(int(min(max(reply.Length, 0), limit, firstRead)) + 1)
	var err error
	for err == nil && int64(buf.Len()) <= limit {
		var n int
		buf.Grow(1)
		// The translation gets twice the length.
		if r.held != nil && buf.Len() >= chunk && !r.held.reach(buf.Cap()+2*buf.Len()) && !r.write {
			return &callError{reason: "too_large", detail: errNoMemory.Error()}
		}
		free := buf.AvailableBuffer()
		n, err = body.Read(free[:min(int64(cap(free)), limit+1-int64(buf.Len()))])
		_, _ = buf.Write(free[:n])
	}
	switch {
	case int64(buf.Len()) > limit:
		return &callError{reason: "too_large", detail: fmt.Sprintf("over %d bytes", limit)}
	case err == io.EOF:
		return nil
	case body != reply.Body:
		return unzipError(err)
	}
	return err
}

// firstRead limits the memory that a reply gets by its Content-Length, before its bytes arrive.
const firstRead = 64 << 10

// unzipError returns a network error as it is, and any other error as a *callError about invalid gzip.
func unzipError(err error) error {
	var network net.Error
	if errors.As(err, &network) {
		return err
	}
	return &callError{reason: "not_json", detail: "not valid gzip"}
}
