package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idPlace stands for the id in a body of which each call has another one. It has the length of an id.
const idPlace = "-------the id-------"

// callsScript is a script of wrk for calls. If the body has a place for an id, each call of each run has another one,
// and the calls are those of a number of partners in turn.
// If targets is not empty, it is a Lua list of paths and bills that the calls use in turn. At the end it prints what
// wrk has measured.
const callsScript = `
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local targets = {%s}
local run, n = 0, 0
function init(args)
	run = tonumber(args[1])
end
local body = [[%s]]
if body:find("%[3]s") then
	function request()
		n = n + 1
		local path, text = wrk.path, body
		if #targets > 0 then
			local target = targets[n %% #targets + 1]
			path, text = target[1], text:gsub("BILL", target[2])
		end
		text = text:gsub("%[3]s", string.format("R%%05d%%014d", run, n))
		if %[4]d > 1 then
			text = text:gsub("demo%%-partner", "demo-partner-" .. n %% %[4]d)
		end
		return wrk.format(nil, path, nil, text)
	end
else
	wrk.body = body
end
function done(all, latency)
	local e = all.errors
	local failed = e.connect + e.read + e.write + e.status + e.timeout
	local per_second = all.requests / all.duration * 1e6
	io.write(string.format("measured: %%d %%d %%f %%d %%d\n", failed, all.requests, per_second, latency:percentile(99),
		latency:percentile(50)))
end
`

// billID is the id of a call that this program makes itself.
func billID(n int) string { return fmt.Sprintf("P%019d", n) }

// client makes single calls, to servers with the certificate of the lab, too.
var client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// post makes one call. The answer must be 200 OK and contain a text.
func (l *lab) post(s *subject, text string) (answer []byte, err error) {
	l.calls++
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	body := strings.NewReplacer(idPlace, billID(l.calls), "BILL", s.bill).Replace(s.body)
	address := l.scheme + "://" + s.process.at + s.path
	request := get(http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body)))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	answer, err = io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(text))) {
		err = fmt.Errorf("the answer was %s: %s, want %s", response.Status, answer, text)
	}
	return answer, err
}

// await makes calls until the answer contains a text.
func (l *lab) await(s *subject, text string) {
	s.must(l.until(func() error {
		_, err := l.post(s, text)
		return err
	}))
}

// prepare waits until each process answers as it should, and writes the scripts of wrk.
func (l *lab) prepare(subjects []*subject) {
	for _, s := range subjects {
		if s.process != nil && s.before != nil {
			s.before(s)
		}
	}
	for i, s := range subjects {
		if s.process == nil {
			continue
		}
		l.await(s, s.answer)
		s.file = filepath.Join(l.dir, fmt.Sprintf("call%d.lua", i))
		script := fmt.Appendf(nil, callsScript, s.targets, s.body, strings.ReplaceAll(idPlace, "-", "%-"), s.partners)
		must(os.WriteFile(s.file, script, 0o600))
	}
}

// wrk makes calls for a time. The script gets the number of the run.
func (l *lab) wrk(s *subject, seconds, connections int) (r sample) {
	l.runs++
	// Calls that take long are a result, not a failure: so the timeout is long.
	wrk := exec.CommandContext(l.ctx, "wrk", "--timeout", "30s", "-t", "1", "-c", strconv.Itoa(connections),
		"-d", strconv.Itoa(seconds)+"s", "-s", s.file, l.scheme+"://"+s.process.at+s.path, "--", strconv.Itoa(l.runs))
	out, err := wrk.CombinedOutput()
	must(l.ctx.Err()) // wrk ends without an error after Ctrl-C
	var failed int
	_, measured, _ := bytes.Cut(out, []byte("measured: "))
	if err == nil {
		_, err = fmt.Sscan(string(measured), &failed, &r.calls, &r.perSecond, &r.p99, &r.p50)
	}
	if err == nil && (failed > 0 || r.calls == 0) {
		err = fmt.Errorf("%d calls failed", failed)
	}
	if err != nil {
		s.must(fmt.Errorf("wrk: %w\n%s", err, out))
	}
	return r
}
