package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"
)

// hasTwoLengths reports whether a request has Content-Length twice. Over HTTP/2 net/http uses the first one; over
// HTTP/1.1 package framing refuses such a request.
func hasTwoLengths(r *http.Request) bool { return len(r.Header["Content-Length"]) > 1 }

// requestID returns the caller's id if it has only safe characters, or a new one.
func requestID(given []string) string {
	const safe = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:"
	if len(given) == 1 && len(given[0]) > 0 && len(given[0]) <= 128 && strings.Trim(given[0], safe) == "" {
		return given[0]
	}
	return rand.Text()
}

// isJSON reports whether the header says that the body is JSON without a content coding. A missing type counts as
// JSON.
func isJSON(h http.Header) bool {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return false
		}
	}
	types := h["Content-Type"]
	if len(types) != 1 || types[0] == "application/json" {
		return len(types) < 2
	}
	if isJSONType(types[0]) {
		return true
	}
	for kind := range strings.SplitSeq(types[0], ",") { // browsers write so what a page sets twice
		if !isJSONType(kind) {
			return false
		}
	}
	return true
}

// isJSONType reports whether a media type is JSON, whatever its parameters are.
func isJSONType(text string) bool {
	kind, _, err := mime.ParseMediaType(text)
	return (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) && kind == "application/json"
}

// WithQueueTime returns a context for a request that waited in the socket before its connection was accepted. A
// write that waited too long is not sent: its caller may have given up.
func WithQueueTime(ctx context.Context, queueTime time.Duration) context.Context {
	return context.WithValue(ctx, queueTimeKey{}, queueTime)
}

type queueTimeKey struct{}
