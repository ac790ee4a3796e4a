package proxy_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// A wireEdge is a first request at the edges of RFC 9112. In its text, PATH and BODY are those of a harmless
// request, LEN and HEX the length of BODY, INNER is a whole request that stands in a body, and ILEN its length.
type wireEdge struct {
	name, text string
	status     int // of the first answer
	then       string
}

// What becomes of the second request.
const (
	goesOn     = "answered"
	closes     = "not answered"
	halfClosed = "a part of the first" // which is incomplete; the caller ends its side after the second
)

// edges reads a list of name|text. ¶ is CR LF, and words in braces stand for what many edges have.
func edges(status int, then, list string) (all []wireEdge) {
	words := strings.NewReplacer("¶", "\r\n", "{line}", "POST PATH HTTP/1.1\r\nHost: a\r\n",
		"{start}", "POST PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\n", "{sized}", "Content-Length: LEN\r\n\r\nBODY",
		"{inside}", "Content-Length: ILEN\r\n\r\nINNER", "{chunked}", "Transfer-Encoding: chunked\r\n\r\n", "{chunks}", "HEX\r\nBODY\r\n0\r\n\r\n")
	for line := range strings.Lines(strings.TrimPrefix(list, "\n")) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
		if err != nil {
			panic(name)
		}
		all = append(all, wireEdge{name, words.Replace(text), status, then})
	}
	return all
}

