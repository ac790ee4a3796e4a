package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
	sent            *atomic.Int64                      // the calls that the upstream got
}

// startLogged starts a gateway with a log section of its config, whose log goes to a file.
func startLogged(t *testing.T, log *os.File, section string) *loggedGateway {
	t.Helper()
	sent := new(atomic.Int64)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sent.Add(1)
		if r.URL.Path == "/bill/destroy" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"code":"0000","message":"ok","data":{"apiKey":"k-1","billId":"A1"}}`)
	}))
	t.Cleanup(upstream.Close)
	folder := t.TempDir()
	configure := func(section string) (text string) {
		t.Helper()
		text = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {new: {form: v2, url: " + upstream.URL + "}}\n" + section
		proxytest.WriteFile(t, filepath.Join(folder, "billbridge.yaml"), text)
		return text
	}
	g := serve(t, folder, log, configure(section))
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &loggedGateway{g.process, t, "http://" + g.partners, "http://" + g.operator, &http.Client{Transport: transport, Timeout: patience}, configure, sent}
}

// post calls an operation under an id. An error means that there was no answer.
func (g *loggedGateway) post(path, id string) error {
	status, body, err := g.call(path, id)
	if want := map[string]int{"/bill/resend": 200, "/bill/destroy": 502}[path]; err == nil && status != want {
		g.t.Errorf("%s: %d %s", path, status, body)
	}
	return err
}

// call is post with any answer.
func (g *loggedGateway) call(path, id string) (status int, body string, err error) {
	r, err := http.NewRequest(http.MethodPost, g.partners+path, strings.NewReader(`{"apiKey":"k-1","bill":{"billId":"A1"},"billId":"A1","member":"m","merchant":"n"}`))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Request-Id", id)
	response, err := g.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if got := response.Header.Get("X-Request-Id"); err == nil && got != id {
		g.t.Errorf("%s: X-Request-Id is %q, want %q", path, got, id)
	}
	return response.StatusCode, string(text), err
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
	smallBuffer    = proxytest.Tuned(func(c *config.Config) { c.Log.Flush, c.Log.Buffer = time.Millisecond, 8<<10 })
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
			equal(t, g.lostLines(), 22)
			must(t, g.cmd.Process.Signal(syscall.SIGTERM))
			g.ends(t)
		})
	}
}

// lostLines returns how many lines of the log are counted as lost.
func (g *loggedGateway) lostLines() (count int) {
	g.t.Helper()
	_, metrics := httpCall(g.t, http.MethodGet, g.admin+"/metrics", "")
	_, value, _ := strings.Cut(metrics, "\nbillbridge_log_lines_lost_total ")
	value, _, _ = strings.Cut(value, "\n")
	count, err := strconv.Atoi(value)
	must(g.t, err)
	return count
}

// fillPipe fills a pipe with line breaks.
func fillPipe(t *testing.T, pipe *os.File) {
	t.Helper()
	// Another description of the pipe: that of the process must stay a blocking one.
	fd, err := syscall.Open(fmt.Sprintf("/proc/self/fd/%d", pipe.Fd()), syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer func() { _ = syscall.Close(fd) }()
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = syscall.Write(fd, bytes.Repeat([]byte("\n"), size))
		}
		equal(t, err, error(syscall.EAGAIN))
	}
}

// Nobody reads the log: no call waits for ever, no write is sent whose line may never be read, and everything works
// again by itself when the log is read. Each call has one line, or its line is counted as lost; a line about an unknown
// outcome is not lost.
func TestR27_WritesAreRefusedWhileNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	must(t, err)
	g := startLogged(t, writer, smallBuffer)
	fillPipe(t, writer)
	_ = writer.Close() // ours; the process has its own

	var answered []string
	var refused, unknown int
	write := func() (sent bool) {
		t.Helper()
		path := []string{"/bill/resend", "/bill/destroy"}[len(answered)%2]
		id := fmt.Sprintf("w%d", len(answered))
		status, text, err := g.call(path, id)
		must(t, err)
		answered = append(answered, id)
		switch status {
		case http.StatusServiceUnavailable:
			refused++
			has(t, text, "MAINTAINED_METHOD")
		case http.StatusBadGateway:
			unknown++
		default:
			equal(t, status, http.StatusOK, text)
		}
		return status != http.StatusServiceUnavailable
	}
	proxytest.Eventually(t, func() bool { return !write() }, nil)
	sent := g.sent.Load()
	for range 100 {
		equal(t, write(), false)
	}
	equal(t, g.sent.Load(), sent)
	status, text := httpCall(t, http.MethodGet, g.admin+"/-/ready?verbose", "")
	equal(t, status, http.StatusServiceUnavailable)
	has(t, text, "not ready: the log cannot be written: nobody reads it")
	status, text, err = g.call("/bill/read", "r0") // a read goes on
	must(t, err)
	equal(t, status, http.StatusOK, text)
	equal(t, g.sent.Load(), sent+1)
	answered = append(answered, "r0")

	var log bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&log, reader) })
	proxytest.Eventually(t, func() bool {
		status, _ := httpCall(t, http.MethodGet, g.admin+"/-/ready", "")
		return status == http.StatusOK
	}, nil)
	equal(t, write(), true)
	equal(t, write(), true)
	lost := g.lostLines()
	must(t, g.cmd.Process.Signal(syscall.SIGTERM))
	g.ends(t)
	reading.Wait()

	lines, reported, unknownLines := map[string]int{}, 0, 0
	for line := range strings.Lines(log.String()) {
		var record struct {
			Msg, ID, Outcome string
			Count            int
		}
		if line != "\n" {
			must(t, json.Unmarshal([]byte(line), &record))
		}
		switch {
		case record.Msg == "request":
			lines[record.ID]++
		case record.Count > 0:
			reported += record.Count
			has(t, line, "nobody has read it for")
		}
		if record.Outcome == "unknown" {
			unknownLines++
		}
	}
	equal(t, unknownLines, unknown)
	equal(t, len(missing(answered, lines)), lost)
	equal(t, reported, lost)
	if lost == 0 {
		t.Error("no line was lost: the buffer was not full")
	}
}

// The pipes of stdout and stderr are full already at the start, and stay so: the gateway starts, and ends.
func TestFullPipesHoldUpNeitherStartNorStop(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	fillPipe(t, writer)
	folder, reports := t.TempDir(), newNotifySocket(t)
	proxytest.WriteFile(t, filepath.Join(folder, "billbridge.yaml"), "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {new: {form: v2, url: http://127.0.0.1:9}}\n")
	cmd := exec.Command("billbridge", "serve", "--config", "billbridge.yaml")
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, writer, writer
	cmd.Env = append(os.Environ(), noRaceSleep, "NOTIFY_SOCKET="+reports.path)
	must(t, cmd.Start())
	_ = writer.Close()
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	reports.want("READY=1")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	must(t, cmd.Wait())
}
