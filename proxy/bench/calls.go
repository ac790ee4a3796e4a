package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// idPlace stands for the id in a body of which each call has another one. It has the length of an id.
const idPlace = "-------the id-------"

// scriptOfBody is the script of wrk that makes calls with one body. If the body has a place for an id, each call of each run has another one.
func scriptOfBody(body string) string {
	if !strings.Contains(body, idPlace) {
		return fmt.Sprintf("wrk.body = [[%s]]\n", body)
	}
	return callsScript("", body)
}

// callsScript is the script of wrk for calls whose body has a place for an id. If targets is not empty, it is a Lua list of paths and
// bills that the calls use in turn.
func callsScript(targets, body string) string {
	return fmt.Sprintf(`
local targets = {%s}
local run, n = 0, 0
function init(args)
	run = tonumber(args[1])
end
function request()
	n = n + 1
	local path, text = wrk.path, [[%s]]
	if #targets > 0 then
		local target = targets[n %% #targets + 1]
		path, text = target[1], text:gsub("BILL", target[2])
	end
	text = text:gsub("%s", string.format("R%%05d%%014d", run, n))
	return wrk.format(nil, path, nil, text)
end
`, targets, body, strings.ReplaceAll(idPlace, "-", "%-"))
}

// billID is the id of a call that this program makes itself.
func billID(n int) string { return fmt.Sprintf("P%019d", n) }

// post makes one call. The answer must be 200 OK.
func (l *lab) post(s *subject) ([]byte, error) {
	l.calls++
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	body := strings.ReplaceAll(s.body, idPlace, billID(l.calls))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.process.at+s.path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer was %s: %s", response.Status, answer)
	}
	return answer, err
}

// await makes calls until the answer contains a text.
func (l *lab) await(s *subject, text string) (err error) {
	for range 300 {
		var answer []byte
		if answer, err = l.post(s); err == nil {
			if bytes.Contains(answer, []byte(text)) {
				return nil
			}
			err = fmt.Errorf("%q is missing in the answer %s", text, answer)
		}
		if err := l.sleep(50 * time.Millisecond); err != nil {
			return err
		}
	}
	return s.failed(err)
}

// prepare waits until each process answers as it should, and writes the scripts of wrk.
func (l *lab) prepare(subjects []*subject) error {
	for _, s := range subjects {
		if s.process != nil && s.before != nil {
			if err := s.before(s); err != nil {
				return err
			}
		}
	}
	for i, s := range subjects {
		if s.process == nil {
			continue
		}
		if err := l.await(s, s.answer); err != nil {
			return err
		}
		if s.script == "" {
			s.script = scriptOfBody(s.body)
		}
		s.file = filepath.Join(l.dir, fmt.Sprintf("call%d.lua", i))
		script := "wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\n" + s.script
		if err := os.WriteFile(s.file, []byte(script), 0o600); err != nil {
			return err
		}
	}
	return nil
}
