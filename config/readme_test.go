package config_test

import (
	"cmp"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// A keyRow is one row of the tables of README.md.
type keyRow struct{ key, fallback, says, changedBy string }

// readmeKeys are the rows of README.md, by key.
func readmeKeys(t *testing.T) map[string]keyRow {
	t.Helper()
	data := proxytest.ReadFile(t, "README.md")
	rows := map[string]keyRow{}
	for i, line := range strings.Split(string(data), "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			t.Errorf("README.md:%d has %d cells", i+1, len(cells))
			continue
		}
		for c := range cells {
			cells[c] = strings.TrimSpace(cells[c])
		}
		row := keyRow{strings.Trim(cells[0], "`"), cells[1], cells[2], cells[3]}
		if _, twice := rows[row.key]; twice {
			t.Errorf("README.md:%d: %s has a second row", i+1, row.key)
		}
		rows[row.key] = row
	}
	return rows
}

// A configKey is a key of the config, as the Go types have it.
type configKey struct {
	path     []string
	optional bool // a section that a config may lack
}

func (k configKey) String() string { return strings.Join(k.path, ".") }

// configKeys are the keys below a type: those with a value of their own, and sections that a config may lack.
func configKeys(t reflect.Type, path ...string) (keys []configKey) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("yaml")
		if tag == "" || tag == "-" {
			continue
		}
		at := append(slices.Clone(path), tag)
		of, optional := f.Type, f.Type.Kind() == reflect.Pointer
		if optional {
			of = of.Elem()
			keys = append(keys, configKey{path: at, optional: true})
		}
		switch {
		case of == reflect.TypeFor[config.Upstreams]():
			of, at = of.Elem(), append(at, "NAME")
		case of == reflect.TypeFor[config.Partners]():
			of, at = of.Elem(), append(at, "HASH")
		case of.Kind() == reflect.Map:
			at = append(at, "NAME")
		}
		if isSection(of) {
			keys = append(keys, configKeys(of, at...)...)
		} else {
			keys = append(keys, configKey{path: at})
		}
	}
	return keys
}

// isSection tells a section from a value that is a struct in Go.
func isSection(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" && tag != "-" {
			return true
		}
	}
	return false
}

// value is what a config has at a key. NAME is the upstream new, HASH the only partner. ok is false where a section around it is not there.
func (k configKey) value(c *config.Config) (v reflect.Value, ok bool) {
	v = reflect.ValueOf(c).Elem()
	for _, name := range k.path {
		switch {
		case v.Kind() == reflect.Pointer && v.IsNil():
			return v, false
		case v.Kind() == reflect.Pointer:
			v = v.Elem()
		}
		switch {
		case name == "HASH":
			v = reflect.ValueOf(&v.Interface().(config.Partners)[0]).Elem()
		case name != "NAME":
			for i := range v.NumField() {
				if v.Type().Field(i).Tag.Get("yaml") == name {
					v = v.Field(i)
					break
				}
			}
		case v.Type() == reflect.TypeFor[config.Upstreams]():
			v = reflect.ValueOf(v.Interface().(config.Upstreams).Find("new")).Elem()
		default: // a map, which is its key's value as a whole
		}
	}
	return v, true
}

