package desk

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	var in struct {
		Plan json.RawMessage `json:"plan"`
		Hook string          `json:"hook"`
		Case []string        `json:"case"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, req.Body, 64<<10))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	plan := Plan{}
	if err == nil {
		plan, err = ParsePlan(in.Plan) // JSON is YAML
	}
	if err == nil {
		err = plan.Choose(in.Case)
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
	res, err := Run(req.Context(), Config{
		Plan: plan, Hook: in.Hook, Transport: r.Transport, BaseURL: base,
		Mount: func(h http.Handler) { r.running.Store(name, h) },
		Progress: func(one Case, v Verdict) {
			say(struct {
				Title string `json:"title"`
				Verdict
				Why string `json:"why,omitempty"`
			}{one.Title, v, v.Why()})
		},
	})
	if err != nil {
		say(map[string]string{"error": err.Error()})
		return
	}
	var report, junit bytes.Buffer
	_, _ = Report(&report, res), JUnit(&junit, res) // in memory they do not fail
	say(map[string]any{
		"outcome": res.Outcome(), "exit_code": ExitCodes[res.Outcome()], "report": report.String(), "junit": junit.String(),
	})
}
