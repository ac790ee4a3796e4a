package proxy_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// A wireEdge is a first request at the edges of RFC 9112. In its text, PATH and BODY are those of a harmless request, LEN and HEX the
// length of BODY, INNER is a whole request that stands in a body, and ILEN its length.
type wireEdge struct {
	name, text string
	status     int  // of the first answer; 0 if there is no answer to a first request
	goesOn     bool // the second request is answered
	halfClose  bool // the first request is incomplete, and the caller ends its side after the second
}

const wireStart = "POST PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\n"

// wireEdges are requests that two servers could read in two ways, and their harmless neighbours.
var wireEdges = []wireEdge{
	// Taken.
	{name: "length", text: wireStart + "Content-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "length with zeros before it", text: wireStart + "Content-Length: 000LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "length between spaces and tabs", text: wireStart + "Content-Length: \t LEN \t\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "length without a space", text: wireStart + "content-length:LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "length, and names that look like it", text: wireStart + "Content_Length: 1\r\nContent-Length-: 2\r\nX-Content-Length: 3\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "encoding, and names that look like it", text: wireStart + "Transfer_Encoding: chunked\r\nTE: chunked\r\nX-Transfer-Encoding: chunked\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "chunks", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 200, goesOn: true},
	{name: "chunks in capitals", text: wireStart + "TRANSFER-ENCODING: CHUNKED\r\n\r\n00HEX\r\nBODY\r\n000\r\n\r\n", status: 200, goesOn: true},
	{name: "chunk extensions", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX;a=b;c=\"d;e\"\r\nBODY\r\n0;f\r\n\r\n", status: 200, goesOn: true},
	{name: "trailers with names of framing", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nX-Request-Id: smuggled\r\nHost: b\r\nContent-Encoding: gzip\r\n\r\n", status: 200, goesOn: true},
	{name: "absolute target of another host", text: "POST http://evil.examplePATH HTTP/1.1\r\nHost: evil.example\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "absolute target, and another Host", text: "POST http://evil.examplePATH HTTP/1.1\r\nHost: b\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "query with a space as +", text: "POST PATH?a=b+c%0d%0aX:1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "doubled slash", text: "POST /PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "waits for 100", text: wireStart + "Expect: 100-continue\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "tokens of our headers", text: wireStart + "Connection: keep-alive, X-Request-Id, Content-Length, Content-Type, Host\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "upgrade to h2c", text: wireStart + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "upgrade to websocket", text: wireStart + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "idempotency keys", text: wireStart + "Idempotency-Key: a\r\nX-Idempotency-Key: b\r\nX-Http-Method-Override: DELETE\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "identity", text: wireStart + "Content-Encoding: identity\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "bytes over 127 in a header", text: wireStart + "X-A: \xff\xfe\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "empty Host", text: "POST PATH HTTP/1.1\r\nHost:\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "HTTP/1.0 that keeps the connection", text: "POST PATH HTTP/1.0\r\nConnection: keep-alive\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "HTTP/1.0", text: "POST PATH HTTP/1.0\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 200},
	{name: "closes", text: wireStart + "Connection: close\r\nContent-Length: LEN\r\n\r\nBODY", status: 200},
	{name: "closes, among tokens", text: wireStart + "Connection: x-a\r\nConnection: keep-alive, CLOSE\r\nContent-Length: LEN\r\n\r\nBODY", status: 200},
	{name: "an id that is not safe", text: "POST PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: a b\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},
	{name: "two ids", text: wireStart + "X-Request-Id: smuggled\r\nContent-Length: LEN\r\n\r\nBODY", status: 200, goesOn: true},

	// Refused after the whole request was read.
	{name: "no body", text: wireStart + "\r\n", status: 400, goesOn: true},
	{name: "length zero", text: wireStart + "Content-Length: 0\r\n\r\n", status: 400, goesOn: true},
	{name: "no chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 400, goesOn: true},
	{name: "a request as the body", text: wireStart + "Content-Length: ILEN\r\n\r\nINNER", status: 400, goesOn: true},
	{name: "another path", text: "POST /smuggled HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: ILEN\r\n\r\nINNER", status: 404, goesOn: true},
	{name: "root", text: "POST / HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: ILEN\r\n\r\nINNER", status: 404, goesOn: true},
	{name: "path with an escaped slash", text: "POST PATH%2f HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 404, goesOn: true},
	{name: "path with dots", text: "POST /x/..PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 404, goesOn: true},
	{name: "path with a fragment", text: "POST PATH#a HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 404, goesOn: true},
	{name: "GET with a body", text: "GET PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: ILEN\r\n\r\nINNER", status: 405, goesOn: true},
	{name: "method in small letters", text: "post PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\nContent-Length: ILEN\r\n\r\nINNER", status: 405, goesOn: true},
	{name: "content coding", text: wireStart + "Content-Encoding: gzip\r\nContent-Length: ILEN\r\n\r\nINNER", status: 415, goesOn: true},
	{name: "two content types", text: wireStart + "Content-Type: application/json\r\nContent-Type: application/json\r\nContent-Length: ILEN\r\n\r\nINNER", status: 415, goesOn: true},
	{name: "another content type", text: wireStart + "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: 415, goesOn: true},

	// Refused, and the connection is closed.
	{name: "two equal lengths", text: wireStart + "Content-Length: LEN\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "two lengths", text: wireStart + "Content-Length: 0\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "two lengths in one line", text: wireStart + "Content-Length: LEN, LEN\r\n\r\nBODY", status: 400},
	{name: "length with a sign", text: wireStart + "Content-Length: +LEN\r\n\r\nBODY", status: 400},
	{name: "negative length", text: wireStart + "Content-Length: -1\r\n\r\nBODY", status: 400},
	{name: "length with a fraction", text: wireStart + "Content-Length: LEN.0\r\n\r\nBODY", status: 400},
	{name: "length in hexadecimal", text: wireStart + "Content-Length: 0xHEX\r\n\r\nBODY", status: 400},
	{name: "length that overflows", text: wireStart + "Content-Length: 18446744073709551620\r\n\r\nBODY", status: 400},
	{name: "length in other digits", text: wireStart + "Content-Length: ５\r\n\r\nBODY", status: 400},
	{name: "empty length", text: wireStart + "Content-Length:\r\n\r\nBODY", status: 400},
	{name: "space before the colon of the length", text: wireStart + "Content-Length : LEN\r\n\r\nBODY", status: 400},
	{name: "length and encoding", text: wireStart + "Content-Length: LEN\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nINNER", status: 400},
	{name: "encoding and length", text: wireStart + "Transfer-Encoding: chunked\r\nContent-Length: LEN\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "length zero and encoding", text: wireStart + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding twice", text: wireStart + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding chunked, identity", text: wireStart + "Transfer-Encoding: chunked, identity\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding gzip, chunked", text: wireStart + "Transfer-Encoding: gzip, chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding identity", text: wireStart + "Transfer-Encoding: identity\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "encoding xchunked", text: wireStart + "Transfer-Encoding: xchunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding in quotes", text: wireStart + "Transfer-Encoding: \"chunked\"\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding with a vertical tab", text: wireStart + "Transfer-Encoding: \x0bchunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "encoding with a parameter", text: wireStart + "Transfer-Encoding: chunked;q=1\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "empty encoding", text: wireStart + "Transfer-Encoding:\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "encoding with a long s", text: wireStart + "Tranſfer-Encoding: chunked\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "space before the colon of the encoding", text: wireStart + "Transfer-Encoding : chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "space before the name", text: wireStart + " Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "folded encoding", text: wireStart + "Transfer-Encoding:\r\n chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "folded header", text: wireStart + "X-A: b\r\n\tContent-Length: 1\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "encoding in HTTP/1.0", text: "POST PATH HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "LF ends the lines", text: "POST PATH HTTP/1.1\nHost: a\nContent-Length: LEN\n\nBODY", status: 400},
	{name: "LF ends one line", text: wireStart + "X-A: b\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "LF ends the head", text: wireStart + "Content-Length: LEN\r\n\nBODY", status: 400},
	{name: "CR ends a line", text: wireStart + "X-A: b\rContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "two CR", text: wireStart + "Content-Length: LEN\r\r\n\r\nBODY", status: 400},
	{name: "NUL in a header", text: wireStart + "X-A: \x00\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "NUL in a name", text: wireStart + "X\x00A: b\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "no colon", text: wireStart + "X-A\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "empty name", text: wireStart + ": b\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "name in brackets", text: wireStart + "[Content-Length]: 1\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "no Host", text: "POST PATH HTTP/1.1\r\nX-Request-Id: first\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "two Hosts", text: wireStart + "Host: b\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "Host with a space", text: "POST PATH HTTP/1.1\r\nHost: a b\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "HTTP/1.2", text: "POST PATH HTTP/1.2\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "HTTP/2.0", text: "POST PATH HTTP/2.0\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "preface of HTTP/2", text: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: 400},
	{name: "http/1.1", text: "POST PATH http/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "HTTP/01.1", text: "POST PATH HTTP/01.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "HTTP/0.9", text: "GET PATH\r\n", status: 400},
	{name: "space behind the version", text: "POST PATH HTTP/1.1 \r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "space before the method", text: " POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "two spaces", text: "POST  PATH HTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "tabs", text: "POST\tPATH\tHTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "space in the target", text: "POST PATH HTTP/1.1 HTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "no slash", text: "POST bill/destroy HTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "CONNECT", text: "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", status: 400},
	{name: "CONNECT to a path", text: "CONNECT PATH HTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "an empty line before", text: "\r\nPOST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: LEN\r\n\r\nBODY", status: 400},
	{name: "bytes over the length", text: wireStart + "Content-Length: LEN\r\n\r\nBODYGET", status: 200}, // what follows is no request
	{name: "an unfinished header", text: "POST PATH HTTP/1.1\r\nHost: a\r\nX-A: ", status: 400},
	{name: "another expectation", text: wireStart + "Expect: 200-ok\r\nContent-Length: LEN\r\n\r\nBODY", status: 417},

	// Bad chunks.
	{name: "chunk size with a space before it", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n HEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "chunk size with a space behind it", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX \r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "chunk size with 0x", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n0xHEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "chunk size with a sign", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n+HEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "negative chunk size", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n-1\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "chunk size with an underscore", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n0_HEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "chunk size that overflows", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n100000000000000HEX\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "chunk without a size", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "extension without a size", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n;a=b\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "longer chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\n2\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "two CR LF behind a chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n\r\n0\r\n\r\n", status: 400},
	{name: "no CR LF behind a chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY0\r\n\r\n", status: 400},
	{name: "LF behind a chunk size", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "LF behind a chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\n0\r\n\r\n", status: 400},
	{name: "CR behind a chunk size", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\rBODY\r\n0\r\n\r\n", status: 400},
	{name: "LF in an extension", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX;a\nb\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "CR in an extension", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX;a\rb\r\nBODY\r\n0\r\n\r\n", status: 400},
	{name: "LF behind the last chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\n\r\n", status: 400},
	{name: "LF ends the trailer", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\n", status: 400},
	{name: "folded trailer", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\nX-A: b\r\n c\r\n\r\n", status: 400},
	{name: "announced trailer of framing", text: wireStart + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\nContent-Length: 1\r\n\r\n", status: 400},
	{name: "no last chunk", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n", status: 400},
	{name: "a request in place of the trailers", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n", status: 400},

	// The second request is a part of the first one.
	{name: "length over the next request", text: wireStart + "Content-Length: 9999\r\n\r\nBODY", status: 400, halfClose: true},
	{name: "chunk over the next request", text: wireStart + "Transfer-Encoding: chunked\r\n\r\nffff\r\nBODY", status: 400, halfClose: true},
	{name: "length over the limit", text: wireStart + "Content-Length: 524289\r\n\r\nINNER", status: 413},
	{name: "largest length", text: wireStart + "Content-Length: 999999999999999999\r\n\r\nINNER", status: 413},
}

// edgeWords fills the words of an edge in.
func edgeWords(path, body, inner string) *strings.Replacer {
	return strings.NewReplacer("PATH", path, "BODY", body, "ILEN", fmt.Sprint(len(inner)), "INNER", inner, "LEN", fmt.Sprint(len(body)), "HEX", fmt.Sprintf("%x", len(body)))
}

// TestR11_EdgesOfFraming sends each edge with the harmless request behind it, in one write and in two.
func TestR11_EdgesOfFraming(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		words := edgeWords(s.path, s.body, s.smuggled())
		for _, edge := range wireEdges {
			first := words.Replace(edge.text)
			streams := [][]string{{first + s.second()}}
			if edge.goesOn {
				streams = append(streams, []string{first, s.second()})
			}
			for _, parts := range streams {
				answers, _ := s.send(edge.name, edge.halfClose, parts...)
				if len(answers) == 0 || answers[0].status != edge.status || isLast(answers) != edge.goesOn || len(answers) > 2 {
					s.t.Errorf("%s, %d writes: %+v", edge.name, len(parts), answers)
				}
			}
		}
	})
}

// TestR11_EdgesBehindARequest: whatever stands behind a good request in the same write, the good request is answered, and first.
func TestR11_EdgesBehindARequest(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		words := edgeWords(s.path, s.body, s.smuggled())
		for _, edge := range wireEdges {
			if edge.halfClose { // a caller that closes its side cancels its requests
				continue
			}
			answers, _ := s.send(edge.name, false, s.request("before", s.body)+words.Replace(edge.text)+s.second())
			if len(answers) < 2 || answers[0].id != "before" || answers[0].status != 200 || answers[1].status != edge.status || isLast(answers) != edge.goesOn {
				s.t.Errorf("%s: %+v", edge.name, answers)
			}
		}
	})
}

// TestR11_MalformedBytesDoNotCancelTheRequestBeforeThem: old clients send one more CR LF behind a body. Their read is answered, and then
// the connection is closed.
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

// TestR11_R19_R20_HeadersOnKeptConnections sends each header of the corpus, and those by which proxies name the caller, as a header, as
// a token of Connection and as both, in several spellings. The upstream reads its bytes and accepts the gateway's own headers only.
func TestR11_R19_R20_HeadersOnKeptConnections(t *testing.T) {
	corpus := proxytest.ReadFile(t, "testdata/headers-hop-by-hop/standard_hop_by_hop.txt")
	names := append(strings.Fields(string(corpus)),
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-Scheme", "X-Forwarded-Ssl",
		"Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "X-Original-Url", "X-Rewrite-Url", "X-Original-Host", "X-Host",
		"Authorization", "Cookie", "Via", "Range", "If-None-Match", "Idempotency-Key", "X-Idempotency-Key", "Content-Location", "X-Request-Id", "Content-Type", "User-Agent", "Accept", "Accept-Encoding",
		"Host", "Content-Length")
	onWireStages(t, func(s *wireStage) {
		for _, name := range names {
			for _, spelled := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ToLower(strings.ReplaceAll(name, "-", "_"))} {
				underscored := strings.Contains(spelled, "_")
				for how, lines := range map[string][]string{
					"as a token":  {"Connection: keep-alive, " + spelled},
					"as a header": {spelled + ": evil.example"},
					"as both":     {"Connection: keep-alive, " + spelled, spelled + ": evil.example"},
				} {
					status, goesOn := 200, true
					if how != "as a token" && !underscored {
						switch name { // these change what the request is
						case "Transfer-Encoding", "Content-Length", "Host":
							status, goesOn = 400, false
						case "Content-Type":
							status = 415
						}
					}
					where := spelled + " " + how
					answers, _ := s.send(where, false, s.request("first", s.body, lines...)+s.second())
					if len(answers) == 0 || answers[0].status != status || isLast(answers) != goesOn {
						s.t.Errorf("%s: %+v", where, answers)
					}
				}
			}
		}
	})
}

// TestR12_AnswersBeforeTheBody: an answer that the gateway gives before it has read the body is followed by the answer to the next
// request, or by the end of the connection. The body consists of whole requests, and none of them is taken for one.
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
