package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/pages"
	"billbridge/translate"
)

// A configPage is the data of the page config.
type configPage struct {
	Sections []configSection
	May      bool // the config can be read again
	Done     bool // read again just now

	At       time.Time           // of the last reading
	Failed   bool                // the last reading
	Problems []translate.Problem // of the last reading
	Error    string              // of the last reading, if it has no place in a file
}

// A configSection is a top-level key of the config.
type configSection struct {
	Name string
	Keys []configKey
}

// A configKey is one value in force.
type configKey struct {
	Key, Value string // no value: not set, or a secret
	Secret     bool
}

// A reading is the result of the last attempt to read the config.
type reading struct {
	at  time.Time
	err error
}

// Reloaded records the result of an attempt to read the config again, for the page of the config. Package server
// calls it.
func (c *Console) Reloaded(err error) { c.lastReading.Store(&reading{c.Now(), err}) }

// config shows the config in force, and the result of the last reading.
func (c *Console) config(r *http.Request) (answer, error) {
	return c.showConfig(r, http.StatusOK)
}

// reload reads the config again.
func (c *Console) reload(r *http.Request) (a answer, err error) {
	if c.Reload == nil {
		return a, errPath
	}
	if err := c.Reload(pages.VisitorOf(r).Name); err != nil {
		return c.showConfig(r, http.StatusBadRequest)
	}
	return goTo("/config?done=reload")
}

func (c *Console) showConfig(r *http.Request, status int) (answer, error) {
	last := c.lastReading.Load()
	page := configPage{
		Sections: configSections(c.Config()), May: c.Reload != nil,
		At: last.at, Failed: last.err != nil,
		Done: last.err == nil && r.URL.Query().Get("done") == "reload",
	}
	if problems := translate.Problems(nil); errors.As(last.err, &problems) {
		page.Problems = problems
	} else if last.err != nil {
		page.Error = last.err.Error()
	}
	return answer{page: "config", data: page, status: status}, nil
}

// configSections returns all values of a config, with every default. The first section has the keys without one.
func configSections(c *config.Config) []configSection {
	var keys configSection
	keys.addStruct("", reflect.ValueOf(c).Elem())
	sections := []configSection{{}}
	for _, k := range keys.Keys {
		at := 0
		if name, _, below := strings.Cut(k.Key, "."); below {
			if at = len(sections) - 1; sections[at].Name != name {
				sections = append(sections, configSection{Name: name})
				at++
			}
		}
		sections[at].Keys = append(sections[at].Keys, k)
	}
	return sections
}

// add adds the values at and below a key. Secrets have no value.
func (s *configSection) add(key string, v reflect.Value) {
	text := ""
	switch x := v.Interface().(type) {
	case config.Secret:
		s.Keys = append(s.Keys, configKey{key, "", x.IsSet()})
		return
	case config.Address:
		if u := x.URL; u != nil { // user and query may be secrets
			text = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		}
	case config.Upstreams:
		for i := range x {
			s.add(key+"."+x[i].Name, v.Index(i))
		}
		return
	case config.Partners:
		for _, p := range x[:min(len(x), suggestedMost)] {
			s.Keys = append(s.Keys, configKey{key + "." + p.Hash[:12], p.Name, false})
		}
		if more := len(x) - suggestedMost; more > 0 {
			s.Keys = append(s.Keys, configKey{key + ".…", pages.Number(more), false})
		}
		if len(x) > 0 {
			return
		}
	case config.Duration:
		if x != 0 {
			text = x.String()
		}
	case fmt.Stringer:
		text = strings.TrimPrefix(x.String(), "invalid IP")
	default:
		switch {
		case v.Kind() == reflect.Pointer && v.IsNil():
		case v.Kind() == reflect.Pointer:
			s.add(key, v.Elem())
			return
		case v.Kind() == reflect.Struct:
			s.addStruct(key+".", v)
			return
		case v.Kind() == reflect.Slice && v.Len() > 0 && isSection(v.Type().Elem()):
			for i := range v.Len() {
				s.add(key+"["+strconv.Itoa(i)+"]", v.Index(i))
			}
			return
		default:
			text = fmt.Sprint(x)
			if v.Kind() == reflect.Slice {
				text = strings.ReplaceAll(text, " ", ", ")
			}
		}
	}
	s.Keys = append(s.Keys, configKey{key, text, false})
}

// isSection reports whether the values of a type have keys of their own.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !t.Implements(reflect.TypeFor[fmt.Stringer]())
}

// addStruct adds the fields of a struct.
func (s *configSection) addStruct(prefix string, v reflect.Value) {
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" && name != "-" {
			s.add(prefix+name, v.Field(i))
		}
	}
}
