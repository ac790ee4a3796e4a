package console

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/translate/billing"
)

//go:embed templates text
var files embed.FS

// A handler answers a request. An error becomes the page error.
type handler func(r *http.Request) (answer, error)

// An answer is a page, or where the visitor goes next.
type answer struct {
	page   string // its template
	part   string // the block of it that htmx asks for; "" if it asks for none
	data   any
	status int    // 0 for 200
	to     string // an address
}

// show answers with a page.
func show(page string, data any) (answer, error) { return answer{page: page, data: data}, nil }

// goTo sends the visitor to another page.
func goTo(address string) (answer, error) { return answer{to: address}, nil }

// A refusal is the page error with the text of a key.
type refusal struct {
	status int
	key    string
}

func (e refusal) Error() string { return e.key }

var (
	errPath = refusal{http.StatusNotFound, "error.path"}
	errForm = refusal{http.StatusBadRequest, "error.form"}
)

// withProblem shows an error on a page if it is about what the visitor asked for.
func withProblem(r *http.Request, a answer, problem *string, err error, also ...operate.Refusal) (answer, error) {
	text, ok := problemOf(err, also...)
	if !ok {
		return a, err
	}
	if *problem = text; r.Method == http.MethodPost {
		a.status = http.StatusConflict
	}
	return a, nil
}

// doneOf returns what was done just now, by the address to which the visitor was sent: one of some.
func doneOf(r *http.Request, some ...string) string {
	if done := r.URL.Query().Get("done"); slices.Contains(some, done) {
		return done
	}
	return ""
}

// serve writes what a handler answers.
func (c *Console) serve(answers handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := answers(r)
		var own refusal
		switch {
		case errors.As(err, &own):
			c.site.Refuse(w, r, own.status, own.key)
		case err != nil:
			c.site.Fail(w, r, statusOf(err), err)
		case a.to != "":
			http.Redirect(w, r, a.to, http.StatusSeeOther)
		case a.part != "" && pages.IsPart(r): // htmx shows the parts of status 200 only
			c.site.Part(w, r, a.page, a.part, a.data)
		default:
			c.site.PageWithStatus(w, r, cmp.Or(a.status, http.StatusOK), a.page, a.data)
		}
	}
}

// functions are the functions of the templates, beside those of package pages:
//
//	{{words .About}}          an English text of the table, what becomes of a field, or a note of the rollout
//	{{t "key" arg…}}          the text of a key with texts, numbers, times, durations and notes, or lists of these;
//	                          of {one|many} it has the part for the first of them
//	{{partner .ID id…}}       a partner: its name and the 12 digits, a link with an id if there is a rollout
//	{{bill .Bill}}            the id of a bill, hidden if it does not look like one
//	{{if shown .Bill}}        whether package operate has not hidden the id of a bill
//	{{at_least .Count}}       an operate.Number, with + if there are more
//	{{milliseconds .Took}}    a duration in milliseconds
//	{{rounded .P50}}          a duration with a unit and two digits; {{took .Took}} one in seconds
//	{{nobreak .String}}       a stage, whose % stays with its number
func (c *Console) functions(lang string) template.FuncMap {
	return template.FuncMap{
		"words": func(of any) template.HTML { return c.texts.words(lang, of) },
		"t":     func(key string, args ...any) (template.HTML, error) { return c.t(lang, key, args...) },

		"partner": c.partner,
		"bill":    billing.MaskBill,
		"shown":   func(bill string) bool { return bill != billing.Hidden },

		"at_least":     atLeast,
		"milliseconds": milliseconds,
		"rounded":      rounded,
		"took":         func(seconds float64) string { return rounded(time.Duration(seconds * float64(time.Second))) },
		"nobreak":      func(stage any) string { return strings.ReplaceAll(fmt.Sprint(stage), " ", "\u00a0") },
	}
}

// choice are the parts of a text for one and for many.
var choice = regexp.MustCompile(`\{([^|}]*)\|([^}]*)\}`)

// t returns the text of a key with arguments, as HTML.
func (c *Console) t(lang, key string, args ...any) (template.HTML, error) {
	if len(args) == 1 {
		if list, ok := args[0].([]any); ok {
			args = list
		}
	}
	shown, part := make([]any, len(args)), "$2"
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			shown[i] = arg
		case template.HTML:
			shown[i] = arg
		case evidence.Note:
			shown[i] = c.texts.words(lang, arg)
		case string:
			shown[i] = template.HTML(template.HTMLEscapeString(arg))
		case time.Duration:
			shown[i] = c.lasting(lang, arg)
		case time.Time, *time.Time:
			shown[i], _ = c.site.Time(arg)
		default:
			shown[i] = template.HTML(template.HTMLEscapeString(fmt.Sprint(arg)))
		}
	}
	if len(shown) > 0 && fmt.Sprint(shown[0]) == "1" {
		part = "$1"
	}
	text, err := c.texts.T(lang, key)
	text = choice.ReplaceAllString(template.HTMLEscapeString(text), part)
	if len(shown) > 0 {
		text = fmt.Sprintf(text, shown...)
	}
	return template.HTML(text), err
}

// lasting returns a duration in its largest unit of which it has more than one.
func (c *Console) lasting(lang string, d time.Duration) template.HTML {
	key, unit := "lasting.s", time.Second
	switch {
	case d >= 48*time.Hour:
		key, unit = "lasting.d", 24*time.Hour
	case d >= 2*time.Hour:
		key, unit = "lasting.h", time.Hour
	case d >= 2*time.Minute:
		key, unit = "lasting.min", time.Minute
	}
	text, _ := c.t(lang, key, int(d/unit)) // a test has read it
	return text
}

// partner returns a partner as HTML: the name of the config, if it has one, and the first digits of the ID. With a
// rollout it is a link to the page of the partner, and element is its id.
func (c *Console) partner(id any, element ...string) template.HTML {
	full := fmt.Sprint(id)
	if full == "" { // an event
		return "–"
	}
	digits := template.HTMLEscapeString(full[:min(len(full), 12)])
	begin, end := `<span class="partner"`, "</span>"
	if c.Operator.Rollout != nil {
		begin, end = `<a class="partner" href="/partners/`+digits+`"`, "</a>"
	}
	for _, one := range element {
		begin += ` id="` + template.HTMLEscapeString(one) + `"`
	}
	begin += ">"
	if name := c.Config().Partners.Name(full); name != "" {
		begin += `<span class="partner-name">` + template.HTMLEscapeString(name) + `</span>`
	}
	return template.HTML(begin + "<code>" + digits + "</code>" + end)
}

// zone returns the zone of the times for browsers without scripts.
