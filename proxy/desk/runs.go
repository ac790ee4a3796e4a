package desk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/partner"
)

const (
	mostRuns    = 4  // at the same time
	keptRuns    = 20 // the oldest that has ended is forgotten
	mostOfAPlan = 64 << 10

	statusRunning = "RUNNING"
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9-]{1,40}$`)

// Runs are practices that are started and followed over HTTP, for CI. The calls of the partner reach a run below
// /r/NAME/ of Base, or /r/PARTNER-NAME/ if a partner has started it. Its name is its ID if the caller gives it none.
//
//	POST   /api/runs              {"plan","hook","name","case","attempts"}: starts a practice
//	GET    /api/runs              the runs, the newest first
//	GET    /api/runs/{id}         a run: the cases that have ended, and at the end its outcome and exit code
//	GET    /api/runs/{id}/report  after the end: the report
//	GET    /api/runs/{id}/junit   after the end: the results as JUnit XML
//	DELETE /api/runs/{id}         stops a run
type Runs struct {
	Base      string
	Context   context.Context   // runs stop when it ends
	Transport http.RoundTripper // calls the hooks and the callback addresses; that of net/http if nil

	mu   sync.Mutex
	list []*practice
}

// A practice is a run of Runs.
type practice struct {
	ID       string    `json:"id"`
	BaseURL  string    `json:"base_url"` // for the calls of the partner
	Began    time.Time `json:"began"`
	Status   string    `json:"status"`            // RUNNING, FINISHED, or INTERRUPTED if it was stopped
	Outcome  string    `json:"outcome,omitempty"` // see Result
	ExitCode *int      `json:"exit_code,omitempty"`
	Error    string    `json:"error,omitempty"` // of the desk
	Cases    []caseRow `json:"cases"`

	name    string // in BaseURL
	owner   string
	stop    context.CancelFunc
	handler http.Handler      // nil before the run
	pages   map[string][]byte // report and junit; nil before the end
}

// A caseRow is the verdict of an attempt.
type caseRow struct {
	Title string `json:"title"`
	Verdict
	Why string `json:"why,omitempty"`
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
		handler := http.NotFoundHandler()
		r.change(func() {
			if p := r.running(name); p != nil && p.handler != nil {
				handler = p.handler
			}
		})
		http.StripPrefix("/r/"+name, handler).ServeHTTP(w, req)
	})
}

// running returns the run with a name that runs. It needs the lock.
func (r *Runs) running(name string) *practice {
	for _, p := range r.list {
		if p.name == name && p.Status == statusRunning {
			return p
		}
	}
	return nil
}

// Serve answers a call of the API. An owner sees only its own runs, "" all.
func (r *Runs) Serve(w http.ResponseWriter, req *http.Request, owner string) {
	id, what, _ := strings.Cut(strings.Trim(strings.TrimPrefix(req.URL.Path, "/api/runs"), "/"), "/")
	if id == "" && req.Method == http.MethodPost {
		r.start(w, req, owner)
		return
	}
	kind, status, body := typeJSON, http.StatusOK, any(nil)
	var out []byte
	r.change(func() { // a caller that reads slowly must not hold the lock
		list := slices.DeleteFunc(slices.Clone(r.list), func(p *practice) bool {
			return owner != "" && p.owner != owner || id != "" && p.ID != id
		})
		slices.Reverse(list)
		types := map[string]string{"GET report": "text/html; charset=utf-8", "GET junit": "application/xml"}
		switch call := req.Method + " " + what; {
		case id == "" && call == "GET ":
			body = append([]*practice{}, list...)
		case id == "" || len(list) == 0:
			status, body = http.StatusNotFound, errors.New("there is no such run")
		case call == "GET ":
			body = list[0]
		case call == "DELETE ":
			list[0].stop()
			body = list[0]
		case types[call] == "":
			status, body = http.StatusMethodNotAllowed, errors.New("no such call")
		case list[0].pages == nil:
			status, body = http.StatusConflict, errors.New("the run has not ended")
		default:
			kind, out = types[call], list[0].pages[what]
		}
		if body != nil {
			out = asJSON(body)
		}
	})
	answer(w, status, kind, out)
}

// start starts a practice.
func (r *Runs) start(w http.ResponseWriter, req *http.Request, owner string) {
	var in struct {
		Plan     json.RawMessage `json:"plan"`
		Hook     string          `json:"hook"`
		Name     string          `json:"name"`
		Case     []string        `json:"case"`
		Attempts int             `json:"attempts"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, req.Body, mostOfAPlan))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	c := Config{
		Hook: in.Hook, Attempts: in.Attempts, Client: &http.Client{Transport: r.Transport}, Callbacks: r.Transport,
	}
	if err == nil {
		c.Plan, err = ParsePlan(in.Plan) // JSON is YAML
	}
	if err == nil {
		err = c.Plan.Choose(in.Case)
	}
	c.Plan.Run = strings.ToLower(rand.Text()[:6])
	in.Name = cmp.Or(in.Name, c.Plan.Run)
	switch {
	case err != nil:
	case !strings.HasPrefix(in.Hook, "http://") && !strings.HasPrefix(in.Hook, "https://"):
		err = errors.New("hook: expected the base URL of the order hook")
	case !goodName.MatchString(in.Name):
		err = errors.New("name: expected 1 to 40 letters, digits or -")
	}
	if err != nil {
		answer(w, http.StatusBadRequest, typeJSON, asJSON(err))
		return
	}
	if owner != "" { // its names are not those of others
		in.Name = partner.Of(owner).Short() + "-" + in.Name
	}
	ctx, stop := context.WithCancel(r.Context)
	p := &practice{
		ID: c.Plan.Run, BaseURL: r.Base + "/r/" + in.Name, Began: time.Now().UTC(), Status: statusRunning,
		Cases: []caseRow{}, name: in.Name, owner: owner, stop: stop,
	}
	c.BaseURL = p.BaseURL
	c.Mount = func(h http.Handler) { r.change(func() { p.handler = h }) }
	c.Progress = func(one Case, v Verdict) {
		r.change(func() { p.Cases = append(p.Cases, caseRow{one.Title, v, v.Why()}) })
	}
	status, body := http.StatusCreated, []byte(nil)
	r.change(func() {
		running := 0
		for _, one := range r.list {
			if one.Status == statusRunning && one.owner == owner {
				running++
			}
		}
		switch {
		case running >= mostRuns:
			err = errors.New("too many runs at once: wait for one, or stop it with DELETE")
		case r.running(in.Name) != nil:
			err = errors.New("name: a run has this name, and has not ended: stop it with DELETE")
		}
		if err != nil {
			stop()
			status, body = http.StatusConflict, asJSON(err)
			return
		}
		if ended := slices.IndexFunc(r.list, func(p *practice) bool { return p.Status != statusRunning }); ended >= 0 &&
			len(r.list) >= keptRuns {
			r.list = slices.Delete(r.list, ended, ended+1)
		}
		r.list = append(r.list, p)
		body = asJSON(p)
		go r.run(ctx, p, c)
	})
	answer(w, status, typeJSON, body)
}

// change changes a practice.
func (r *Runs) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// run runs a practice to its end.
func (r *Runs) run(ctx context.Context, p *practice, c Config) {
	defer p.stop()
	res, err := Run(ctx, c)
	var report, junit bytes.Buffer
	_, _ = Report(&report, res), JUnit(&junit, res) // in memory they do not fail
	r.change(func() {
		p.Status, p.pages = "FINISHED", map[string][]byte{"report": report.Bytes(), "junit": junit.Bytes()}
		if err != nil {
			p.Status, p.Error = Interrupted, err.Error()
			return
		}
		p.Outcome = res.Outcome()
		code := ExitCodes[p.Outcome]
		p.ExitCode = &code
	})
}

const typeJSON = "application/json; charset=utf-8"

// asJSON returns a value, or an error as the control API of the sandbox writes it.
func asJSON(v any) []byte {
	if err, failed := v.(error); failed {
		v = map[string]string{"error": err.Error()}
	}
	text, _ := json.Marshal(v) // it has texts, numbers and times only
	return append(text, '\n')
}

func answer(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