// wireEdges are requests that two servers could read in two ways, and their harmless neighbours.
var wireEdges = slices.Concat(
	edges(200, goesOn, `
length|{start}{sized}
length with zeros before it|{start}Content-Length: 000LEN¶¶BODY
length between spaces and tabs|{start}Content-Length: \t LEN \t¶¶BODY
length without a space|{start}content-length:LEN¶¶BODY
length, and names that look like it|{start}Content_Length: 1¶Content-Length-: 2¶X-Content-Length: 3¶{sized}
encoding, and names that look like it|{start}Transfer_Encoding: chunked¶TE: chunked¶X-Transfer-Encoding: chunked¶{sized}
chunks|{start}{chunked}{chunks}
chunks in capitals|{start}TRANSFER-ENCODING: CHUNKED¶¶00HEX¶BODY¶000¶¶
chunk extensions|{start}{chunked}HEX;a=b;c="d;e"¶BODY¶0;f¶¶
trailers with names of framing|{start}{chunked}HEX¶BODY¶0¶Content-Length: 3¶Transfer-Encoding: chunked¶X-Request-Id: smuggled¶Host: b¶Content-Encoding: gzip¶¶
absolute target of another host|POST http://evil.examplePATH HTTP/1.1¶Host: evil.example¶X-Request-Id: first¶{sized}
absolute target, and another Host|POST http://evil.examplePATH HTTP/1.1¶Host: b¶X-Request-Id: first¶{sized}
query with a space as +|POST PATH?a=b+c%0d%0aX:1 HTTP/1.1¶Host: a¶X-Request-Id: first¶{sized}
doubled slash|POST /PATH HTTP/1.1¶Host: a¶X-Request-Id: first¶{sized}
waits for 100|{start}Expect: 100-continue¶{sized}
tokens of our headers|{start}Connection: keep-alive, X-Request-Id, Content-Length, Content-Type, Host¶{sized}
upgrade to h2c|{start}Connection: Upgrade, HTTP2-Settings¶Upgrade: h2c¶HTTP2-Settings: AAMAAABkAAQAAP__¶{sized}
upgrade to websocket|{start}Connection: Upgrade¶Upgrade: websocket¶Sec-WebSocket-Version: 13¶Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==¶{sized}
idempotency keys|{start}Idempotency-Key: a¶X-Idempotency-Key: b¶X-Http-Method-Override: DELETE¶{sized}
identity|{start}Content-Encoding: identity¶{sized}
bytes over 127 in a header|{start}X-A: \xff\xfe¶{sized}
empty Host|POST PATH HTTP/1.1¶Host:¶X-Request-Id: first¶{sized}
HTTP/1.0 that keeps the connection|POST PATH HTTP/1.0¶Connection: keep-alive¶X-Request-Id: first¶{sized}
`),
	edges(200, closes, `
HTTP/1.0|POST PATH HTTP/1.0¶X-Request-Id: first¶{sized}
closes|{start}Connection: close¶{sized}
closes, among tokens|{start}Connection: x-a¶Connection: keep-alive, CLOSE¶{sized}
`),
	edges(200, goesOn, `
an id that is not safe|{line}X-Request-Id: a b¶{sized}
two ids|{start}X-Request-Id: smuggled¶{sized}
`),
	edges(400, goesOn, `
no body|{start}¶
length zero|{start}Content-Length: 0¶¶
no chunk|{start}{chunked}0¶¶
a request as the body|{start}{inside}
`),
	edges(404, goesOn, `
another path|POST /smuggled HTTP/1.1¶Host: a¶X-Request-Id: first¶{inside}
root|POST / HTTP/1.1¶Host: a¶X-Request-Id: first¶{inside}
path with an escaped slash|POST PATH%2f HTTP/1.1¶Host: a¶X-Request-Id: first¶{sized}
path with dots|POST /x/..PATH HTTP/1.1¶Host: a¶X-Request-Id: first¶{sized}
path with a fragment|POST PATH#a HTTP/1.1¶Host: a¶X-Request-Id: first¶{sized}
`),
	edges(405, goesOn, `
GET with a body|GET PATH HTTP/1.1¶Host: a¶X-Request-Id: first¶{inside}
method in small letters|post PATH HTTP/1.1¶Host: a¶X-Request-Id: first¶{inside}
`),
	edges(415, goesOn, `
content coding|{start}Content-Encoding: gzip¶{inside}
two content types|{start}Content-Type: application/json¶Content-Type: application/json¶{inside}
another content type|{start}Content-Type: text/plain¶{chunked}5¶hello¶0¶¶
`),
	edges(400, closes, `
two equal lengths|{start}Content-Length: LEN¶{sized}
two lengths|{start}Content-Length: 0¶{sized}
two lengths in one line|{start}Content-Length: LEN, LEN¶¶BODY
length with a sign|{start}Content-Length: +LEN¶¶BODY
negative length|{start}Content-Length: -1¶¶BODY
length with a fraction|{start}Content-Length: LEN.0¶¶BODY
length in hexadecimal|{start}Content-Length: 0xHEX¶¶BODY
length that overflows|{start}Content-Length: 18446744073709551620¶¶BODY
length in other digits|{start}Content-Length: ５¶¶BODY
empty length|{start}Content-Length:¶¶BODY
space before the colon of the length|{start}Content-Length : LEN¶¶BODY
length and encoding|{start}Content-Length: LEN¶{chunked}0¶¶INNER
encoding and length|{start}Transfer-Encoding: chunked¶Content-Length: LEN¶¶{chunks}
length zero and encoding|{start}Content-Length: 0¶{chunked}{chunks}
encoding twice|{start}Transfer-Encoding: chunked¶{chunked}{chunks}
encoding chunked, identity|{start}Transfer-Encoding: chunked, identity¶¶{chunks}
encoding gzip, chunked|{start}Transfer-Encoding: gzip, chunked¶¶{chunks}
encoding identity|{start}Transfer-Encoding: identity¶{sized}
encoding xchunked|{start}Transfer-Encoding: xchunked¶¶{chunks}
encoding in quotes|{start}Transfer-Encoding: "chunked"¶¶{chunks}
encoding with a vertical tab|{start}Transfer-Encoding: \vchunked¶¶{chunks}
encoding with a parameter|{start}Transfer-Encoding: chunked;q=1¶¶{chunks}
empty encoding|{start}Transfer-Encoding:¶{sized}
encoding with a long s|{start}Tranſfer-Encoding: chunked¶{sized}
space before the colon of the encoding|{start}Transfer-Encoding : chunked¶¶{chunks}
space before the name|{start} {chunked}{chunks}
folded encoding|{start}Transfer-Encoding:¶ chunked¶¶{chunks}
folded header|{start}X-A: b¶\tContent-Length: 1¶{sized}
encoding in HTTP/1.0|POST PATH HTTP/1.0¶Connection: keep-alive¶{chunked}{chunks}
LF ends the lines|POST PATH HTTP/1.1\nHost: a\nContent-Length: LEN\n\nBODY
LF ends one line|{start}X-A: b\n{sized}
LF ends the head|{start}Content-Length: LEN¶\nBODY
CR ends a line|{start}X-A: b\r{sized}
two CR|{start}Content-Length: LEN\r¶¶BODY
NUL in a header|{start}X-A: \x00¶{sized}
NUL in a name|{start}X\x00A: b¶{sized}
no colon|{start}X-A¶{sized}
empty name|{start}: b¶{sized}
name in brackets|{start}[Content-Length]: 1¶{sized}
no Host|POST PATH HTTP/1.1¶X-Request-Id: first¶{sized}
two Hosts|{start}Host: b¶{sized}
Host with a space|POST PATH HTTP/1.1¶Host: a b¶{sized}
HTTP/1.2|POST PATH HTTP/1.2¶Host: a¶{sized}
HTTP/2.0|POST PATH HTTP/2.0¶Host: a¶{sized}
preface of HTTP/2|PRI * HTTP/2.0¶¶SM¶¶
http/1.1|POST PATH http/1.1¶Host: a¶{sized}
HTTP/01.1|POST PATH HTTP/01.1¶Host: a¶{sized}
HTTP/0.9|GET PATH¶
space behind the version|POST PATH HTTP/1.1 ¶Host: a¶{sized}
space before the method| {line}{sized}
two spaces|POST  PATH HTTP/1.1¶Host: a¶{sized}
tabs|POST\tPATH\tHTTP/1.1¶Host: a¶{sized}
space in the target|POST PATH HTTP/1.1 HTTP/1.1¶Host: a¶{sized}
no slash|POST bill/destroy HTTP/1.1¶Host: a¶{sized}
CONNECT|CONNECT a:80 HTTP/1.1¶Host: a:80¶¶
CONNECT to a path|CONNECT PATH HTTP/1.1¶Host: a¶{sized}
an empty line before|¶{line}{sized}
`),
	edges(200, closes, `
bytes over the length|{start}{sized}GET
`),
	edges(400, closes, `
an unfinished header|{line}X-A: 
`),
	edges(417, closes, `
another expectation|{start}Expect: 200-ok¶{sized}
`),
	edges(400, closes, `
chunk size with a space before it|{start}{chunked} {chunks}
chunk size with a space behind it|{start}{chunked}HEX ¶BODY¶0¶¶
chunk size with 0x|{start}{chunked}0x{chunks}
chunk size with a sign|{start}{chunked}+{chunks}
negative chunk size|{start}{chunked}-1¶BODY¶0¶¶
chunk size with an underscore|{start}{chunked}0_{chunks}
chunk size that overflows|{start}{chunked}100000000000000{chunks}
chunk without a size|{start}{chunked}¶BODY¶0¶¶
extension without a size|{start}{chunked};a=b¶BODY¶0¶¶
longer chunk|{start}{chunked}2¶BODY¶0¶¶
two CR LF behind a chunk|{start}{chunked}HEX¶BODY¶¶0¶¶
no CR LF behind a chunk|{start}{chunked}HEX¶BODY0¶¶
LF behind a chunk size|{start}{chunked}HEX\nBODY¶0¶¶
LF behind a chunk|{start}{chunked}HEX¶BODY\n0¶¶
CR behind a chunk size|{start}{chunked}HEX\rBODY¶0¶¶
LF in an extension|{start}{chunked}HEX;a\nb¶BODY¶0¶¶
CR in an extension|{start}{chunked}HEX;a\rb¶BODY¶0¶¶
LF behind the last chunk|{start}{chunked}HEX¶BODY¶0\n¶
LF ends the trailer|{start}{chunked}HEX¶BODY¶0¶\n
folded trailer|{start}{chunked}HEX¶BODY¶0¶X-A: b¶ c¶¶
announced trailer of framing|{start}Trailer: Content-Length¶{chunked}HEX¶BODY¶0¶Content-Length: 1¶¶
no last chunk|{start}{chunked}HEX¶BODY¶
a request in place of the trailers|{start}{chunked}HEX¶BODY¶0¶
`),
	edges(400, halfClosed, `
length over the next request|{start}Content-Length: 9999¶¶BODY
chunk over the next request|{start}{chunked}ffff¶BODY
`),
	edges(413, closes, `
length over the limit|{start}Content-Length: 524289¶¶INNER
largest length|{start}Content-Length: 999999999999999999¶¶INNER
`),
)

