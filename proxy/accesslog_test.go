package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"

	"github.com/tidwall/gjson"
)

// lineValues are the parts of a line that differ between two runs.
var lineValues = regexp.MustCompile(`"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"|("(?:upstream_)?ms":)\d+(\.\d{1,3})?`)

// Users' scripts rely on the lines of the access log: names, order and format of the fields. Each exchange is reported once when it has ended,
// however it ended, with its messages and with its line. A caller that writes its key into the field of the bill finds it neither in the
// log nor in the console.
func TestR35_LinesOfTheAccessLog(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "S", demoBill)
	back := newBackend(t, service)
	g := newFinishedGateway(t, strings.Replace(oneUpstream("v2", back.url, "limits: {body: 64KiB}"), "30s", "1s", 1))
	const hostile = "A\"\\\t<&>\u202e결제"
	bodies := map[string]string{
		"price": legacy("create").with("price", "1.5").body(), "twice": `{"x":{"y":1,"y":1}}`, "spaces": strings.Repeat(" ", 70_000),
		"nobill": v2("read").with("billId", "NO_SUCH_BILL_HERE_20").body(), "hostile": v2("resend").with("billId", hostile).body(),
		"short": v2("resend").with("billId", demoKey[:4]).body(), "part": v2("resend").with("billId", demoKey[:12]).body(),
		"nokey": v2("read").with("apiKey", "").with("billId", demoKey).body(),
		"key":   legacy("resend").with("billId", demoKey).body(), "long": v2("read").with("billId", strings.Repeat("9", proxy.MaxKept)).body(),
	}
	// A name, the method and the path, the form and the operation of the body or its name, a fault, a part of the reply, and the line.
	for _, row := range proxytest.Rows(t, "testdata/accesslog.txt") {
		name, reply := row[0], row[4]
		method, path, _ := strings.Cut(row[1], " ")
		body, named := bodies[row[2]]
		if form, op, found := strings.Cut(row[2], " "); found {
			body = newCall(form, op).body()
		} else if !named {
			body = row[2]
		}
		addFault(t, service, row[3])
		g.call(name, method, path, body)
		service.ClearFaults("")
		line := lineValues.ReplaceAllStringFunc(g.logs.String(), func(value string) string {
			name, _, _ := strings.Cut(value, ":")
			return name + ":N"
		})
		level, rest, _ := strings.Cut(strings.Replace(row[5], "N,PARTNER", `N,"partner":"5f7b2ed74a97"`, 1), " ")
		equal(t, line, `{"time":N,"level":`+level+`,"msg":"request","id":"`+name+`",`+rest+"\n")
		got := g.last
		if g.count != 1 || got.Line() != g.logs.String() || !got.Logged || got.Called != (got.UpstreamTook > 0) || got.BodyTook > got.Took {
			t.Errorf("%s: %d times, %+v, line %q", name, g.count, got, got.Line())
		}
		if got.Succeeded != (name == "read" || name == "translated") || got.Unknown != strings.Contains(line, `"outcome":"unknown"`) {
			t.Errorf("%s: %+v", name, got)
		}
		if !strings.Contains(g.reply, reply) || reply == "" != (got.Reply == nil) || got.ReplySize != len(g.reply) {
			t.Errorf("%s: the reply is %q", name, g.reply)
		}
		if !got.Called {
			continue
		}
		if large := len(body) > proxy.MaxKept; got.Translation == nil || got.BodyTook <= 0 || got.RequestSize != len(body) || large != (got.Request == nil) ||
			!large && g.request != body || (got.Bill == "") != (name == "key" || name == "part-of-the-key") || len(got.Bill) > 100 || reply != "" && got.ReplyStatus != 200 {
			t.Errorf("%s: %+v, request %q", name, got, g.request)
		}
	}
}

// A finishedGateway keeps what Options.Finished got last, with its line of the log.
type finishedGateway struct {
	*gateway
	last           proxy.Finished
	request, reply string
	count          int
}

func newFinishedGateway(t *testing.T, text string) *finishedGateway {
	t.Helper()
	g := &finishedGateway{gateway: newGateway(t, text)}
	g.finished = func(f *proxy.Finished) {
		g.last, g.request, g.reply = *f, string(f.Request), string(f.Reply) // they are valid during the call only
		g.last.Bill = strings.Clone(f.Bill)
		g.count++
	}
	return g
}

func (g *finishedGateway) call(id, method, path, body string) {
	g.logs.Take()
	g.last, g.count = proxy.Finished{}, 0
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", id)
	g.ServeHTTP(httptest.NewRecorder(), r)
}

// The messages of calls that run at the same time do not mix, although the gateway uses its buffers again.
func TestFinishedKeepsTheMessagesOfEachCall(t *testing.T) {
	t.Parallel()
	g := newGatewayTo(t, "v2", newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bill := gjson.GetBytes(body, "bill.billId").String()
		_, _ = io.WriteString(w, `{"code":"BILL_003","message":"`+bill+strings.Repeat("x", len(body)%97)+`","data":null}`)
	}))
	g.finished = func(f *proxy.Finished) {
		runtime.Gosched() // other calls may use a buffer that was given back too early
		equal(t, gjson.GetBytes(f.Request, "bill_id").String()+" "+f.Bill, f.ID+" "+f.ID)
		checkText(t, string(f.Reply), `"message":"`+f.ID+"x")
	}
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 100 {
				bill := fmt.Sprint("B", caller, "-", i)
				r := legacy("read").with("billId", bill).request()
				r.Header.Set("X-Request-Id", bill)
				g.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	callers.Wait()
}
