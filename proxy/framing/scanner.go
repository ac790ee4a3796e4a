package framing

import (
	"bytes"
	"strconv"
	"strings"
)

// A scanner follows the requests of one connection and finds what is framed ambiguously. It reads each byte of a head,
// a chunk size and a trailer once, and counts those of a body.
type scanner struct {
	state   state
	line    []byte // the beginning of a line, of which the rest has not come
	left    uint64 // bytes of the body, or of the chunk
	http10  bool
	sized   bool // Content-Length was there
	length  uint64
	chunked bool
	empty   emptyLine
}

// An emptyLine is how far the empty line has come that may stand behind a body. Old clients send one, and it belongs to
// no request (RFC 9112, 2.2).
type emptyLine uint8

const (
	noEmptyLine emptyLine = iota
	emptyLineAllowed
	emptyLineBegun // its CR has come
)

// skip takes a byte of the empty line behind a body, which is not passed on, and reports whether it was one.
func (s *scanner) skip(c byte) bool {
	switch {
	case s.empty == emptyLineAllowed && c == '\r':
		s.empty = emptyLineBegun
		return true
	case s.empty == emptyLineBegun && c == '\n':
		s.empty = noEmptyLine
		return true
	}
	return false
}

// A state says what comes next.
type state uint8

const (
	requestLine state = iota
	headerLine
	body
	chunkSizeLine
	chunk
	chunkEnd
	trailerLine
)

// lineAtMost is more than net/http takes of a head, so that it has answered before.
const lineAtMost = 80 << 10

// proxyV2 is the beginning of version 2 of the PROXY protocol, behind its first line.
const proxyV2 = "\r\n\x00\r\nQUIT\n"

// scan looks at the next bytes of the connection, and removes those that belong to no request. passed is how many of
// those that are left may be passed on, all of them if reason is "".
func (s *scanner) scan(p []byte) (passed int, reason string) {
	for i := 0; i < len(p); {
		if s.empty != noEmptyLine {
			if s.skip(p[i]) {
				copy(p[i:], p[i+1:])
				p = p[:len(p)-1]
				continue
			}
			if s.empty == emptyLineBegun {
				return i, bareCR
			}
			s.empty = noEmptyLine
		}
		switch s.state {
		case body, chunk:
			n := min(s.left, uint64(len(p)-i))
			s.left -= n
			i += int(n)
			if s.left > 0 {
				continue
			}
			if s.state == chunk {
				s.state = chunkEnd
			} else {
				s.state, s.empty = requestLine, emptyLineAllowed
			}
		default:
			end := bytes.IndexByte(p[i:], '\n')
			if end < 0 {
				s.line = append(s.line, p[i:]...)
				if len(s.line) > lineAtMost {
					return i, longLine
				}
				return len(p), ""
			}
			line := p[i : i+end]
			if len(s.line) > 0 {
				line = append(s.line, line...)
				s.line = nil
			}
			if reason := s.take(line); reason != "" {
				if len(line) == 1 && bytes.HasPrefix(p[i+end+1:], []byte(proxyV2)) {
					reason = ProxyProtocol
				}
				return i, reason
			}
			i += end + 1
		}
	}
	return len(p), ""
}

// take takes a line without its LF.
func (s *scanner) take(line []byte) (reason string) {
	switch at := bytes.IndexByte(line, '\r'); {
	case at < 0:
		return bareLF
	case at < len(line)-1:
		return bareCR
	}
	line = line[:len(line)-1]
	switch s.state {
	case requestLine:
		return s.request(line)
	case headerLine:
		return s.header(line)
	case chunkSizeLine:
		return s.chunkSize(line)
	case chunkEnd:
		if s.state = chunkSizeLine; len(line) > 0 {
			return chunkSize
		}
	case trailerLine:
		if len(line) == 0 {
			s.state, s.empty = requestLine, emptyLineAllowed
		} else if isSpace(line[0]) {
			return foldedLine
		}
	}
	return ""
}

func (s *scanner) request(line []byte) (reason string) {
	s.http10, s.sized, s.length, s.chunked = false, false, 0, false
	s.state = headerLine
	at := bytes.LastIndexByte(line, ' ')
	if at < 0 {
		return malformedLine
	}
	switch v := line[at+1:]; {
	case bytes.HasPrefix(line, []byte("CONNECT ")):
		return connect
	case bytes.HasPrefix(line, []byte("PROXY ")):
		return ProxyProtocol
	case string(v) == "HTTP/1.0":
		s.http10 = true
	case string(v) != "HTTP/1.1":
		return version
	}
	return ""
}

func (s *scanner) header(line []byte) (reason string) {
	if len(line) == 0 {
		s.endHead()
		return ""
	}
	if isSpace(line[0]) {
		return foldedLine
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || isSpace(line[colon-1]) {
		return malformedLine
	}
	name, value := line[:colon], line[colon+1:]
	switch {
	case len(name) == len("Content-Length") && strings.EqualFold(string(name), "Content-Length"):
		return s.contentLength(bytes.Trim(value, " \t"))
	case len(name) == len("Transfer-Encoding") && strings.EqualFold(string(name), "Transfer-Encoding"):
		return s.transferEncoding(bytes.Trim(value, " \t"))
	}
	return ""
}

func (s *scanner) contentLength(value []byte) (reason string) {
	length, err := strconv.ParseUint(string(value), 10, 64) // accepts digits only
	if err != nil || len(value) > 18 {
		return malformedLine
	}
	switch {
	case s.chunked:
		return lengthAndEncoding
	case s.sized:
		return twoLengths
	}
	s.sized, s.length = true, length
	return ""
}

func (s *scanner) transferEncoding(value []byte) (reason string) {
	switch {
	case s.sized:
		return lengthAndEncoding
	case s.http10:
		return encodingIn10
	case s.chunked || !strings.EqualFold(string(value), "chunked"):
		return otherEncoding
	}
	s.chunked = true
	return ""
}

// endHead decides by the head what follows it.
func (s *scanner) endHead() {
	switch {
	case s.chunked:
		s.state = chunkSizeLine
	case s.length > 0:
		s.state, s.left = body, s.length
	default:
		s.state = requestLine
	}
}

func (s *scanner) chunkSize(line []byte) (reason string) {
	size, _, _ := bytes.Cut(line, []byte(";"))
	left, err := strconv.ParseUint(string(size), 16, 64) // accepts hexadecimal digits only
	if err != nil || len(size) > 15 {
		return chunkSize
	}
	s.left = left
	s.state = chunk
	if s.left == 0 {
		s.state = trailerLine
	}
	return ""
}

// betweenRequests reports whether no byte of a next request has come.
func (s *scanner) betweenRequests() bool { return s.state == requestLine && len(s.line) == 0 }

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