// edgeWords fills the words of an edge in.
func edgeWords(path, body, inner string) *strings.Replacer {
	return strings.NewReplacer("PATH", path, "BODY", body, "ILEN", fmt.Sprint(len(inner)), "INNER", inner, "LEN", fmt.Sprint(len(body)), "HEX", fmt.Sprintf("%x", len(body)))
}

// TestR10_R11_R16_R18_R28_EdgesOfFraming sends each edge with the harmless request behind it, in one write and in two.
func TestR10_R11_R16_R18_R28_EdgesOfFraming(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		words := edgeWords(s.path, s.body, s.smuggled())
		for _, edge := range wireEdges {
			first := words.Replace(edge.text)
			streams := [][]string{{first + s.second()}}
			if edge.then == goesOn {
				streams = append(streams, []string{first, s.second()})
			}
			for _, parts := range streams {
				answers, _ := s.send(edge.name, edge.then == halfClosed, parts...)
				if len(answers) == 0 || answers[0].status != edge.status || isLast(answers) != (edge.then == goesOn) || len(answers) > 2 {
					s.t.Errorf("%s, %d writes: %+v", edge.name, len(parts), answers)
				}
			}
		}
	})
}

// TestR11_EdgesBehindARequest: whatever stands behind a good request in the same write, the good request is
// answered, and first.
func TestR11_EdgesBehindARequest(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		words := edgeWords(s.path, s.body, s.smuggled())
		for _, edge := range wireEdges {
			if edge.then == halfClosed { // a caller that closes its side cancels its requests
				continue
			}
			answers, _ := s.send(edge.name, false, s.request("before", s.body)+words.Replace(edge.text)+s.second())
			if len(answers) < 2 || answers[0].id != "before" || answers[0].status != 200 || answers[1].status != edge.status || isLast(answers) != (edge.then == goesOn) {
				s.t.Errorf("%s: %+v", edge.name, answers)
			}
		}
	})
}

