package desk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"billbridge/proxy/partner"
	"billbridge/proxy/sandbox"
)

// Runs are practices that are started over HTTP, for CI. A partner has one at a time. The calls of its test system come
// to a base URL of its own, /r/PARTNER of Base.
type Runs struct {
	Base      string
	Transport http.RoundTripper // calls the hooks and the callback addresses; that of net/http if nil

	running sync.Map // the handlers of calls by partner
}

// Calls returns the handler of the address for partners: calls of no run go to next.
func (r *Runs) Calls(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		rest, ok := strings.CutPrefix(req.URL.Path, "/r/")
		if !ok {
			next.ServeHTTP(w, req)
			return
		}
		name, _, _ := strings.Cut(rest, "/")
		h, ok := r.running.Load(name)
		if !ok {
			h = http.NotFoundHandler()
		}
		http.StripPrefix("/r/"+name, h.(http.Handler)).ServeHTTP(w, req)
	})
}

// Serve answers POST /api/runs: it runs a practice of the partner with a key, or with the key of the plan if it is "".
// The answer is a JSON object a line: the base URL, each case when it ends, and at the end the outcome, the exit code,
// the report and JUnit XML. The run stops when the caller disconnects.
func (r *Runs) Serve(w http.ResponseWriter, req *http.Request, owner string) {
	if req.Method+req.URL.Path != "POST/api/runs" {
		sandbox.Refuse(w, http.StatusNotFound, "expected POST /api/runs")
		return
	}
	var plan Plan
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err == nil {
		plan, err = ParsePlan(text, nil) // JSON is YAML
	}
	if err != nil {
		sandbox.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	name := partner.Of(cmp.Or(owner, plan.Key)).Short()
	if _, runs := r.running.LoadOrStore(name, http.NotFoundHandler()); runs {
		sandbox.Refuse(w, http.StatusConflict, "a run of this partner has not ended")
		return
	}
	defer r.running.Delete(name)
	w.Header().Set("Content-Type", "application/jsonl")
	say := func(line any) {
		_ = json.NewEncoder(w).Encode(line) // an error means that the caller has disconnected, which ends the run
		_ = http.NewResponseController(w).Flush()
	}
	base := r.Base + "/r/" + name
	say(map[string]string{"base_url": base})
	res := Run(req.Context(), Config{
		Plan: plan, Transport: r.Transport, BaseURL: base,
		Mount:    func(h http.Handler) { r.running.Store(name, h) },
		Progress: func(v Verdict) { say(v) },
	})
	var report, junit bytes.Buffer
	_, _ = Report(&report, res), JUnit(&junit, res) // in memory they do not fail
	say(map[string]any{
		"outcome": res.Outcome(), "exit_code": ExitCodes[res.Outcome()],
		"report": report.String(), "junit": junit.String(),
	})
}
