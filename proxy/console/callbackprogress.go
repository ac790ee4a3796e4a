package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"billbridge/proxy/relay"
)

// bulkKeys are the fields of the form of a decision about several callbacks, as in the API.
var bulkKeys = []string{"partner", "bill", "upstream", "since", "until"}

// A progressPage is the data of the page callback-progress.
type progressPage struct{ Do string }

// decideWithProgress decides about all dead callbacks of the form, and writes the page while the work goes on. The work ends when the
// visitor leaves the page.
func (c *Console) decideWithProgress(w http.ResponseWriter, r *http.Request, do string) {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusBadRequest, "error.form")
		return
	}
	q := url.Values{"by": {by(r)}}
	for key, values := range r.PostForm {
		if slices.Contains(bulkKeys, key) {
			q[key] = values
		}
	}
	page, err := c.render(r, "callback-progress", "base", progressPage{Do: do})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	before, after, _ := bytes.Cut(page, []byte(progressMark))
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "/callbacks/"+do+"?"+q.Encode(), nil)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	request.RemoteAddr = r.RemoteAddr
	to := &progressWriter{recorder: recorder{header: http.Header{}, status: http.StatusOK}, page: w, before: before, line: func(p relay.Progress) (string, error) {
		text, err := c.render(r, "callback-progress", "line", p)
		return string(text), err
	}}
	if c.options.Callbacks == nil {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	c.options.Callbacks.ServeHTTP(to, request)
	if !to.begun { // refused
		c.fail(w, r, &apiError{to.status, strings.TrimSpace(to.body.String())})
		return
	}
	_, _ = w.Write(after)
}

// progressMark is where the lines of progress stand in the page callback-progress.
const progressMark = `<li hidden></li>`

// A progressWriter writes the lines of an answer of the API as lines of a page. An answer that is not 200 is kept.
type progressWriter struct {
	recorder
	page   http.ResponseWriter
	before []byte // the page before the first line
	line   func(relay.Progress) (string, error)
	begun  bool
}

func (p *progressWriter) Write(part []byte) (int, error) {
	if p.status != http.StatusOK {
		return p.recorder.Write(part)
	}
	var step relay.Progress
	if err := json.Unmarshal(part, &step); err != nil { // the API writes one line at a time
		return 0, fmt.Errorf("the progress cannot be read: %w", err)
	}
	text, err := p.line(step)
	if err != nil {
		return 0, err
	}
	if !p.begun {
		p.begun = true
		p.page.Header().Set("Content-Type", "text/html; charset=utf-8")
		text = string(p.before) + text
	}
	if _, err := p.page.Write([]byte(text)); err != nil {
		return 0, err
	}
	return len(part), http.NewResponseController(p.page).Flush()
}

// FlushError implements what http.ResponseController looks for: each line is flushed when it is written.
func (p *progressWriter) FlushError() error { return nil }
