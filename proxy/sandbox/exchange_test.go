package sandbox_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// A logged is an exchange as the control API shows it.
type logged struct {
	Operation, Form, Partner, Bill, Method, Path, Request, Reply, Code, Before, After, Curl string
	ContentType                                                                             string `json:"content_type"`
	UserAgent                                                                               string `json:"user_agent"`
	HashText                                                                                string `json:"hash_text"`
	HashWant                                                                                string `json:"hash_want"`
	Status                                                                                  int
	Fault                                                                                   sandbox.Fault
	Done, Late                                                                              bool
	Began, Ended, Clock                                                                     time.Time
}

func (r *rig) log(query string) (list []logged) {
	r.t.Helper()
	_, body := r.ctl(http.MethodGet, "/log"+query, "")
	must(r.t, json.Unmarshal([]byte(body), &list))
	return list
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	proxytest.Eventually(t, done, nil)
}

// exchangeRows are calls and what the log says of them: name, state of the bill before, fault, operation, changed field, and
// then status, code, done, and the states before and after.
const exchangeRows = `
create                      |   |                                         | create  |                 | 200 | 0000           | done | -W
create, refused             |   |                                         | create  | sendType=x      | 200 | BILL_008       |      | --
create, reply lost          |   | {"drop":true}                           | create  |                 | 0   | 0000           | done | -W
create, reply cut           |   | {"truncate":true}                       | create  |                 | 200 | 0000           | done | -W
create, not done            |   | {"drop":true,"skip":true}               | create  |                 | 0   | ERROR          |      | --
create, other status        |   | {"status":504,"body":"x"}               | create  |                 | 504 | 0000           | done | -W
create, refused by a fault  |   | {"code":"POINT_001"}                    | create  |                 | 200 | POINT_001      |      | --
create, wrong hash          |   |                                         | create  | hash=00         | 200 | VALIDATION_002 |      | --
destroy                     | W |                                         | destroy |                 | 200 | 0000           | done | WD
cancel of an unpaid bill    | W |                                         | cancel  |                 | 200 | BILL_002       |      | WW
cancel, wrong hash          | F |                                         | cancel  | hash=00         | 200 | VALIDATION_002 |      | FF
read of another state       | F | {"operation":"bill.read","show":"W"}    | read    |                 | 200 | 0000           | done | FF
read of a bill that is not  | F | {"operation":"bill.read","show":"absent"} | read  |                 | 200 | BILL_003       |      | FF
`