// TestR11_MalformedBytesDoNotCancelTheRequestBeforeThem: old clients send one more CR LF behind a body. Their read
// is answered, and then the connection is closed.
func TestR11_MalformedBytesDoNotCancelTheRequestBeforeThem(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		s.upstream.hold = 50 * time.Millisecond
		s.path = strings.Replace(s.path, "destroy", "read", 1)
		for _, behind := range []string{"\r\n", "\n", "\x00\r\n", "GET / HTTP/1.1\nHost: a\n\n", "CONNECT a:80 HTTP/1.1\r\n\r\n", s.second() + "\r\n"} {
			answers, _ := s.send(fmt.Sprintf("%.20q", behind), false, s.request("before", s.body)+behind)
			if len(answers) < 2 || answers[0].status != 200 || answers[1].status != 400 && answers[1].status != 200 {
				s.t.Errorf("%.20q: %+v", behind, answers)
			}
		}
	})
}

// TestR11_R19_R20_R21_R28_HeadersOnKeptConnections sends each header of the corpus, and those by which proxies name
// the caller, as a header, as a token of Connection and as both, in several spellings. The upstream reads its bytes
// and accepts the gateway's own headers only.
func TestR11_R19_R20_R21_R28_HeadersOnKeptConnections(t *testing.T) {
	corpus := proxytest.ReadFile(t, "testdata/headers-hop-by-hop/standard_hop_by_hop.txt")
	names := strings.Fields(string(corpus) + `
X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Server X-Forwarded-Scheme X-Forwarded-Ssl
Forwarded X-Real-Ip X-Client-Ip X-Cluster-Client-Ip True-Client-Ip Cf-Connecting-Ip Fastly-Client-Ip X-Original-Url X-Rewrite-Url X-Original-Host X-Host
Authorization Cookie Via Range If-None-Match Idempotency-Key X-Idempotency-Key Content-Location X-Request-Id Content-Type User-Agent Accept Accept-Encoding
Host Content-Length`)
	onWireStages(t, func(s *wireStage) {
		for _, name := range names {
			underscored := strings.ReplaceAll(name, "-", "_")
			for _, spelled := range []string{name, strings.ToUpper(name), underscored, strings.ToLower(underscored)} {
				for how, lines := range map[string][]string{
					"as a token":  {"Connection: keep-alive, " + spelled},
					"as a header": {spelled + ": evil.example"},
					"as both":     {"Connection: keep-alive, " + spelled, spelled + ": evil.example"},
				} {
					status := 200
					if how != "as a token" && !strings.Contains(spelled, "_") {
						switch name { // these change what the request is
						case "Transfer-Encoding", "Content-Length", "Host":
							status = 400
						case "Content-Type":
							status = 415
						}
					}
					where := spelled + " " + how
					answers, _ := s.send(where, false, s.request("first", s.body, lines...)+s.second())
					if len(answers) == 0 || answers[0].status != status || isLast(answers) != (status != 400) {
						s.t.Errorf("%s: %+v", where, answers)
					}
				}
			}
		}
	})
}

