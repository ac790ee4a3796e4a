package console

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"billbridge/proxy/rollout/evidence"
	"billbridge/translate"
	"billbridge/translate/billing"
)

//go:embed templates text
var files embed.FS

// fail writes the page error for an error of package operate.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	c.site.Fail(w, r, statusOf(err), err)
}

// functions are the functions of the templates, beside those of package pages:
//
//	{{translated .Text}}      an English text of the table
//	{{details .Detail}}       what a translation does with a field
//	{{note .Text .Note}}      a note of the rollout, with its English text
//	{{partner .ID id…}}       a partner: its name and the 12 digits, a link with an id if there is a rollout
//	{{bill .Bill}}            the id of a bill, hidden if it does not look like one
//	{{if shown .Bill}}        whether package operate has not hidden the id of a bill
//	{{at_least .Count}}       an operate.Number, with + if there are more
//	{{milliseconds .Took}}    a duration in milliseconds
//	{{rounded .P50}}          a duration with a unit and two digits
func (c *Console) functions(lang string) template.FuncMap {
	all := c.texts
	return template.FuncMap{
		"translated": func(english string) template.HTML { return all.translated(lang, english) },
		"details":    func(d translate.Details) template.HTML { return all.details(lang, d) },
		"note":       func(n evidence.Note) template.HTML { return note(lang, n) },

		"partner": c.partner,
		"bill":    billing.MaskBill,
		"shown":   func(bill string) bool { return bill != billing.Hidden },

		"at_least":     atLeast,
		"milliseconds": milliseconds,
		"rounded":      rounded,
	}
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
	if c.options.Operator.Rollout != nil {
		begin, end = `<a class="partner" href="/partners/`+digits+`"`, "</a>"
	}
	for _, one := range element {
		begin += ` id="` + template.HTMLEscapeString(one) + `"`
	}
	begin += ">"
	if name := c.options.Config().Partners.Name(full); name != "" {
		begin += `<span class="partner-name">` + template.HTMLEscapeString(name) + `</span>`
	}
	return template.HTML(begin + "<code>" + digits + "</code>" + end)
}

// zone returns the zone of the times for browsers without scripts.
func (c *Console) zone() *time.Location { return c.options.Config().Console.Zone.Location }