// fullConfig has every section, and in each what README.md says is required.
func fullConfig(t *testing.T) (file string, root map[string]any) {
	t.Helper()
	dir := t.TempDir()
	newPair(t, "gateway").write(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	const text = `
tls: {cert: cert.pem, key: key.pem}
admin: {tls: {cert: cert.pem, key: key.pem}}
upstreams:
  old: {form: legacy, url: https://old.example.com}
  new: {form: v2, url: https://new.example.com, tls: {client: {cert: cert.pem, key: key.pem}}}
route: {default: old}
store: {url: "sqlite:billbridge.db"}
callbacks: {public_url: https://bridge.example.com, reconcile: {}}
rollout: {old: old, new: new}
partners: {5f7b2ed74a97: {name: Hana Clinic}}
`
	must(t, yaml.Unmarshal([]byte(text), &root))
	return filepath.Join(dir, "billbridge.yaml"), root
}

func parseTree(file string, root map[string]any) (*config.Config, error) {
	data, err := yaml.Marshal(root)
	if err != nil {
		return nil, err
	}
	return config.Parse(translate.File{Name: file, Data: data}, lookup)
}

// with is a copy of a tree in which a key has a value; the key is taken away where that is nil.
func (k configKey) with(root map[string]any, value any) map[string]any {
	changed := maps.Clone(root)
	section := changed
	for i, name := range k.path {
		name = cmp.Or(map[string]string{"NAME": "new", "HASH": "5f7b2ed74a97"}[name], name)
		if i == len(k.path)-1 {
			section[name] = value
			if value == nil {
				delete(section, name)
			}
			break
		}
		inner, _ := section[name].(map[string]any)
		inner = maps.Clone(inner)
		if inner == nil {
			inner = map[string]any{}
		}
		section[name], section = inner, inner
	}
	return changed
}

// TestReadmeHasEveryKey: README.md has a row for each key of the config, and for nothing else.
func TestReadmeHasEveryKey(t *testing.T) {
	t.Parallel()
	rows := readmeKeys(t)
	for _, k := range configKeys(reflect.TypeFor[config.Config]()) {
		if rows[k.String()].says == "" {
			t.Errorf("README.md has no row for %s, or does not say what it does", k)
		}
		delete(rows, k.String())
	}
	for key := range rows {
		t.Errorf("README.md has a row for %s, which is no key", key)
	}
}

// TestReadmeHasTheDefaults: a config that writes out a default of README.md is as one that leaves the key out. A key without a
// default is unset, and one that is required is missed.
func TestReadmeHasTheDefaults(t *testing.T) {
	t.Parallel()
	rows := readmeKeys(t)
	file, root := fullConfig(t)
	unset, err := parseTree(file, root)
	must(t, err)
	for _, k := range configKeys(reflect.TypeFor[config.Config]()) {
		row := rows[k.String()]
		without := k.with(root, nil)
		for _, other := range []string{"callbacks", "rollout"} { // a key that only another section requires is not required
			if k.path[0] != other {
				delete(without, other)
			}
		}
		switch literal, written := strings.CutPrefix(row.fallback, "`"); {
		case row.fallback == "required":
			if _, err := parseTree(file, without); err == nil {
				t.Errorf("%s is required by README.md, and a config without it is accepted", k)
			}
		case row.fallback == "–":
			c, err := parseTree(file, without)
			if k.String() == "partners.HASH.name" { // required with a hash, as here
				if err == nil {
					t.Errorf("a partner without a name is accepted")
				}
				continue
			}
			if err != nil {
				t.Errorf("%s is not required by README.md: %v", k, err)
			} else if v, ok := k.value(c); !ok || !v.IsZero() && (v.Kind() != reflect.Map || v.Len() > 0) {
				t.Errorf("%s has no default by README.md, but is %v", k, v)
			}
		case written:
			var value any
			if err := yaml.Unmarshal([]byte(strings.TrimSuffix(literal, "`")), &value); err != nil {
				t.Errorf("%s: %v", k, err)
				continue
			}
			c, err := parseTree(file, k.with(root, value))
			if err != nil {
				t.Errorf("%s: the default of README.md is refused: %v", k, err)
				continue
			}
			got, _ := k.value(unset)
			want, _ := k.value(c)
			if empty := got.Kind() == reflect.Slice && got.Len() == 0 && want.Len() == 0; !empty && !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s is %v if it is not set; README.md says %s", k, got, row.fallback)
			}
		default:
			t.Errorf("%s: README.md has the default %q: want a value in backquotes, required or –", k, row.fallback)
		}
	}
}

// TestReadmeSaysWhatNeedsARestart: a change of a key is refused by a reload if, and only if, README.md says restart.
func TestReadmeSaysWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	rows := readmeKeys(t)
	file, root := fullConfig(t)
	for _, k := range configKeys(reflect.TypeFor[config.Config]()) {
		c, err := parseTree(file, root)
		must(t, err)
		next, err := parseTree(file, root)
		must(t, err)
		if got := c.NeedsRestart(next); got != "" {
			t.Fatalf("a config needs a restart for itself: %s", got)
		}
		v, ok := k.value(next)
		if !ok {
			t.Fatalf("the config of this test has no section around %s", k)
		}
		if k.optional && v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			change(t, v)
		}
		got := c.NeedsRestart(next)
		if inside := got == k.String() || strings.HasPrefix(k.String(), got+"."); got != "" && !inside {
			t.Errorf("a change of %s is reported as one of %s", k, got)
		}
		if want := map[string]string{"": "reload"}[got]; rows[k.String()].changedBy != want && (got == "" || rows[k.String()].changedBy != "restart") {
			t.Errorf("README.md says that %s is changed by %q; a reload is refused for %q", k, rows[k.String()].changedBy, got)
		}
	}
}

// change gives a value of a config another one.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch was := v.Interface().(type) {
	case config.Secret:
		v.Set(reflect.ValueOf(config.NewSecret(was.Reveal() + "x")))
		return
	case config.Address:
		v.Set(reflect.ValueOf(config.Address{URL: &url.URL{Scheme: "https", Host: "another.example.com"}}))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() / 2)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Pointer: // a section that is there
		v.SetZero()
	default:
		t.Fatalf("this test cannot change a %s", v.Type())
	}
}
