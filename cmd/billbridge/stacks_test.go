package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/tidwall/gjson"
)

// An httpStack is an HTTP client that partners use, as its package installs it. Its command reads lines "URL BODY" and
// answers each with a line: "STATUS REPLY", or "error" and what the stack says.
type httpStack struct {
	name    string
	command []string
	needs   []string // files of its packages, beside the command
}

// stackFolder is the folder of the drivers. The working folder of a driver is another one.
func stackFolder(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("testdata/stacks")
	must(t, err)
	return folder
}

// httpStacks returns the stacks. They trust the authority whose certificate is ca.pem in a folder; .ci/stacks has
// installed the modules of npm into another one.
func httpStacks(t *testing.T, trust, modules string) []httpStack {
	t.Helper()
	folder := stackFolder(t)
	java := func(name, class string, jars ...string) httpStack {
		for i := range jars {
			jars[i] = "/usr/share/java/" + jars[i] + ".jar"
		}
		return httpStack{name, []string{
			"java", "-Djavax.net.ssl.trustStore=" + trust + "/ca.p12", "-Djavax.net.ssl.trustStorePassword=changeit",
			"-cp", strings.Join(append(jars, "."), ":"), folder + "/" + class + ".java",
		}, append(jars, "/usr/bin/javac")}
	}
	python := func(name string) httpStack { // Debian's, which has Debian's modules
		command := []string{"/usr/bin/python3", folder + "/with_" + name + ".py"}
		return httpStack{name, command, []string{"/usr/lib/python3/dist-packages/" + name}}
	}
	url, ok := java("HttpURLConnection", "UrlConnection"), java("OkHttp", "OkHttp", "okhttp", "okio")
	php := httpStack{"PHP curl", []string{"php", "-d", "curl.cainfo=" + trust + "/ca.pem", folder + "/curl.php"}, nil}
	set := func(s httpStack, name string, at int, argument string) httpStack {
		return httpStack{s.name + ", " + name, slices.Insert(slices.Clone(s.command), at, argument), s.needs}
	}
	return []httpStack{
		url, set(url, "retryPost=false", 1, "-Dsun.net.http.retryPost=false"),
		java("java.net.http", "JavaNetHttp"),
		java("HttpClient 4", "HttpClient4", "httpclient", "httpcore", "commons-logging", "commons-codec"),
		java("HttpClient 5", "HttpClient5", "httpclient5", "httpcore5", "httpcore5-h2", "slf4j-api", "slf4j-nop"),
		ok, set(ok, "no retry", len(ok.command), "no retry"),
		php, set(php, "fresh connections", len(php.command), "fresh"),
		{"Node fetch", []string{"node", folder + "/fetch.js"}, nil},
		{"axios", []string{"node", folder + "/axios.js"}, []string{modules + "/axios"}},
		python("requests"),
		python("httpx"),
		{"Go net/http", []string{trust + "/nethttp"}, nil},
	}
}

// missing returns what a stack needs that is not installed, or "".
func (s httpStack) missing() string {
	if _, err := exec.LookPath(s.command[0]); err != nil {
		return s.command[0]
	}
	for _, name := range s.needs {
		if _, err := os.Stat(name); err != nil {
			return name
		}
	}
	return ""
}

// A driver is the process of a stack.
type driver struct {
	*process
	stack  string
	stdin  io.Writer
	broken bool
}

func (s *stackTrial) startDriver(t *testing.T, stack httpStack) *driver {
	t.Helper()
	cmd := exec.Command(stack.command[0], stack.command[1:]...)
	cmd.Dir, cmd.Env = s.folder, []string{"NO_PROXY=*", "no_proxy=*", "NODE_PATH=" + s.modules}
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"} {
		cmd.Env = append(cmd.Env, name+"="+s.folder+"/ca.pem")
	}
	stdin, err := cmd.StdinPipe()
	must(t, err)
	p, err := launchCommand(cmd)
	must(t, err)
	t.Cleanup(p.kill)
	return &driver{process: p, stack: stack.name, stdin: stdin}
}

// post makes a call. ok says that the reply is a success; otherwise said is what the stack or the reply says. A driver
// that does not answer makes no more calls.
func (d *driver) post(t *testing.T, url, body string) (said string, ok bool) {
	_, _ = fmt.Fprintln(d.stdin, url, body)
	found, err := d.await("stdout", "^(?P<status>[0-9]+|error) (?P<text>.*)$")
	if err != nil {
		t.Errorf("%s: %v", d.stack, err)
		d.broken = true
		runtime.Goexit()
	}
	if code := gjson.Get(found["text"], "code").String(); found["status"] != "error" {
		return strings.TrimSpace(found["status"] + " " + code), found["status"] == "200" && code == "0000"
	}
	return found["text"], false
}

// A stackRow is what a stack did in a scenario.
type stackRow struct {
	stack, scenario                        string
	bills                                  map[string]bool // whether the stack was told of a success
	calls, errors, repeated, doubled, lost int
	note                                   string // what the first error said, or another thing to know
}

// check judges a row. Errors and repetitions are the stack's: with a connection that ends they depend on the moment.
func (r stackRow) check(t *testing.T) {
	if r.doubled > 0 {
		t.Errorf("%s, %s: the gateway sent the create of %d bills twice", r.stack, r.scenario, r.doubled)
	}
	if r.lost > 0 {
		t.Errorf("%s, %s: %d successes without a bill at the backend", r.stack, r.scenario, r.lost)
	}
	if r.calls > 0 && r.errors == r.calls {
		t.Errorf("%s, %s: no call succeeded: %s", r.stack, r.scenario, r.note)
	}
}

func stackTable(rows []stackRow) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenario\tstack\tcalls\terrors\trepeated by the stack\tdoubled\tlost\t")
	for _, r := range rows {
		note := []rune(strings.Join(strings.Fields(r.note), " "))
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", r.scenario, r.stack,
			r.calls, r.errors, r.repeated, r.doubled, r.lost, string(note[:min(len(note), 100)]))
	}
	_ = table.Flush()
	return text.String()
}
