package proxy_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/sandbox"
)

// lineValues are the parts of a line that differ between two runs.
var lineValues = regexp.MustCompile(`"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"|("(?:upstream_)?ms":)\d+(\.\d{1,3})?`)

// Users' scripts rely on the lines of the access log: names, order and format of the fields. Each exchange is reported once when it has ended,
// however it ended, with its messages and with its line.
func TestLinesOfTheAccessLog(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "S", demoBill)
	back := newBackend(t, service)
	g := newFinishedGateway(t, strings.Replace(oneUpstream("v2", back.url, "limits: {body: 64KiB}"), "30s", "1s", 1))
	dropped, long := sandbox.Fault{Drop: true}, strings.Repeat("9", proxy.MaxKept)
	hostile := "A\"\\\t<&>\u202e결제"
	for _, row := range []struct {
		name, method, path, body string
		fault                    *sandbox.Fault
		reply                    string // a part of it; "" if there is none
		level, want              string
	}{
		{"read", "", "/bill/read", v2("read").body(), nil, `"apprState"`, "INFO", `"operation":"bill.read","client":"v2","upstream":"up","status":200,"code":"0000","ms":N,PARTNER,"upstream_ms":N}`},
		{"translated", "", "/if/bill/read", legacy("read").body(), nil, `"apprState"`, "INFO", `"operation":"bill.read","client":"legacy","upstream":"up","status":200,"code":"0000","ms":N,PARTNER,"upstream_ms":N}`},
		{"refused-by-the-upstream", "", "/bill/read", v2("read").with("billId", "NO_SUCH_BILL_HERE_20").body(), nil, `BILL_003`, "INFO", `"operation":"bill.read","client":"v2","upstream":"up","status":200,"code":"BILL_003","ms":N,PARTNER,"upstream_ms":N}`},
		{"refused-by-a-row", "", "/if/bill/send", legacy("create").with("price", "1.5").body(), nil, "", "INFO", `"operation":"bill.create","client":"legacy","upstream":"up","status":400,"code":"VALIDATION_001","ms":N,PARTNER,"reason":"refused","field":"bill.price"}`},
		{"not-json", "", "/bill/read", "{", nil, "", "INFO", `"operation":"bill.read","client":"v2","upstream":"up","status":400,"code":"VALIDATION_001","ms":N,"reason":"refused"}`},
		{"name-twice", "", "/if/bill/read", `{"x":{"y":1,"y":1}}`, nil, "", "INFO", `"operation":"bill.read","client":"legacy","upstream":"up","status":400,"code":"VALIDATION_001","ms":N,"reason":"refused","field":"other"}`},
		{"no-such-path", "", "/if/\u202e", "{}", nil, "", "INFO", `"operation":"none","client":"legacy","upstream":"none","status":404,"code":"ERROR","ms":N,"reason":"no such path"}`},
		{"wrong-method", "GET", "/bill", "", nil, "", "INFO", `"operation":"bill.create","client":"v2","upstream":"up","status":405,"code":"ERROR","ms":N,"reason":"wrong method"}`},
		{"too-large", "", "/bill", strings.Repeat(" ", 70_000), nil, "", "INFO", `"operation":"bill.create","client":"v2","upstream":"up","status":413,"code":"VALIDATION_001","ms":N,"reason":"body too large"}`},
		{"read-broke-off", "", "/bill/read", v2("read").body(), &dropped, "", "WARN", `"operation":"bill.read","client":"v2","upstream":"up","status":502,"code":"ERROR","ms":N,PARTNER,"upstream_ms":N,"reason":"reset"}`},
		{"no-json-reply", "", "/if/bill/read", legacy("read").body(), &sandbox.Fault{Body: "x"}, `x`, "WARN", `"operation":"bill.read","client":"legacy","upstream":"up","status":502,"code":"ERROR","ms":N,PARTNER,"upstream_ms":N,"reason":"not_json: not JSON at byte 0"}`},
		{"unknown-code", "", "/bill/read", v2("read").body(), &sandbox.Fault{Body: `{"code":"X-\"9","message":"x","data":null}`}, `X-`, "INFO", `"operation":"bill.read","client":"v2","upstream":"up","status":200,"code":"other","ms":N,PARTNER,"upstream_ms":N}`},
		{"outcome-unknown", "", "/bill/resend", v2("resend").with("billId", hostile).body(), &dropped, "", "WARN", `"operation":"bill.resend","client":"v2","upstream":"up","status":502,"code":"none","ms":N,PARTNER,"upstream_ms":N,"outcome":"unknown","bill":"A\"\\\t<&>\u202e결제","reason":"reset"}`},
		{"timeout", "", "/bill/cancel", v2("cancel").body(), &sandbox.Fault{Delay: testTimeout}, "", "WARN", `"operation":"bill.cancel","client":"v2","upstream":"up","status":504,"code":"none","ms":N,PARTNER,"upstream_ms":N,"outcome":"unknown","bill":"` + demoBill + `","reason":"timeout"}`},
		{"large", "", "/bill/read", v2("read").with("billId", long).body(), nil, "BILL_003", "INFO", `"operation":"bill.read","client":"v2","upstream":"up","status":200,"code":"BILL_003","ms":N,PARTNER,"upstream_ms":N}`},
	} {
		if row.fault != nil {
			service.Fault(*row.fault)
		}
		g.call(row.name, cmp.Or(row.method, http.MethodPost), row.path, row.body)
		line := lineValues.ReplaceAllStringFunc(g.logs.String(), func(value string) string {
			name, _, _ := strings.Cut(value, ":")
			return name + ":N"
		})
		row.want = strings.ReplaceAll(row.want, "PARTNER", `"partner":"5f7b2ed74a97"`)
		if want := `{"time":N,"level":"` + row.level + `","msg":"request","id":"` + row.name + `",` + row.want + "\n"; line != want {
			t.Errorf("got  %swant %s", line, want)
		}
		got := g.last
		if g.count != 1 || got.Line() != g.logs.String() || !got.Logged || got.Called != (got.UpstreamTook > 0) || got.BodyTook > got.Took {
			t.Errorf("%s: %d times, %+v, line %q", row.name, g.count, got, got.Line())
		}
		if got.Succeeded != (row.name == "read" || row.name == "translated") || got.Unknown != strings.Contains(line, `"outcome":"unknown"`) {
			t.Errorf("%s: %+v", row.name, got)
		}
		if !strings.Contains(g.reply, row.reply) || row.reply == "" != (got.Reply == nil) || got.ReplySize != len(g.reply) {
			t.Errorf("%s: the reply is %q", row.name, g.reply)
		}
		if !got.Called {
			continue
		}
		if large := len(row.body) > proxy.MaxKept; got.Translation == nil || got.BodyTook <= 0 || got.RequestSize != len(row.body) || large != (got.Request == nil) ||
			!large && g.request != row.body || got.Bill == "" || len(got.Bill) > 100 || row.reply != "" && got.ReplyStatus != 200 {
			t.Errorf("%s: %+v, request %q", row.name, got, g.request)
		}
	}
}