// TestR12_AnswersBeforeTheBody: an answer that the gateway gives before it has read the body is followed by the
// answer to the next request, or by the end of the connection. The body consists of whole requests, and none of them
// is taken for one.
func TestR12_AnswersBeforeTheBody(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		for name, row := range map[string]struct {
			path   string // of the first request; that of a harmless one if it is empty
			lines  []string
			status int
		}{
			"path":    {"/none", nil, 404},
			"type":    {"", []string{"Content-Type: text/plain"}, 415},
			"coding":  {"", []string{"Content-Encoding: br"}, 415},
			"expects": {"/none", []string{"Expect: 100-continue"}, 404},
			"length":  {"", nil, 413},
		} {
			for _, size := range []int{1 << 10, 100 << 10, 300 << 10, 600 << 10, 2 << 20} {
				if name == "length" && size < 600<<10 {
					continue
				}
				body := strings.Repeat(s.smuggled(), size/len(s.smuggled())+1)
				first := func(request string) string {
					return strings.Replace(request, s.path, cmp.Or(row.path, s.path), 1)
				}
				whole, second := first(s.request("first", body, row.lines...)), s.second()
				for how, parts := range map[string][]string{
					"length":               {whole + second},
					"length, two writes":   {whole, second},
					"chunks":               {first(s.chunked("first", body, 1000, row.lines...)) + second},
					"first half, the rest": {whole[:len(whole)/2], whole[len(whole)/2:] + second},
					"ends in the body":     {strings.TrimSuffix(whole, s.body) + second + strings.Repeat(" ", len(s.body))},
				} {
					if how == "first half, the rest" && size < 600<<10 {
						continue // nothing is answered before the rest is there
					}
					where := fmt.Sprintf("%s, %d bytes, %s", name, size, how)
					answers, _ := s.send(where, how == "ends in the body", parts...)
					if len(answers) == 0 || answers[0].status != row.status || len(answers) > 2 || len(answers) == 2 && !isLast(answers) && answers[1].status != 400 {
						s.t.Errorf("%s: %+v", where, answers)
					}
					if name != "expects" && how == "length" && isLast(answers) != (size < 200<<10) {
						s.t.Errorf("%s: the next request was answered: %v", where, isLast(answers))
					}
				}
			}
		}
	})
}
