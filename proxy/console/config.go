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
	Key, Value    string
	Secret, Unset bool
}

// A reading is the result of the last attempt to read the config.
type reading struct {
	at  time.Time
	err error
}

// Reloaded records the result of an attempt to read the config again, for the page of the config. Package server calls it.
func (c *Console) Reloaded(err error) { c.lastReading.Store(&reading{c.options.Now(), err}) }

// config shows the config in force, and the result of the last reading.
func (c *Console) config(w http.ResponseWriter, r *http.Request) {
	c.showConfig(w, r, http.StatusOK)
}

// reload reads the config again.
func (c *Console) reload(w http.ResponseWriter, r *http.Request) {
	if c.options.Reload == nil {
		c.refuse(w, r, http.StatusNotFound, "error.path")
		return
	}
	if err := c.options.Reload(visitorOf(r).Name); err != nil {
		c.showConfig(w, r, http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, "/config?done=reload", http.StatusSeeOther)
}

func (c *Console) showConfig(w http.ResponseWriter, r *http.Request, status int) {
	last := c.lastReading.Load()
	page := configPage{
		Sections: configSections(c.options.Config()), May: c.options.Reload != nil, At: last.at, Failed: last.err != nil,
		Done: last.err == nil && r.URL.Query().Get("done") == "reload",
	}
	if problems := translate.Problems(nil); errors.As(last.err, &problems) {
		page.Problems = problems
	} else if last.err != nil {
		page.Error = last.err.Error()
	}
	c.pageWithStatus(w, r, status, "config", page)
}

// configSections returns all values of a config, with every default. Secrets have no value.
func configSections(c *config.Config) []configSection {
	var sections []configSection
	general := configSection{}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		s := configSection{Name: name}
		s.add(name, v.Field(i))
		for i, k := range s.Keys { // empty values that mean something
			switch {
			case k.Key == "base_path" && k.Unset:
				s.Keys[i] = configKey{Key: k.Key, Value: "/"}
			case k.Key == "drain.at_most" && c.Drain.AtMost == 0:
				s.Keys[i] = configKey{Key: k.Key, Unset: true}
			}
		}
		if len(s.Keys) == 1 && s.Keys[0].Key == name {
			general.Keys = append(general.Keys, s.Keys...)
			continue
		}
		sections = append(sections, s)
	}
	return append([]configSection{general}, sections...)
}

var stringer = reflect.TypeFor[fmt.Stringer]()

// add adds the values below a key.
func (s *configSection) add(key string, v reflect.Value) {
	switch x := v.Interface().(type) {
	case config.Secret:
		s.Keys = append(s.Keys, configKey{Key: key, Secret: x.IsSet(), Unset: !x.IsSet()})
		return
	case config.Address:
		s.text(key, addressText(x.URL))
		return
	case config.Upstreams:
		for i := range x {
			s.add(key+"."+x[i].Name, v.Index(i))
		}
		return
	case config.Partners:
		for _, p := range x[:min(len(x), suggestedMost)] {
			s.text(key+"."+p.Hash[:12], p.Name)
		}
		switch more := len(x) - suggestedMost; {
		case len(x) == 0:
			s.text(key, "")
		case more > 0:
			s.text(key+".…", number(more))
		}
		return
	}
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		s.text(key, "")
	case v.Kind() == reflect.Pointer:
		s.add(key, v.Elem())
	case v.Type().Implements(stringer):
		s.text(key, strings.TrimPrefix(fmt.Sprint(v.Interface()), "invalid IP"))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("yaml"); name != "" && name != "-" {
				s.add(key+"."+name, v.Field(i))
			}
		}
	case v.Kind() == reflect.Slice:
		s.list(key, v)
	default:
		s.text(key, fmt.Sprint(v.Interface()))
	}
}

// list adds a list: one value with all of them, or the values of each struct.
func (s *configSection) list(key string, v reflect.Value) {
	var texts []string
	for i := range v.Len() {
		item := configSection{}
		item.add(key+"["+strconv.Itoa(i)+"]", v.Index(i))
		if len(item.Keys) != 1 || item.Keys[0].Secret {
			s.Keys = append(s.Keys, item.Keys...)
			continue
		}
		texts = append(texts, item.Keys[0].Value)
	}
	if len(texts) > 0 || v.Len() == 0 {
		s.text(key, "["+strings.Join(texts, ", ")+"]")
	}
}

func (s *configSection) text(key, value string) {
	s.Keys = append(s.Keys, configKey{Key: key, Value: value, Unset: value == ""})
}

// addressText returns a URL without user and query, which may be secrets.
func addressText(u *url.URL) string {
	if u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
