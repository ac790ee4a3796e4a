package sandbox_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

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
	type exchange struct {
		Method, Path, Request, Code string
		Status                      int
	}
	logged := func(query string) (list []exchange) {
		_, body := r.ctl(http.MethodGet, "/log"+query, "")
		must(t, json.Unmarshal([]byte(body), &list))
		return list
	}
	for query, want := range map[string]int{
		"": 6, "?partner=demo-partner-key": 2, "?partner=demo-nourl-key": 1, "?partner=nobody": 0, "?operation=bill.create": 3,
		"?operation=none": 2, "?partner=demo-partner-key&operation=bill.read": 1, "?operation=bill": 0,
	} {
		equal(t, len(logged(query)), want, query)
	}
	if x := logged("?operation=none")[1]; x.Method != "GET" || x.Status != 405 || x.Path != "/bill" {
		t.Errorf("%+v", x)
	}
	if x := logged("")[5]; len(x.Request) != 64<<10 || x.Code != "VALIDATION_001" {
		t.Errorf("a request of 100 KiB: %d bytes in the log, %s", len(x.Request), x.Code)
	}
	for range 500 {
		r.do(newCall("v2", "read").with("apiKey", "demo-nourl-key"))
	}
	equal(t, len(logged("")), 500, "bounded")
	equal(t, len(logged("?partner=demo-partner-key")), 0, "the oldest are gone")
}

// The curl command of the log sends the same request.
func TestLogHasACurlCommand(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("not checked: there is no curl")
	}
	r := start(t)
	r.must(newCall("v2", "create").with("message", `it's "$HOME" \ 원`))
	x := r.Exchanges()[0]
	has(t, x.Curl, "curl -s '-XPOST'", "curl")
	command := strings.Replace(x.Curl, "curl", "'"+curl+"'", 1)
	out, err := exec.Command("sh", "-c", command).Output()
	if err != nil || codeOf(t, "v2", string(out)) != "BILL_001" {
		t.Errorf("%s: %v %s", command, err, out)
	}
	again := r.Exchanges()[1]
	equal(t, string(again.Request)+again.Path+again.ContentType, string(x.Request)+x.Path+x.ContentType)
}
