package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"billbridge/translate"
)

// maxDocument is the most that a visitor can paste, in bytes.
const maxDocument = 1 << 20

// A playgroundPage is the data of the page playground. It has what the visitor has pasted, which is never stored and
// never logged.
type playgroundPage struct {
	playgroundForm
	Table  *translate.Table
	Result *playgroundResult
}

// A playgroundForm is what the visitor has filled in. From and To are the forms of the message: a reply goes from the
// form of the upstream to that of the client.
type playgroundForm struct {
	Operation, Message string
	From, To           translate.Form
	Status             string // of a reply
	Request            string // of a reply
	Document           string
}

// Reply reports whether the message is a reply.
func (f playgroundForm) Reply() bool { return f.Message == string(translate.Reply) }

// Direction is the value of the field direction.
func (f playgroundForm) Direction() string { return string(f.From) + " " + string(f.To) }

// Directions returns the values of the field direction.
func (p playgroundPage) Directions() []playgroundForm {
	var list []playgroundForm
	forms := p.Table.Forms()
	for i, from := range forms {
		for _, to := range []translate.Form{forms[1-i], from} {
			list = append(list, playgroundForm{From: from, To: to})
		}
	}
	return list
}

// playground translates a document that the visitor has pasted. It is sent with POST, so that it is in no address and
// in no log.
func (c *Console) playground(r *http.Request) (answer, error) {
	p, status := &playgroundPage{Table: c.Config().Table}, http.StatusOK
	if err := r.ParseForm(); err != nil {
		p.fill(nil)
		status, p.Result = http.StatusBadRequest, &playgroundResult{Problem: "playground.bad_form"}
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status, p.Result.Problem = http.StatusRequestEntityTooLarge, "playground.too_large"
		}
	} else {
		p.answer(r)
	}
	return answer{page: "playground", part: "result", data: p, status: status}, nil
}

// maxTry bounds how long a try waits for others, how long its form may take to arrive, and its page to be read.
const maxTry = 10 * time.Second

// oneAtATime serves one try after the other: what a form of some MiB becomes takes many times its memory, and a token
// that may only read is enough to send it. The others wait before their form is read.
func (c *Console) oneAtATime(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case c.trying <- struct{}{}:
		case <-time.After(maxTry):
			c.site.Refuse(w, r, http.StatusServiceUnavailable, "playground.busy")
			return
		case <-r.Context().Done():
			return
		}
		defer func() { <-c.trying }()
		control, until := http.NewResponseController(w), time.Now().Add(maxTry)
		// A form that arrives slowly holds up the others no longer. Without a connection, as in tests, there is no
		// deadline.
		_ = errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until.Add(maxTry)))
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
		serve(w, r)
	}
}

// answer fills in the form of a request, and translates its document.
func (p *playgroundPage) answer(r *http.Request) {
	values := r.PostForm
	if r.Method != http.MethodPost { // a link cannot fill in a document: an address ends in histories and logs
		values = url.Values{}
		for _, name := range []string{"operation", "message", "direction"} {
			values.Set(name, r.FormValue(name))
		}
	}
	p.fill(values)
	if r.Method != http.MethodPost || r.PostFormValue("do") == "example" {
		p.fillExample()
	}
	p.Result = p.translate()
}

// fill takes the fields of the form. A missing operation, message or direction becomes the first that the table has,
// so a link to the page can leave out any.
func (p *playgroundPage) fill(values url.Values) {
	// Browsers send a line break as two bytes.
	value := func(name string) string { return strings.ReplaceAll(values.Get(name), "\r\n", "\n") }
	p.Operation, p.Message, p.Status = value("operation"), value("message"), cmp.Or(value("status"), "200")
	p.Request, p.Document = value("request"), value("document")
	if from, to, ok := strings.Cut(value("direction"), " "); ok {
		p.From, p.To = translate.Form(from), translate.Form(to)
	}
	if all := p.Table.Operations; p.Operation == "" && len(all) > 0 {
		p.Operation = all[0].Name
	}
	if p.Message != string(translate.Reply) || p.callback() != nil {
		p.Message = string(translate.Request)
	}
	forms := p.Table.Forms()
	if slices.Contains(forms[:], p.From) && slices.Contains(forms[:], p.To) {
		return
	}
	o, v2, legacy := p.Table.Operation(p.Operation), forms[0], forms[1]
	for _, forms := range [][2]translate.Form{{legacy, v2}, {v2, v2}, {legacy, legacy}} { // it may be of one form
		if p.From, p.To = forms[0], forms[1]; o == nil || o.Translation(p.From, p.To) != nil {
			return
		}
	}
}

// callback returns the callback of the table if that is the operation, or nil.
func (p *playgroundPage) callback() *translate.Callback {
	if callback := p.Table.Callback; callback != nil && callback.Name == p.Operation {
		return callback
	}
	return nil
}

// translation returns the translation of the operation, or nil.
func (p *playgroundPage) translation() *translate.Translation {
	client, upstream := p.From, p.To
	if p.Reply() {
		client, upstream = p.To, p.From
	}
	if o := p.Table.Operation(p.Operation); o != nil {
		return o.Translation(client, upstream)
	}
	return nil
}

// fillExample fills in an example of the message.
func (p *playgroundPage) fillExample() {
	example := func(s *translate.Schema) string { return pretty(s.Example) }
	o := p.Table.Operation(p.Operation)
	switch callback := p.callback(); {
	case callback != nil:
		p.Document = example(callback.Schema(p.From))
	case p.translation() == nil:
	case p.Reply():
		p.Request = example(o.Schema(translate.Request, p.To))
		p.Document = example(o.Schema(translate.Reply, p.From))
	default:
		p.Document = example(o.Schema(translate.Request, p.From))
	}
}
