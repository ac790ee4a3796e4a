package console

import (
	"net/http"
	"slices"
	"strings"

	"billbridge/proxy/pages"
	"billbridge/translate"
)

// maxTableRows is the most rows of the table on one page. An overlay can have 10,000.
const maxTableRows = 1000

// A tablePage is the data of the page table.
type tablePage struct {
	Query      string
	Forms      [2]translate.Form
	Operations []tableOperation
	Codes      []translate.CodeMeaning
	Count      int  // the number of rows
	Cut        bool // there are more

	shown func(translate.Details) string // in the language of the page, for the search
}

// A tableOperation is an operation, or the callback, with the rows that match the search.
type tableOperation struct {
	Name     string
	Paths    [2]string // by form; "" if the form lacks it
	Effect   translate.Effect
	Method   string // of the callback; "" for an operation
	Messages []tableMessage
}

// A tableMessage is the request or the reply of an operation.
type tableMessage struct {
	Name string // request, reply or callback
	Rows []tableRow
}

// A tableRow is a field in both forms, and by target form what a translation does with it.
type tableRow struct {
	Paths   [2]string
	About   string
	Towards [2]tableTowards // by form
}

// A tableTowards is what a translation to one form does. Class is "" if the field cannot get there.
type tableTowards struct {
	Class  translate.Class
	Detail translate.Details
}

// table shows the table in use, or the part of it that matches the words of q.
func (c *Console) table(r *http.Request) (answer, error) {
	query := r.FormValue("q")
	shown := func(d translate.Details) string { return c.texts.in(pages.Language(r), d) }
	p := newTablePage(c.Config().Table, query[:min(len(query), 200)], shown)
	return answer{page: "table", part: "rows", data: p}, nil
}

func newTablePage(t *translate.Table, query string, shown func(translate.Details) string) *tablePage {
	p := &tablePage{Query: strings.ToValidUTF8(query, ""), Forms: t.Forms(), shown: shown}
	words := strings.Fields(strings.ToLower(p.Query))
	for _, o := range t.Operations() {
		paths := [2]string{o.Path(p.Forms[0]), o.Path(p.Forms[1])}
		p.add(words, tableOperation{Name: o.Name, Paths: paths, Effect: o.Effect}, o.Fields())
	}
	if callback := t.Callback; callback != nil {
		p.add(words, tableOperation{Name: callback.Name, Method: callback.Method}, callback.Fields())
	}
	for _, m := range t.Meanings() {
		if matches(words, m.Code, string(m.Form), string(m.Means)) {
			p.Codes = append(p.Codes, m)
		}
	}
	for i := range p.Operations {
		for j := range p.Operations[i].Messages {
			m := &p.Operations[i].Messages[j]
			if left := max(0, maxTableRows-p.Count); len(m.Rows) > left {
				m.Rows, p.Cut = m.Rows[:left], true
			}
			p.Count += len(m.Rows)
		}
	}
	return p
}

// add adds an operation with the rows that match. A row matches if every word is in it or in its operation.
func (p *tablePage) add(words []string, o tableOperation, fields []translate.Field) {
	type place struct {
		message string
		paths   [2]string
	}
	at := map[place]int{}
	for _, f := range fields {
		name := f.Message
		if o.Method != "" {
			name = "callback"
		}
		from, to := slices.Index(p.Forms[:], f.From), slices.Index(p.Forms[:], f.To)
		row := tableRow{About: f.About}
		row.Paths[to], row.Paths[from] = f.Target, f.Source
		about := p.shown(translate.Details{{Format: row.About}})
		if !matches(
			words, o.Name, o.Paths[0], o.Paths[1], name, row.Paths[0], row.Paths[1], row.About, about,
			string(f.Class), f.Detail.String(), p.shown(f.Detail),
		) {
			continue
		}
		i := slices.IndexFunc(o.Messages, func(m tableMessage) bool { return m.Name == name })
		if i < 0 {
			i, o.Messages = len(o.Messages), append(o.Messages, tableMessage{Name: name})
		}
		m := &o.Messages[i]
		j, known := at[place{name, row.Paths}]
		if !known {
			j, m.Rows = len(m.Rows), append(m.Rows, row)
			at[place{name, row.Paths}] = j
		}
		m.Rows[j].Towards[to] = tableTowards{f.Class, f.Detail}
	}
	if len(o.Messages) > 0 || matches(words, o.Name, o.Paths[0], o.Paths[1]) {
		p.Operations = append(p.Operations, o)
	}
}

// matches reports whether every word is in one of the texts.
func matches(words []string, texts ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool {
		has := func(text string) bool { return strings.Contains(strings.ToLower(text), word) }
		return !slices.ContainsFunc(texts, has)
	})
}
