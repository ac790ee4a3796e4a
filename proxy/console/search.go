package console

import (
	_ "embed" // for search.tmpl
	"encoding/json"
	"strings"
	"sync"
	"text/template"
	"time"

	"billbridge/translate"
)

//go:embed search.tmpl
var searchText string

var searchTemplate = sync.OnceValue(func() *template.Template {
	functions := template.FuncMap{"quoted": quoted, "milliseconds": milliseconds}
	return template.Must(template.New("").Funcs(functions).Parse(searchText))
})

// searchOf returns a command that finds the calls of a filter in the log. A line of the log has a bill only if the
// outcome is unknown.
func (c *Console) searchOf(f *callFilter) string {
	config, upstreams := c.Config(), []string{}
	for _, u := range config.Upstreams {
		if string(u.Form) == f.Get("form") {
			upstreams = append(upstreams, u.Name)
		}
	}
	table, codes := config.Table, []string{"none"}
	for _, form := range table.Forms() {
		codes = append(codes, table.Envelope(form).Success)
	}
	var text strings.Builder
	_ = searchTemplate().Execute(&text, struct { // a test has run it
		*callFilter
		Keys, Upstreams, Codes, Partners []string
		Slower                           time.Duration
		NotServed                        string
	}{
		f,
		[]string{"operation", "client", "upstream", "route", "code", "bill"},
		upstreams, codes, f.partners, f.slower,
		table.Own[translate.OwnUnavailable],
	})
	return text.String()
}

// quoted returns a value for a jq program between the single quotes of a shell.
func quoted(value any) string {
	text, _ := json.Marshal(value) // texts only
	return strings.ReplaceAll(string(text), "'", `\u0027`)
}
