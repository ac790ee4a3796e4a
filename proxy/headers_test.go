package proxy_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// ours are all headers that an upstream gets.
func ours(id string, length int) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"},
		"User-Agent": {"billbridge"}, "X-Request-Id": {id}, "Content-Length": {fmt.Sprint(length)},
	}
}

// Line breaks and NUL in any value of a body do not become headers.
func TestR22_NoBodyValueBecomesAHeader(t *testing.T) {
	t.Parallel()
	nasty := "a\r\nX-Evil: 1\r\n\r\nGET / HTTP/1.1\x00\n가"
	for _, client := range forms {
		for _, upstream := range forms {
			b := newBridge(t, upstream)
			for _, op := range operations {
				for _, field := range []string{"apiKey", "member", "merchant", "billId", "productName", "memberName", "phone", "message", "hash", "callbackUrl", "cancelReason"} {
					before := b.back.count()
					got := b.send(newCall(client, op).with(field, nasty))
					codeOf(t, client, got.body)
					calls := b.back.received()[before:]
					if len(calls) != 1 {
						t.Fatalf("%s %s: the upstream saw %d calls", op, field, len(calls))
					}
					if want := ours(got.header.Get("X-Request-Id"), len(calls[0].body)); !maps.EqualFunc(calls[0].header, want, slices.Equal) {
						t.Errorf("%s %s: the upstream got %v", op, field, calls[0].header)
					}
					for name, values := range got.header {
						checkText(t, name+strings.Join(values, ""), "!Evil")
					}
				}
			}
		}
	}
}