// The log and Observe have each exchange with what was decided, in both forms.
func TestLogHasEachCall(t *testing.T) {
	t.Parallel()
	for _, row := range rowsOf(exchangeRows) {
		for _, form := range forms {
			t.Run(form+"/"+row[0], func(t *testing.T) {
				t.Parallel()
				if form == "legacy" && row[4] == "sendType=x" {
					t.Skip("the legacy form has no sendType")
				}
				var mu sync.Mutex
				var seen []sandbox.Exchange
				r := start(t, sandbox.Options{Observe: func(x sandbox.Exchange) {
					mu.Lock()
					seen = append(seen, x)
					mu.Unlock()
				}})
				if row[1] != "" {
					r.createInState(row[1])
				}
				if row[2] != "" {
					r.runControl(`POST /faults ` + row[2] + ` > 200`)
				}
				call := newCall(form, row[3])
				if name, value, ok := strings.Cut(row[4], "="); ok {
					call = call.with(name, value)
				}
				_, got, _ := r.try(t.Context(), call)
				// A call is recorded after its reply, so that an earlier one may be recorded later.
				var x logged
				eventually(t, func() bool {
					list := r.log("")
					at := slices.IndexFunc(list, func(x logged) bool { return x.Operation == "bill."+row[3] })
					if at >= 0 {
						x = list[at]
					}
					return at >= 0
				})
				path, request := call.encode()
				before, after := strings.Trim(row[8][:1], "-"), strings.Trim(row[8][1:], "-")
				if x.Operation != "bill."+row[3] || x.Form != form || x.Partner != demoKey || x.Bill != billID || x.Method != "POST" ||
					x.Path != path || x.Request != request || x.ContentType != "application/json" || !strings.HasPrefix(x.UserAgent, "Go-http-client") {
					t.Errorf("the call: %+v", x)
				}
				if number(x.Status) != row[5] || x.Code != row[6] || x.Done != (row[7] == "done") || x.Before != before || x.After != after || x.Late {
					t.Errorf("the result: %+v", x)
				}
				if !strings.HasPrefix(x.Reply, got) || x.Reply == "" {
					t.Errorf("the reply %q begins otherwise than %q", x.Reply, got)
				}
				if x.Began.After(x.Ended) || !x.Clock.Equal(noon) {
					t.Errorf("the times: %+v", x)
				}
				text, hash := "", ""
				if row[6] == "VALIDATION_002" {
					text = map[string]string{"create": billID + ",01012345678,30000", "cancel": billID + ",30000"}[row[3]]
					hash = sign(billID, map[string]string{"create": "01012345678"}[row[3]], "30000")
				}
				if x.HashText != text || x.HashWant != hash {
					t.Errorf("the hash: %q %q", x.HashText, x.HashWant)
				}
				lacks(t, got, "30000,", "the reply has the text that is hashed")
				var last sandbox.Exchange
				eventually(t, func() bool {
					mu.Lock()
					defer mu.Unlock()
					at := slices.IndexFunc(seen, func(x sandbox.Exchange) bool { return x.Operation == "bill."+row[3] })
					if at >= 0 {
						last = seen[at]
					}
					return at >= 0
				})
				if string(last.Request) != request || string(last.Reply) != x.Reply || last.Code != x.Code || last.After != x.After || last.Fault.Operation != x.Fault.Operation {
					t.Errorf("Observe: %+v", last)
				}
			})
		}
	}
}

func number(n int) string { b, _ := json.Marshal(n); return string(b) }

// The log has the last exchanges, of one partner and operation if they are named, also those that are no call.
func TestLogIsFilteredAndBounded(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.must(newCall("v2", "create"))
	r.must(newCall("legacy", "create").with("apiKey", "demo-nourl-key"))
	r.do(newCall("v2", "read"))
	r.post("/nothing", "{}")
	send(t, http.MethodGet, r.url+"/bill", "")
	r.post("/bill", strings.Repeat("x", 100<<10))
	for query, want := range map[string]int{
		"": 6, "?partner=demo-partner-key": 2, "?partner=demo-nourl-key": 1, "?partner=nobody": 0, "?operation=bill.create": 3,
		"?operation=none": 2, "?partner=demo-partner-key&operation=bill.read": 1, "?operation=bill": 0,
	} {
		equal(t, len(r.log(query)), want, query)
	}
	if x := r.log("?operation=none")[1]; x.Method != "GET" || x.Status != 405 || x.Path != "/bill" {
		t.Errorf("%+v", x)
	}
	if x := r.log("")[5]; len(x.Request) != 64<<10 || x.Code != "VALIDATION_001" {
		t.Errorf("a request of 100 KiB: %d bytes in the log, %s", len(x.Request), x.Code)
	}
	for range 500 {
		r.do(newCall("v2", "read").with("apiKey", "demo-nourl-key"))
	}
	equal(t, len(r.log("")), 500, "bounded")
	equal(t, len(r.log("?partner=demo-partner-key")), 0, "the oldest are gone")
}

// The curl command of the log sends the same request.
func TestLogHasACurlCommand(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	r := start(t)
	r.must(newCall("v2", "create").with("message", `it's "$HOME" \ 원`))
	x := r.log("")[0]
	has(t, x.Curl, "curl -s '-XPOST'", "curl")
	command := strings.Replace(x.Curl, "curl", "'"+curl+"'", 1)
	out, err := exec.Command("sh", "-c", command).Output()
	if err != nil || codeOf(t, "v2", string(out)) != "BILL_001" {
		t.Errorf("%s: %v %s", command, err, out)
	}
	if again := r.log("")[1]; again.Request != x.Request || again.Path != x.Path || again.ContentType != x.ContentType {
		t.Errorf("got %+v\nwant %+v", again, x)
	}
}
