package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// A loggedGateway is a gateway as a process. Its upstream replies to every resend, and breaks off every destroy.
type loggedGateway struct {
	*process
	t               *testing.T
	partners, admin string
	client          *http.Client
	configure       func(section string) (text string) // writes the config with a log section
}

// startLogged starts a gateway with a log section of its config, whose log goes to a file.
func startLogged(t *testing.T, log *os.File, section string) *loggedGateway {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/bill/destroy" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"code":"0000","message":"ok","data":{"apiKey":"k-1","billId":"A1"}}`)
	}))
	t.Cleanup(upstream.Close)
	folder := t.TempDir()
	configure := func(section string) (text string) {
		t.Helper()
		text = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nfailures: {explain: 0s}\nupstreams: {new: {form: v2, url: " + upstream.URL + "}}\n" + section
		proxytest.WriteFile(t, filepath.Join(folder, "billbridge.yaml"), text)
		return text
	}
	g := serve(t, folder, log, configure(section))
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &loggedGateway{g.process, t, "http://" + g.partners, "http://" + g.operator, &http.Client{Transport: transport, Timeout: patience}, configure}
}

// post calls an operation under an id. An error means that there was no answer.
func (g *loggedGateway) post(path, id string) error {
	r, err := http.NewRequest(http.MethodPost, g.partners+path, strings.NewReader(`{"apiKey":"k-1","bill":{"billId":"A1"},"billId":"A1","member":"m","merchant":"n"}`))
	if err != nil {
		return err
	}
	r.Header.Set("X-Request-Id", id)
	response, err := g.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if want := map[string]int{"/bill/resend": 200, "/bill/destroy": 502}[path]; err == nil && (response.StatusCode != want || response.Header.Get("X-Request-Id") != id) {
		g.t.Errorf("%s: %d %s", path, response.StatusCode, body)
	}
	return err
}

// succeed makes calls with an answer of the upstream, unknown one without.
func (g *loggedGateway) succeed(prefix string, n int) (ids []string) {
	g.t.Helper()
	for i := range n {
		ids = append(ids, prefix+strconv.Itoa(i))
		must(g.t, g.post("/bill/resend", ids[i]))
	}
	return ids
}

func (g *loggedGateway) unknown(id string) string {
	g.t.Helper()
	must(g.t, g.post("/bill/destroy", id))
	return id
}

// load calls the gateway on several connections until there is no answer any more. It calls reached when n calls are answered. It
// returns the ids of the answered calls: those with an unknown outcome begin with u.
func (g *loggedGateway) load(n int64, reached func()) (answered []string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var answers atomic.Int64
	for caller := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				id, path := fmt.Sprintf("s%d-%d", caller, i), "/bill/resend"
				if i%50 == caller {
					id, path = "u"+id, "/bill/destroy"
				}
				if g.post(path, id) != nil {
					return
				}
				mu.Lock()
				answered = append(answered, id)
				mu.Unlock()
				if answers.Add(1) == n {
					reached()
				}
			}
		})
	}
	all.Wait()
	return answered
}

// loggedIDs returns how many lines each request has in a log, and the size of the longest. A last line that is not complete is left out.
func loggedIDs(t *testing.T, log *os.File) (ids map[string]int, longest int) {
	t.Helper()
	text := proxytest.ReadFile(t, log.Name())
	ids = map[string]int{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var record struct{ Msg, ID, Outcome string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if record.Msg == "request" {
			ids[record.ID]++
			longest = max(longest, len(line))
		}
		equal(t, strings.HasPrefix(record.ID, "u"), record.Outcome == "unknown", line)
	}
	return ids, longest
}

func missing(answered []string, logged map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(answered), func(id string) bool { return logged[id] == 1 })
}

func logFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Lines of configs, which other processes read: see [proxytest.Tuned].
var (
	rareWrites     = proxytest.Tuned(func(c *config.Config) { c.Log.Flush, c.Log.Buffer = 10*time.Second, 1<<20 })
	frequentWrites = proxytest.Tuned(func(c *config.Config) { c.Log.Flush = time.Millisecond })
)

func TestAStopUnderLoadLosesNoLine(t *testing.T) {
	t.Parallel()
	log := logFile(t)
	g := startLogged(t, log, rareWrites)
	answered := g.load(1000, func() { _ = g.cmd.Process.Signal(syscall.SIGTERM) })
	g.ends(t)
	logged, _ := loggedIDs(t, log)
	if lost := missing(answered, logged); len(lost) > 0 || len(answered) < 1000 {
		t.Errorf("%d calls were answered, and there is not one line of each of %q", len(answered), lost)
	}
}

// The reader of the log has ended, or its disk is full: calls are answered, and the lost lines are counted.
func TestABrokenLogDoesNotStopTheGateway(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	must(t, err)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	for name, log := range map[string]*os.File{"without a reader": writer, "full": full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startLogged(t, log, frequentWrites)
			_ = reader.Close()
			_ = log.Close() // ours; the process has its own
			g.succeed("a", 10)
			g.unknown("u1")
			g.succeed("b", 10)
			g.unknown("u2")
			_, metrics := httpCall(t, http.MethodGet, g.admin+"/metrics", "")
			_, lost, _ := strings.Cut(metrics, "\nbillbridge_log_lines_lost_total ")
			if lost, _, _ = strings.Cut(lost, "\n"); lost != "22" {
				t.Errorf("%q lines were counted as lost, want 22", lost)
			}
			must(t, g.cmd.Process.Signal(syscall.SIGTERM))
			g.ends(t)
		})
	}
}
