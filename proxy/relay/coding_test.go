package relay_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"regexp"
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

// The series of a header that is ignored.
const (
	ignored = `billbridge_callbacks_fields_total{field="Content-Encoding"`
	counted = `,upstream="up",what="ignored"} 1`
)

// The gateway asks for no content coding, but some web servers compress every answer. An answer that unpacks to more than
// the limit is no success, and what is beyond the limit is not unpacked.
func TestCompressedAnswersAreRead(t *testing.T) {
	t.Parallel()
	success := documented["legacy"]
	packed, bomb := compressed(t, "gzip", success), strings.Repeat(" ", 32<<20)+success
	const notDecoded = "it answers in a coding that is not decoded here"
	for name, c := range map[string][3]string{ // the coding, the body, and the reason why it is no success
		"gzip":         {"gzip", packed, ""},
		"X-GZIP":       {"X-GZIP", packed, ""},
		"deflate":      {"deflate", compressed(t, "deflate", success), ""},
		"raw deflate":  {"deflate", compressed(t, "raw", success), ""},
		"identity":     {"identity", success, ""},
		"empty":        {"gzip", "", "an empty body"},
		"another code": {"gzip", compressed(t, "gzip", `{"code":"9999"}`), "code 9999"},
		"br":           {"br", "\x8b\x03", "it answers in br, which is not decoded here"},
		"twice":        {"gzip, gzip", packed, notDecoded},
		"canary":       {"canary", packed, notDecoded},
		"no gzip":      {"gzip", success, "the body is not valid gzip"},
		"no deflate":   {"deflate", success, "the body is not valid deflate"},
		"broken sum":   {"gzip", packed[:len(packed)-8] + "\x00\x00\x00\x00" + packed[len(packed)-4:], "the body is not valid gzip"},
		"cut":          {"gzip", packed[:len(packed)-9], "the body is not valid gzip"},
		"a charset":    {"UTF-8", success, ""},
		"two charsets": {"utf-8, EUC-KR", `{"code":"0000","msg":"` + "\xbc\xba" + `"}`, ""},
		"a type":       {"text", "\ufeff" + success, ""},
		"text":         {"utf-8", "OK", notDecoded},
		"gzip as well": {"utf-8, GZIP", success, notDecoded},
		"aes128gcm":    {"aes128gcm", success, notDecoded},
		"gzip bomb":    {"gzip", compressed(t, "gzip", bomb), "the body is not JSON"},
		"deflate bomb": {"deflate", compressed(t, "deflate", bomb), "the body is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, how := range []string{"documented", "any-2xx"} {
				s := newTestRelay(t, setup{callbacks: ", success: " + how})
				s.Carry(always(200, c[1], "Content-Encoding", c[0]))
				s.deliverable("https://partner.example.com/", "A")
				s.round()
				if c[2] == "" || how == "any-2xx" {
					s.reasons("delivered", "")
					if taken := c[2] == "" && regexp.MustCompile("(?i)utf-8|text").MatchString(c[0]); taken {
						s.counts(ignored, counted)
					} else {
						s.counts(ignored)
					}
				} else {
					s.reasons("answer", "HTTP 200 but "+c[2]+" (a success with callbacks.success: any-2xx)")
				}
			}
		})
	}
}
