package console

import (
	"bytes"
	"net/http"

	"billbridge/proxy/operate"
)

// A progressPage is the data of the page callback-progress.
type progressPage struct{ Do string }

// progressMark is where the lines of progress stand in the page callback-progress.
const progressMark = `<li hidden></li>`

// decideWithProgress decides about all dead callbacks of the form, and writes the page while the work goes on. The
// work ends when the visitor leaves the page.
func (c *Console) decideWithProgress(w http.ResponseWriter, r *http.Request, do string) {
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusBadRequest, "error.form")
		return
	}
	page, err := c.render(r, "callback-progress", "base", progressPage{Do: do})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	before, after, _ := bytes.Cut(page, []byte(progressMark))
	var s operate.Selection
	form := r.PostForm
	form.Set("by", by(r))
	if err := operate.Decode(without(form), &s); err != nil {
		c.fail(w, r, err)
		return
	}
	err = c.decision(do)(r.Context(), s, func(step operate.Progress) {
		line, err := c.render(r, "callback-progress", "line", step)
		if err != nil {
			c.options.Logger.Error("a line of progress cannot be written", "error", err.Error())
		}
		if before != nil {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			line, before = append(before, line...), nil
		}
		_, _ = w.Write(line) // if the visitor has gone, the context of the request ends the work
		_ = http.NewResponseController(w).Flush()
	})
	if err != nil { // refused
		c.fail(w, r, err)
		return
	}
	_, _ = w.Write(after)
}
