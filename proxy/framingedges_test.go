package proxy_test

import (
	"cmp"
	_ "embed"
	"fmt"
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

//go:embed testdata/edges.txt
var edgesText string

// wireEdges are requests that two servers could read in two ways, and their harmless neighbours. A line of the file begins
// those whose first answer has a status, and says what becomes of the second request: it goesOn, or the gateway closes, or
// the first is incomplete, and the caller is halfClosed after the second. The others have a name and a text, in which ¶ is
// CR LF, and words in braces stand for what many have.
var wireEdges = func() (all []wireEdge) {
	words := strings.NewReplacer("¶", "\r\n", "{line}", "POST PATH HTTP/1.1\r\nHost: a\r\n",
		"{start}", "POST PATH HTTP/1.1\r\nHost: a\r\nX-Request-Id: first\r\n", "{sized}", "Content-Length: LEN\r\n\r\nBODY",
		"{inside}", "Content-Length: ILEN\r\n\r\nINNER", "{chunked}", "Transfer-Encoding: chunked\r\n\r\n", "{chunks}", "HEX\r\nBODY\r\n0\r\n\r\n")
	var of wireEdge
	for line := range strings.Lines(edgesText) {
		if n, _ := fmt.Sscanf(line, "== %d %s\n", &of.status, &of.then); n > 0 {
			continue
		}
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
		if err != nil {
			panic(name)
		}
		all = append(all, wireEdge{name, words.Replace(text), of.status, of.then})
	}
	return all
}()

// edgeWords fills the words of an edge in.
func edgeWords(path, body, inner string) *strings.Replacer {
	return strings.NewReplacer("PATH", path, "BODY", body, "ILEN", fmt.Sprint(len(inner)), "INNER", inner, "LEN", fmt.Sprint(len(body)), "HEX", fmt.Sprintf("%x", len(body)))
}

// TestR09_R10_R11_R16_R18_R28_EdgesOfFraming sends each edge with the harmless request behind it, in one write and in two, and
// behind a good request, which is answered first whatever follows.
func TestR09_R10_R11_R16_R18_R28_EdgesOfFraming(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		words, before := edgeWords(s.path, s.body, s.smuggled()), s.request("before", s.body)
		for _, edge := range wireEdges {
			first := words.Replace(edge.text)
			streams := [][]string{{first + s.second()}}
			if edge.then == "goesOn" {
				streams = append(streams, []string{first, s.second()})
			}
			if edge.then != "halfClosed" { // a caller that closes its side cancels its requests
				streams = append(streams, []string{before + first + s.second()})
			}
			for _, parts := range streams {
				answers, _ := s.send(edge.name, edge.then == "halfClosed", parts...)
				if strings.HasPrefix(parts[0], before) && len(answers) > 0 {
					equal(s.t, fmt.Sprint(answers[0].id, answers[0].status), "before200", edge.name)
					answers = answers[1:]
				}
				if len(answers) == 0 || answers[0].status != edge.status || isLast(answers) != (edge.then == "goesOn") || len(answers) > 2 {
					s.t.Errorf("%s, %q: %+v", edge.name, parts, answers)
				}
			}
		}
		checkText(s.t, s.gateway.metrics(), `billbridge_framing_refused_total{reason="length_and_encoding"} `, `!{reason="length_and_encoding"} 0`)
		checkText(s.t, s.gateway.logs.String(), `"reason":"length_and_encoding","peer":"127.0.0.1:`)
	})
}

// TestR11_MalformedBytesDoNotCancelTheRequestBeforeThem: a read is answered whatever stands behind its body, and then the
// connection is closed.
func TestR11_MalformedBytesDoNotCancelTheRequestBeforeThem(t *testing.T) {
	onWireStages(t, func(s *wireStage) {
		s.upstream.hold = 50 * time.Millisecond
		s.path = strings.Replace(s.path, "destroy", "read", 1)
		for _, behind := range []string{"\r\n\r\n", "\n", "\x00\r\n", "GET / HTTP/1.1\nHost: a\n\n", "CONNECT a:80 HTTP/1.1\r\n\r\n", s.second() + "\r\n"} {
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