// With log.sample.ok 0 only successes have no line: the upstream replied with HTTP 2xx and the code of a success,
// and the caller got it.
func TestOnlySuccessesAreSampled(t *testing.T) {
	t.Parallel()
	for _, upstream := range forms {
		service := newService()
		prepareBill(t, service, "S", demoBill)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Request-Id") == "caller-gone" {
				leave()
			}
			service.ServeHTTP(w, r)
		})
		b := newGatewayTo(t, upstream, back, "log: {sample: {ok: 0}}")
		for _, client := range forms {
			read, resend := newCall(client, "read"), newCall(client, "resend")
			for i, row := range []struct {
				name   string
				call   call
				fault  *sandbox.Fault
				logged string // a part of the line; "" if there must be none
			}{
				{"read", read, nil, ""},
				{"resend", resend, nil, ""},
				{"refused", read.with("billId", "NO_SUCH_BILL_HERE_20"), nil, `"code":"BILL_003"`},
				{"refused-here", read.with("billId", map[string]any{}), nil, `"reason":"refused"`},
				{"success-with-a-failing-status", resend, &sandbox.Fault{Status: 500}, `"status":500,"code":"0000"`},
				{"unknown", resend, &sandbox.Fault{Drop: true}, `"outcome":"unknown"`},
			} {
				if row.fault != nil {
					service.Fault(*row.fault)
				}
				id := row.name + strconv.Itoa(i)
				b.post(row.call.path(), row.call.body(), "X-Request-Id", id)
				if row.logged == "" { // the next line is one of the next call
					continue
				}
				checkText(t, b.logs.Next(t), `"id":"`+id+`"`, row.logged)
			}
		}
		q := v2("resend")
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, q.path(), strings.NewReader(q.body()))
		r.Header.Set("X-Request-Id", "caller-gone")
		b.ServeHTTP(httptest.NewRecorder(), r)
		checkText(t, b.logs.Next(t), `"code":"0000"`, `"caller_gone":true`)
		func() {
			defer func() {
				equal[any](t, recover(), http.ErrAbortHandler)
			}()
			b.ServeHTTP(panickingWriter{httptest.NewRecorder()}, q.request())
		}()
		checkText(t, b.logs.Next(t)+b.logs.Next(t), `"msg":"panic"`, `"status":500,"code":"none"`)
		equal(t, b.logs.Take(), "")
	}
}

// A panickingWriter panics within an answer.
type panickingWriter struct{ *httptest.ResponseRecorder }

func (panickingWriter) Write([]byte) (int, error) { panic("broken") }
