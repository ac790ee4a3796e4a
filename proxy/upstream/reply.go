package upstream

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"billbridge/proxy/httpconn"
)

// chunk is the size up to which a reply reserves no memory: most replies are smaller.
const chunk = 16 << 10

// readReply reads the whole body and decompresses it. It returns an error if the result is longer than the limit, or if
// the budget for bodies is used up. The reply to a write is read also then: else its outcome would become unknown. A
// coding that nobody knows, such as utf-8, counts as none if the body is JSON.
func (u *Upstream) readReply(reply *httpconn.Reply, r *Request) error {
	body, buf, limit := reply.Body, r.Reply, r.Limit
	unknown := false
	switch strings.ToLower(reply.ContentEncoding) {
	case "", "identity":
	case "gzip", "x-gzip":
		unzip, err := gzip.NewReader(reply.Body)
		if err != nil {
			return unzipError(err)
		}
		body = unzip
	default:
		if unknown = true; httpconn.HasCoding(reply.ContentEncoding) {
			return errCoding
		}
	}
	buf.Grow(int(min(max(reply.Length, 0), limit, firstRead)) + 1)
	var err error
	for err == nil && int64(buf.Len()) <= limit {
		var n int
		buf.Grow(1)
		// The translation gets twice the length.
		if r.Memory != nil && buf.Len() >= chunk && !r.Memory.Reach(buf.Cap()+2*buf.Len()) && !r.Write {
			return &Failure{Kind: TooLarge, Detail: "no memory"}
		}
		free := buf.AvailableBuffer()
		n, err = body.Read(free[:min(int64(cap(free)), limit+1-int64(buf.Len()))])
		_, _ = buf.Write(free[:n])
	}
	switch {
	case int64(buf.Len()) > limit:
		return &Failure{Kind: TooLarge, Detail: fmt.Sprintf("over %d bytes", limit)}
	case err == io.EOF && unknown && !json.Valid(bytes.TrimPrefix(buf.Bytes(), []byte("\ufeff"))):
		return errCoding
	case err == io.EOF && unknown:
		u.codings.Inc()
		return nil
	case err == io.EOF:
		return nil
	case body != reply.Body:
		return unzipError(err)
	}
	return err
}

var errCoding = &Failure{Kind: NotJSON, Detail: "unsupported Content-Encoding"}

// firstRead limits the memory that a reply gets by its Content-Length, before its bytes arrive.
const firstRead = 64 << 10

// unzipError returns a network error as it is, and any other error as a *Failure about invalid gzip.
func unzipError(err error) error {
	var network net.Error
	if errors.As(err, &network) {
		return err
	}
	return &Failure{Kind: NotJSON, Detail: "not valid gzip"}
}
