package console

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy"

	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

var update = flag.Bool("update", false, "rewrite testdata/playground.txt; review every line of the difference")

// What pages show and do, as the files of testdata/pages have it. A test is a line "== name" and calls, one a line: "get PATH"
// and "post PATH FORM" must be answered with 200 and 303, or another status, as in "get:404 PATH"; {hidden} in a form are the
// hidden fields of the last page, {kept} those of the page before "keep", and {many} the partners of "many". Below: "+ TEXT" is on the page and "- TEXT" is not, "to PATH" is where a post leads, "count N
// TEXT" is how often the page has a text, "order A | B" is the order of two texts, and "row KEY" looks at the row of a partner alone. {key} is the short ID of a partner.
// The other calls are those of desk.make and stored.make. No page has a script of a caller.
func TestPages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/pages/*.txt")
	if must(t, err); len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		for _, test := range strings.Split("\n"+string(proxytest.ReadFile(t, file)), "\n== ")[1:] {
			name, lines, _ := strings.Cut(test, "\n")
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := &script{t: t}
				if strings.HasSuffix(file, "stored.txt") {
					s := newStored(t)
					p.handler, p.make = s, s.make
				} else {
					d := newRolloutDesk(t)
					p.handler, p.make = d, d.make
				}
				for line := range strings.Lines(lines) {
					if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
						p.line(line)
					}
				}
			})
		}
	}
}

// A script is one test of TestPages.
type script struct {
	t        *testing.T
	handler  http.Handler
	make     func(words []string) (shown string)
	language string
	kept     string
	many     string // what the last call that was no request has shown
	page     string // the last page
	location string
}

var keyInBraces = regexp.MustCompile(`\{(\w+)\}`)

func (p *script) line(line string) {
	line = keyInBraces.ReplaceAllStringFunc(line, func(key string) string {
		switch key {
		case "{hidden}":
			return hidden(p.page).Encode()
		case "{kept}":
			return p.kept
		case "{many}":
			return url.QueryEscape(p.many)
		}
		return partner.ShortOf(key[1 : len(key)-1])
	})
	command, rest, _ := strings.Cut(line, " ")
	verb, status, is := strings.Cut(command, ":")
	switch verb {
	case "get", "post", "put", "delete", "head":
		if !is {
			status = map[string]string{"get": "200", "post": "303"}[verb]
		}
		p.ask(verb, rest, status)
	case "+":
		has(p.t, p.page, rest, line)
	case "-":
		lacks(p.t, p.page, rest, line)
	case "to":
		equal(p.t, p.location, rest, "where it leads")
	case "count":
		n, text, _ := strings.Cut(rest, " ")
		equal(p.t, fmt.Sprint(strings.Count(p.page, text)), n, text, p.page)
	case "order":
		before, after, _ := strings.Cut(rest, " | ")
		if first := strings.Index(p.page, before); first < 0 || first > strings.Index(p.page, after) {
			p.t.Errorf("%s: not in this order", rest)
		}
	case "keep":
		p.kept = hidden(p.page).Encode()
	case "lang":
		p.language = rest
	default:
		p.many = p.make(strings.Fields(line))
		p.page = p.many
	}
}

func (p *script) ask(method, rest, status string) {
	target, form, _ := strings.Cut(rest, " ")
	r := httptest.NewRequestWithContext(p.t.Context(), strings.ToUpper(method), target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept-Language", p.language)
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	p.page, p.location = w.Body.String(), w.Header().Get("Location")
	equal(p.t, strconv.Itoa(w.Code), status, method, rest, p.page)
	for _, bad := range []string{"<script>", "<b>Clinic", "secret-key"} {
		lacks(p.t, p.page, bad, rest)
	}
}

// make makes a call of a script that is no request: "seen KEY AGO", "many N PREFIX" partners that are seen, "prove KEY" and
// "fail KEY" give its reads a PASS and a FAIL, "stage KEY STAGE" expects a stage, "visitor NAME operate", "down" ends the
// store, "stop" is the kill switch, "runs PAGE TEXT" makes the steps of waves until the page has the text, and "audit" shows
// the audit log.
func (d *rolloutDesk) make(words []string) (shown string) {
	switch words[0] {
	case "seen":
		ago, err := time.ParseDuration(words[2])
		must(d.t, err)
		d.seen(words[1], ago)
	case "many":
		n, _ := strconv.Atoi(words[1])
		for i := range n {
			d.seen(fmt.Sprint(words[2], i), 2*time.Hour)
			shown += partner.ShortOf(fmt.Sprint(words[2], i)) + "\n"
		}
	case "prove":
		d.prove(words[1])
	case "fail":
		d.fail(words[1])
	case "stage":
		equal(d.t, d.stage(words[1]), strings.Join(words[2:], " "), words)
	case "visitor":
		d.visitor = pages.Visitor{Name: strings.TrimPrefix(words[1], "-"), MayOperate: len(words) > 2}
	case "down":
		must(d.t, d.store.Close())
	case "stop":
		d.Operator.Stop(d.t.Context(), operate.Switch{Decision: operate.Decision{Author: operate.Author{By: "anna"}}})
	case "gateway":
		d.Gateway = stubGateway{config: d.Config()}
	case "runs":
		d.runs(words[1], strings.Join(words[2:], " "))
	case "audit":
		log, err := d.Operator.Audit(d.t.Context(), operate.AuditPage{By: "anna"})
		must(d.t, err)
		for _, c := range log {
			shown += fmt.Sprintf("%s %s %.12s%s %s→%s forced %t\n", c.By, c.Action, c.Partner, c.Subject, c.From, c.To, c.Forced)
		}
	default:
		d.t.Fatalf("no such call: %s", words)
	}
	return shown
}

// make makes a call of a script that is no request: "add KEY BILL STATE AGE" adds a callback, "unknown KEY BILL REQUEST" a write
// with an unknown outcome, and "ended KEY BILL OPERATION STATUS unknown" a call; the bill hostile is a script. "again ID
// NEW" adds a callback once more, with a third word as another one in that order; "answered N" are attempts that the partner
// answers without a success, "missing BILL WHY" a callback that may be lost,
// and "reads STATE AMOUNT" what backends show. "state ID STATE"
// expects the state of a callback, "gauges" counts as the gateway does from time to time, "down" ends the store, and "audit"
// shows the audit log.
func (s *stored) make(words []string) (shown string) {
	switch words[0] {
	case "add":
		age, err := time.ParseDuration(words[4])
		must(s.t, err)
		s.add(words[1], strings.ReplaceAll(words[2], "hostile", hostile), store.State(words[3]), age)
	case "unknown":
		s.unknown(words[1], strings.ReplaceAll(words[2], "hostile", hostile), words[3])
	case "again":
		c, err := s.store.Get(s.t.Context(), words[1])
		must(s.t, err)
		if c.ID, c.Received = words[2], s.now; len(words) > 3 {
			c.Order, c.Digest = words[3], [32]byte{1}
		}
		works(s.t)(s.store.Accept(s.t.Context(), c, 25*time.Hour))
	case "answered":
		n, _ := strconv.Atoi(words[1])
		for range n {
			claimed, err := s.store.Claim(s.t.Context(), s.now, time.Minute, 1, 1, 1, nil)
			must(s.t, err)
			works(s.t)(s.store.Finish(s.t.Context(), claimed[0], store.Result{
				At: s.now, Status: 201, Outcome: "answer", State: store.Waiting, Next: s.now,
			}))
		}
	case "missing":
		a := store.Address{
			ID: words[1], Upstream: "old", Operation: "bill.create", Partner: partner.Of("one"),
			Bill: strings.ReplaceAll(words[1], "hostile", hostile), Form: "v2", URL: "http://127.0.0.1:1/",
			Created: s.now, Look: s.now,
		}
		must(s.t, s.store.Prove(s.t.Context(), a.Partner))
		works(s.t)(s.store.Bind(s.t.Context(), a))
		r, err := s.store.ClaimRead(s.t.Context(), a.Partner, store.Due{Looks: s.now}, s.now)
		must(s.t, err)
		l := r.Looks[0]
		l.Shown, l.Since, l.Missing = "paid", s.now, s.now
		l.Why = strings.ReplaceAll(strings.Join(words[2:], ""), "hostile", hostile)
		must(s.t, s.store.EndLook(s.t.Context(), l, time.Time{}))
	case "reads":
		s.operator.ReadBill = func(
			_ context.Context, upstream string, as routing.Credentials, _ string,
		) (routing.BackendBill, routing.Credentials) {
			as.Key = "one"
			return routing.BackendBill{
				Upstream: upstream, Result: "has it", State: words[1], Amount: words[2] + hostile, Code: "0000",
			}, as
		}
	case "state":
		c, err := s.store.Get(s.t.Context(), words[1])
		equal(s.t, string(c.State), words[2], words, err)
	case "ended":
		status, _ := strconv.Atoi(words[4])
		s.Finished(&proxy.Finished{
			Times: proxy.Times{At: s.now},
			Subject: proxy.Subject{
				Partner: partner.Of(words[1])[:12], Bill: strings.ReplaceAll(words[2], "hostile", hostile), Operation: words[3],
			},
			Destination: proxy.Destination{Upstream: "old"}, Status: status, Unknown: len(words) > 5,
		})
	case "gauges":
		must(s.t, s.store.Prove(s.t.Context(), partner.Of("one")))
		must(s.t, s.operator.Rollout.SetGauges(s.t.Context()))
	case "down":
		must(s.t, s.store.Close())
	case "audit":
		log, err := s.store.Audit(s.t.Context(), store.AuditFilter{Limit: 10})
		must(s.t, err)
		for _, c := range log {
			shown += strings.TrimSpace(fmt.Sprintln(c.By, c.Action, c.Subject, c.Reason)) + "\n"
		}
	default:
		s.t.Fatalf("no such call: %s", words)
	}
	return shown
}
