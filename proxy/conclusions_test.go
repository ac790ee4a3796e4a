package proxy_test

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// A partner's program is told by an answer what to do next. These are its conclusions, the best first.
const (
	done     = "done"
	again    = "tries again"         // with the same id: nothing is doubled
	reads    = "reads the bill"      // and then decides
	closed   = "closes the bill"     // it does not exist any more
	moves    = "uses legacy"         // and sends the call there
	refuses  = "refused"             // with the code: the user corrects it
	fails    = "failed"              // the user may bill again, with a new id
	never    = "fails for ever"      // with a bill that was sent
	noValue  = "cannot read a value" // a typed program
	stops    = "stops"               // a person looks at it
	nextStep = "goes on"             // with the next step of its job, such as a new bill after a destroy
)

// A reply is what a program gets, after how long.
type reply struct {
	err    error
	status int
	doc    map[string]any // nil if the body is not a JSON object
	took   time.Duration
}

// code returns the code as a program reads it; a legacy read may have none.
func (r reply) code() string {
	code, has := r.doc["code"]
	if _, bare := r.doc["appr_state"]; bare && !has {
		return "0000"
	}
	text, _ := code.(string)
	return text
}

// data returns the fields of the reply.
func (r reply) data() map[string]any {
	if data, ok := r.doc["data"].(map[string]any); ok {
		return data
	}
	return r.doc
}

// A habit is how programs judge a reply. The habits were seen in public programs (fifteen, November 2026).
type habit struct {
	name   string
	about  string
	waits  time.Duration                   // for a reply; 0 for ever
	judges func(op string, r reply) string // "": as byCode; if nil, each reply is so
}

// byCode is the habit that the others vary: the body alone counts.
func byCode(r reply) string {
	switch code := r.code(); {
	case r.err != nil, code == "":
		return fails
	case code == "0000":
		return done
	default:
		return refuses + " " + code
	}
}

var habits = []habit{
	{"code alone", "the code of the body counts, whatever the status is; a reply without a code has failed", 0, nil},
	{"careful", "a call without a code has an unknown outcome", 0, func(_ string, r reply) string {
		return when(r.err != nil || r.doc == nil || r.code() == "", reads)
	}},
	{"4xx is final", "HTTP 4xx has failed for good, before the body is read", 0, func(_ string, r reply) string {
		return when(r.err == nil && r.status/100 == 4, fails)
	}},
	{"2xx only", "its HTTP library throws on any other status", 0, func(_ string, r reply) string {
		return when(r.status/100 != 2, fails)
	}},
	{"maintenance is retried", "MAINTAINED_METHOD is tried again", 0, func(_ string, r reply) string {
		return when(r.code() == "MAINTAINED_METHOD", again)
	}},
	{"needs a link", "a create without a link has failed for ever", 0, func(op string, r reply) string {
		link, _ := cmp.Or(r.data()["shortUrl"], r.data()["shortURL"]).(string)
		return when(op == "create" && byCode(r) == done && link == "", never)
	}},
	{"9980 closes", "9980 of any call but a create closes the bill", 0, func(op string, r reply) string {
		return when(r.code() == "9980" && op != "create", closed)
	}},
	{"falls back", "after HTTP 403, 404 and 405 it uses the legacy form", 0, func(_ string, r reply) string {
		return when(r.status == 403 || r.status == 404 || r.status == 405, moves)
	}},
	{"typed", "text and numbers must have the documented type", 0, func(_ string, r reply) string {
		wrong := wrongType(r.data())
		return when(byCode(r) == done && wrong != "", noValue+" "+wrong)
	}},
	{"paid if a method is there", "it stores the method of payment of every read", 0, func(op string, r reply) string {
		method := cmp.Or(r.data()["apprPayType"], r.data()["appr_pay_type"])
		return when(op == "read" && method != nil && method != "" && r.code() == "0000", fmt.Sprintf("stores method %v", method))
	}},
	{"cuts texts at 180", "it stores 180 characters of a text, and nobody sees the rest", 0, func(_ string, r reply) string {
		text, _ := cmp.Or(r.doc["message"], r.doc["msg"]).(string)
		return when(utf8.RuneCountInString(text) > 180, byCode(r)+", and the text is cut")
	}},
	{"an exception stops it", "a body that is not JSON is an exception, which stops its job; after a code the job goes on", 0, func(_ string, r reply) string {
		return cmp.Or(when(r.err != nil || r.doc == nil, stops), when(r.code() == "MAINTAINED_METHOD", nextStep))
	}},
	{"waits 2 s", "as *code alone*, and it gives up after 2 s", 2 * time.Second, nil},
	{"waits 15 s", "as *code alone*, and it gives up after 15 s", 15 * time.Second, nil},
	{"waits 30 s", "as *code alone*, and it gives up after 30 s", 30 * time.Second, nil},
}

