package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"billbridge/proxy/operate"
)

// A list is what the pages with a list have in common.
type list struct {
	Path    string     // of the page
	Filter  url.Values // of its address, without empty values
	Names   []string   // of the config, to suggest
	Tabs    []tab
	More    string // the address of the next page; "" if this is the last one
	Problem string // of the filter
}

// A tab shows the entries of one state.
type tab struct {
	Name    string // the end of the key of its text and of its id; "" for all
	Link    string
	Count   *operate.Number // nil if they are not counted
	Current bool
}

// listOf returns the list of a page. The keys are those of its filter, of which the last one is the place of the page.
func (c *Console) listOf(r *http.Request, path string, keys ...string) list {
	_ = r.ParseForm() // what cannot be read is missing
	return list{Path: path, Filter: filterOf(r.Form, keys...), Names: c.partnerNames()}
}

// filterOf returns some values of a query, without empty ones.
func filterOf(q url.Values, keys ...string) url.Values {
	f := url.Values{}
	for _, key := range keys {
		f.Set(key, strings.TrimSpace(q.Get(key)))
	}
	return without(f)
}

// With returns the address of the page with other values, given as keys and values. An empty value removes its key.
func (l list) With(pairs ...string) string {
	q := maps.Clone(l.Filter)
	for pair := range slices.Chunk(pairs, 2) {
		q.Set(pair[0], pair[1])
	}
	if q = without(q); len(q) > 0 {
		return l.Path + "?" + q.Encode()
	}
	return l.Path
}

// addTabs adds a tab for each value of a key of the filter. place is the key of the place of the page.
func (l *list) addTabs(key, place string, counts operate.Counts, values ...string) {
	for _, value := range values {
		one := tab{Name: value, Link: l.With(key, value, place, ""), Current: value == l.Filter.Get(key)}
		if n, counted := counts[value]; counted {
			one.Count = &n
		}
		l.Tabs = append(l.Tabs, one)
	}
}

// without removes the keys that have no value.
func without(q url.Values) url.Values {
	maps.DeleteFunc(q, func(key string, _ []string) bool { return q.Get(key) == "" })
	return q
}

// partnerID returns the digits of a partner that the visitor named: by its name in the config, or by its digits.
func (c *Console) partnerID(named string) string {
	if p := c.Config().Partners.Named(named); p != nil {
		return p.Hash
	}
	return named
}

// suggestedMost is the most names that a form suggests: with more, a browser is slow, and nobody reads them.
const suggestedMost = 500

// partnerNames are the names of the config for the suggestions of a form; none if there are too many.
func (c *Console) partnerNames() (names []string) {
	if all := c.Config().Partners; len(all) <= suggestedMost {
		for _, p := range all {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}
