package httpconn

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

var crlf = []byte("\r\n")

// A Reply is the reply to a call, without interim replies. Header fields that this package does not need are left out.
type Reply struct {
	Status          int
	ContentType     string
	ContentEncoding string
	RetryAfter      string    // "" if the reply has several
	Length          int64     // of the body as it was sent, in bytes; negative if not known
	Body            io.Reader // it must be read before the connection is released

	closes bool // the server closes the connection behind it
}

// replyOf returns the parts of a reply that net/http has parsed.
func replyOf(r *http.Response) Reply {
	reply := Reply{
		Status: r.StatusCode, Length: r.ContentLength,
		ContentType: r.Header.Get("Content-Type"), ContentEncoding: r.Header.Get("Content-Encoding"),
		closes: r.Close,
	}
	if after := r.Header["Retry-After"]; len(after) == 1 {
		reply.RetryAfter = after[0]
	}
	return reply
}

// A headKind is what parseHead finds.
type headKind int

const (
	other      headKind = iota // valid or not; after such a reply the connection is not used again
	incomplete                 // the beginning of a head of the next kinds
	usual                      // a body of a given length follows, and nothing or the end of the connection behind it
	strict                     // a chunked body or none follows, which net/http reads
)

// parseHead parses the head of a reply at the beginning of b. It takes only heads of HTTP/1.1 about which nobody can
// disagree. n is the length of a usual head. It allocates only the values that differ from those of last, an earlier
// reply of the same server.
func parseHead(b []byte, last *Reply) (reply Reply, kind headKind, n int) {
	reply.Length = -1
	rest, chunked := b, false
	for {
		line, behind, complete := bytes.Cut(rest, crlf)
		if !complete && bytes.IndexByte(line, '\n') < 0 {
			return Reply{}, incomplete, 0
		}
		rest = behind
		if reply.Status == 0 {
			if reply.Status = usualStatus(line); reply.Status == 0 {
				return Reply{}, other, 0
			}
			continue
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := cutField(line)
		if !ok {
			return Reply{}, other, 0
		}
		switch {
		case strings.EqualFold(string(name), "content-length"):
			ok = reply.Length < 0 && parseLength(value, &reply.Length)
		case strings.EqualFold(string(name), "content-type"):
			ok = setOnce(&reply.ContentType, value, last.ContentType)
		case strings.EqualFold(string(name), "content-encoding"):
			ok = setOnce(&reply.ContentEncoding, value, last.ContentEncoding)
		case strings.EqualFold(string(name), "retry-after"):
			ok = setOnce(&reply.RetryAfter, value, last.RetryAfter)
		case strings.EqualFold(string(name), "connection"):
			closes := strings.EqualFold(string(value), "close")
			reply.closes = reply.closes || closes
			ok = closes || strings.EqualFold(string(value), "keep-alive")
		case strings.EqualFold(string(name), "transfer-encoding"):
			ok = !chunked && strings.EqualFold(string(value), "chunked")
			chunked = true
		case strings.EqualFold(string(name), "trailer"):
			ok = false
		}
		if !ok {
			return Reply{}, other, 0
		}
	}
	hasLength, empty := reply.Length >= 0, reply.Status == http.StatusNoContent
	switch {
	case hasLength && !chunked && !empty:
		return reply, usual, len(b) - len(rest)
	case !hasLength && chunked != empty:
		return Reply{}, strict, 0
	}
	return Reply{}, other, 0
}

// usualStatus returns the status of a reply of HTTP/1.1, or 0. It takes no interim replies, and no 304, which can have
// the length of a body that does not follow.
func usualStatus(line []byte) int {
	const version = "HTTP/1.1 "
	rest, ok := bytes.CutPrefix(line, []byte(version))
	if !ok || len(rest) < 4 || rest[3] != ' ' || !isText(line) {
		return 0
	}
	status, err := strconv.Atoi(string(rest[:3])) // with a sign it is below 200
	if err != nil || status < 200 || status == http.StatusNotModified {
		return 0
	}
	return status
}

// cutField returns the name and the value of a header line.
func cutField(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 || !isText(value) {
		return nil, nil, false
	}
	for _, c := range name {
		if (c|' ' < 'a' || c|' ' > 'z') && (c < '0' || c > '9') && c != '-' {
			return nil, nil, false
		}
	}
	return name, bytes.Trim(value, " \t"), true
}

// isText reports whether b has neither control characters, other than tabs, nor bytes outside ASCII.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// parseLength parses a length, which a proxy may have joined with an equal one (RFC 9110, 8.6).
func parseLength(value []byte, n *int64) bool {
	value, rest, joined := bytes.Cut(value, []byte(","))
	value = bytes.TrimRight(value, " \t")
	for joined {
		var again []byte
		again, rest, joined = bytes.Cut(rest, []byte(","))
		if !bytes.Equal(bytes.Trim(again, " \t"), value) {
			return false
		}
	}
	length, err := strconv.ParseUint(string(value), 10, 64) // accepts digits only
	*n = int64(length)
	return err == nil && len(value) <= 18
}

// setOnce sets a value that is not set yet. It uses last if that is equal, which saves an allocation.
func setOnce(to *string, value []byte, last string) bool {
	if *to != "" || len(value) == 0 {
		return false
	}
	if *to = last; string(value) != last {
		*to = string(value)
	}
	return true
}

// codings are the content codings of the registry of HTTP, without identity.
var codings = strings.Fields("aes128gcm br compress dcb dcz deflate exi gzip pack200-gzip x-compress x-gzip zstd")

// HasCoding reports whether a Content-Encoding names a content coding. Some programs write a charset or a type into it
// (UTF-8, text): over a JSON document that can be ignored.
func HasCoding(contentEncoding string) bool {
	for token := range strings.SplitSeq(strings.ToLower(contentEncoding), ",") {
		if slices.Contains(codings, strings.TrimSpace(token)) {
			return true
		}
	}
	return false
}

// A FramingError is the error of a reply of which nobody can say for certain where it ends, or that is no HTTP.
type FramingError struct {
	Where string // the header by its name, or another part of the reply; it has no value of the reply
}

func (e *FramingError) Error() string { return "the framing of the reply is not valid: " + e.Where }

// suspects names the part of a head that net/http has not taken, as far as the head has arrived.
func suspects(head []byte) string {
	lines := bytes.Split(head, []byte("\n"))
	if !bytes.HasPrefix(lines[0], []byte("HTTP/")) {
		return "the status line"
	}
	seen := map[string]string{}
	for _, line := range lines[1:] {
		if line = bytes.TrimRight(line, "\r"); len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok && line[0] != ' ' && line[0] != '\t' {
			return "a header line without a colon"
		}
		for _, framing := range []string{"Transfer-Encoding", "Content-Length"} {
			if strings.EqualFold(string(name), framing) {
				value := strings.TrimSpace(string(value))
				if was, twice := seen[framing]; twice && (was != value || framing == "Transfer-Encoding") {
					return framing + ", twice"
				}
				seen[framing] = value
			}
		}
	}
	switch length, encoding := seen["Content-Length"], seen["Transfer-Encoding"]; {
	case encoding != "" && !strings.EqualFold(encoding, "chunked"):
		return "Transfer-Encoding"
	case length != "" && !allDigits(length):
		return "Content-Length"
	}
	return "a header"
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