// wrongType returns the first field whose JSON type is not the documented one of its form: numbers of v2, text otherwise.
func wrongType(data map[string]any) string {
	numbers := []string{"price", "apprPayType", "apprDt", "apprOriginDt"}
	var wrong []string
	for name, v := range data {
		_, number := v.(json.Number)
		if _, text := v.(string); v != nil && name != "data" && (slices.Contains(numbers, name) && !number || !slices.Contains(numbers, name) && !text) {
			wrong = append(wrong, name)
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, ", ")
}

// A situation is one call, and what happens to it at the backend.
type situation struct {
	Name    string
	Before  string        // the bill is "created" or "paid" already
	Fault   sandbox.Fault // of this call
	Takes   int           // seconds until the reply begins
	Down    bool          // nothing listens at the backend's address
	Limited bool          // the partner has used up its limit at the gateway; a backend has none
	Change  map[string]string
	Because string // why a conclusion differs; it must be there if one does
}

// op is the operation of the call: the first word of the name.
func (s situation) op() string { return regexp.MustCompile(`^\w+`).FindString(s.Name) }

//go:embed testdata/situations.yaml
var situations []byte

// inMemory serves a handler without sockets, so that time in a bubble of synctest goes on while everybody waits.
func inMemory(t *testing.T, handler http.Handler) (dial func(context.Context, string, string) (net.Conn, error)) {
	t.Helper()
	listener := pipeListener{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case listener.dialed <- theirs:
			return ours, nil
		case <-listener.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type pipeListener struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error { close(l.closed); return nil }

func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// ask makes a call as a program does that waits for a time.
func ask(dial func(context.Context, string, string) (net.Conn, error), q call, waits time.Duration) (r reply) {
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	client := &http.Client{Transport: transport, Timeout: waits}
	res, err := client.Post("http://billing.example.com"+q.path(), "application/json", strings.NewReader(q.body()))
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	r.status = res.StatusCode
	d := json.NewDecoder(res.Body)
	d.UseNumber()
	if err := d.Decode(&r.doc); err != nil {
		r.doc = nil
	}
	return r
}

// replies returns what a program of a form that waits for a time gets in a situation: directly, and through a gateway
// whose backend has the other form.
func replies(t *testing.T, c *config.Config, form string, s situation, waits time.Duration) (directly, bridged reply) {
	t.Helper()
	get := func(through bool) (got reply) {
		synctest.Test(t, func(t *testing.T) {
			service := newService(func(o *sandbox.Options) { o.LegacyCodes = map[string]string{"BILL_001": "9800", "BILL_003": "9980"} })
			at := inMemory(t, service)
			if s.Before != "" {
				equal(t, ask(at, newCall(form, "create"), 0).code(), "0000")
			}
			if s.Before == "paid" {
				must(t, service.Pay(demoKey, demoBill))
			}
			s.Fault.Operation, s.Fault.Delay = "bill."+s.op(), time.Duration(s.Takes)*time.Second
			service.Fault(s.Fault)
			if s.Down {
				at = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
			}
			q := newCall(form, s.op())
			for name, value := range s.Change {
				q = q.with(name, value)
			}
			if through {
				c := *c
				if s.Limited {
					c.Limits.Partner.Rate = 1
				}
				g, err := proxy.New(&c, proxy.Options{})
				must(t, err)
				defer g.Close()
				g.DialWith("up", at)
				at = inMemory(t, g)
				if s.Limited {
					ask(at, newCall(form, "read").with("billId", "another"), 0)
				}
			}
			got = ask(at, q, waits)
		})
		return got
	}
	return get(false), get(true)
}

// conclusions writes what the programs conclude: what most of them do, and who differs.
func conclusions(all map[string]string) string {
	count, usual := map[string]int{}, ""
	for _, h := range habits {
		if count[all[h.name]]++; count[all[h.name]] > count[usual] {
			usual = all[h.name]
		}
	}
	parts := []string{usual}
	for _, h := range habits {
		if all[h.name] != usual {
			parts = append(parts, h.name+": "+all[h.name])
		}
	}
	return strings.Join(parts, "; ")
}

// Partners' programs conclude the same directly and through a gateway, unless the page says why they cannot.
func TestPartnersConcludeTheSame(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.Write(proxytest.ReadFile(t, "testdata/conclusions.md")) // what the test does not write
	for _, h := range habits {
		fmt.Fprintf(&page, "- *%s*: %s\n", h.name, h.about)
	}
	why := map[string]string{}
	var all []situation
	must(t, yaml.Unmarshal(situations, &all))
	for _, form := range []string{"legacy", "v2"} {
		c := proxytest.Config(t, "upstreams: {up: {form: "+inForm(form, "legacy", "v2")+", url: http://billing.example.com}}\n"+
			"failures: {language: both}\n"+overlayFile(t, `
forms: {legacy: {codes: {"9800": BILL_001, "9980": BILL_003}}}
operations: {bill.read: {reply: {apprPayType: {values: [{v2: 0, legacy: SIMPLE_PAY}, {v2: 1, legacy: CARD_VAN}]}}}}
`))
		fmt.Fprintf(&page, "\n## Programs in %s\n\n| situation | directly | through the gateway |\n|---|---|---|\n", form)
		for _, s := range all {
			directly, bridged, differ := map[string]string{}, map[string]string{}, map[string]string{}
			got := map[time.Duration][2]reply{}
			for _, h := range habits {
				if _, asked := got[h.waits]; !asked {
					first, second := replies(t, c, form, s, h.waits)
					got[h.waits] = [2]reply{first, second}
				}
				directly[h.name], bridged[h.name] = h.conclude(s.op(), got[h.waits][0]), h.conclude(s.op(), got[h.waits][1])
				if directly[h.name] != bridged[h.name] {
					differ[h.name] = bridged[h.name]
				}
			}
			shown := "the same"
			if len(differ) > 0 {
				shown = conclusions(bridged)
				if why[s.Name] = s.Because; s.Because == "" {
					t.Errorf("%s, %s: nothing says why these differ: %v", form, s.Name, differ)
				}
			}
			fmt.Fprintf(&page, "| %s | %s | %s |\n", s.Name, conclusions(directly), shown)
		}
	}
	page.WriteString("\n## Why these differ\n\n")
	for _, s := range all {
		if why[s.Name] != "" {
			fmt.Fprintf(&page, "- **%s**: %s\n", s.Name, why[s.Name])
		} else if s.Because != "" {
			t.Errorf("%s: all conclude the same, and the page says why not", s.Name)
		}
	}
	const file = "../translate/CONCLUSIONS.md"
	if *updateConclusions {
		proxytest.WriteFile(t, file, page.String())
	}
	equal(t, gocmp.Diff(string(proxytest.ReadFile(t, file)), page.String()), "", file)
}

var updateConclusions = flag.Bool("update", false, "write translate/CONCLUSIONS.md; review every line of the diff")

// conclude is what a program with the habit concludes.
func (h habit) conclude(op string, r reply) (concluded string) {
	if h.judges != nil {
		concluded = h.judges(op, r)
	}
	return cmp.Or(concluded, byCode(r))
}

// when returns what a program concludes if so, else nothing.
func when(so bool, concludes string) string {
	if so {
		return concludes
	}
	return ""
}
