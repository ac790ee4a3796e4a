package relay_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"
)

// compressed returns a text in a content coding; raw is deflate without the header of zlib.
func compressed(t *testing.T, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, flate.BestCompression)
	}
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The gateway asks for no content coding, but some web servers compress every answer. An answer that unpacks to more than
// the limit is no success, and what is beyond the limit is not unpacked.
func TestCompressedAnswersAreRead(t *testing.T) {
	t.Parallel()
	success := documented["legacy"]
	packed, bomb := compressed(t, "gzip", success), strings.Repeat(" ", 32<<20)+success
	const anyWay = " (a success with callbacks.success: any-2xx)"
	for name, c := range map[string]struct{ coding, body, success, outcome, reason string }{
		"gzip":         {"gzip", packed, "documented", "delivered", ""},
		"X-GZIP":       {"X-GZIP", packed, "documented", "delivered", ""},
		"deflate":      {"deflate", compressed(t, "deflate", success), "documented", "delivered", ""},
		"raw deflate":  {"deflate", compressed(t, "raw", success), "documented", "delivered", ""},
		"identity":     {"identity", success, "documented", "delivered", ""},
		"empty":        {"gzip", "", "documented", "answer", "HTTP 200 but an empty body" + anyWay},
		"another code": {"gzip", compressed(t, "gzip", `{"code":"9999"}`), "documented", "answer", "HTTP 200 but code 9999" + anyWay},
		"br":           {"br", "\x8b\x03", "documented", "answer", "HTTP 200 but it answers in br, which is not decoded here" + anyWay},
		"br, any 2xx":  {"br", "\x8b\x03", "any-2xx", "delivered", ""},
		"twice":        {"gzip, gzip", packed, "documented", "answer", "HTTP 200 but it answers in a coding that is not decoded here" + anyWay},
		"canary":       {"canary", packed, "documented", "answer", "HTTP 200 but it answers in a coding that is not decoded here" + anyWay},
		"no gzip":      {"gzip", success, "documented", "answer", "HTTP 200 but the body is not valid gzip" + anyWay},
		"no deflate":   {"deflate", success, "documented", "answer", "HTTP 200 but the body is not valid deflate" + anyWay},
		"broken sum":   {"gzip", packed[:len(packed)-8] + "\x00\x00\x00\x00" + packed[len(packed)-4:], "documented", "answer", "HTTP 200 but the body is not valid gzip" + anyWay},
		"cut":          {"gzip", packed[:len(packed)-9], "documented", "answer", "HTTP 200 but the body is not valid gzip" + anyWay},
		"gzip bomb":    {"gzip", compressed(t, "gzip", bomb), "documented", "answer", "HTTP 200 but the body is not JSON" + anyWay},
		"deflate bomb": {"deflate", compressed(t, "deflate", bomb), "documented", "answer", "HTTP 200 but the body is not JSON" + anyWay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestRelay(t, setup{callbacks: ", success: " + c.success})
			s.Carry(always(200, c.body, "Content-Encoding", c.coding))
			s.deliverable("https://partner.example.com/", "A")
			s.round()
			s.reasons(c.outcome, c.reason)
		})
	}
}
