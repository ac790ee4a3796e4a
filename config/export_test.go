package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A rule is a JSON Schema of a value.
type rule map[string]any

// GenerateSchema returns what Schema must return. Descriptions and defaults come from README.md.
func GenerateSchema() ([]byte, error) {
	g := generator{rows: readmeRows()}
	if err := yaml.Load([]byte(fragments.Replace(rules)), &g); err != nil {
		return nil, err
	}
	root := g.value(reflect.TypeFor[Config](), "", "")
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "config of billbridge"
	table, err := builtIn()
	if err != nil {
		return nil, err
	}
	// Only the built-in table has these forms: a table file can have others.
	forms := table.Forms()
	root["if"] = rule{"properties": rule{"table": rule{"not": rule{"required": []string{"file"}}}}}
	root["then"] = rule{"properties": rule{"upstreams": rule{
		"additionalProperties": rule{"properties": rule{"form": rule{"enum": forms[:]}}},
	}}}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(root)
	return out.Bytes(), err
}

//go:embed testdata/schema.yaml
var rules string

// fragments are patterns with names in schema.yaml.
var fragments = strings.NewReplacer(
	"<port>", `0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9][0-9]|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})`,
	"<secret>", `\$\{(env|file):.+\}`,
	"<address>", `([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f.:]*)`,
	"<segment>", `(\.*[A-Za-z0-9_~$&+,:;=@-][A-Za-z0-9_~$&+,:;=@.-]*|\.{3,})`,
	"<plain path>", plainPath.String(), "<token name>", tokenName.String(), "<upstream name>", upstreamName.String(),
	"<key hash>", keyHash.String(), "<origin>", origin.String(),
)

// A generator has what the types and tags of the config do not say, by type and by key.
type generator struct {
	Types, Keys map[string]rule
	rows        map[string]row
}

// value returns the schema of the value of a key. In path, NAME and HASH stand for the names in a map, and [] for the
// entries of a list.
func (g generator) value(t reflect.Type, tag reflect.StructTag, path string) rule {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := maps.Clone(g.Types[t.Name()])
	if s == nil {
		s = g.byKind(t, tag, path)
	}
	maps.Copy(s, g.Keys[path])
	row := g.rows[path]
	if row.says != "" {
		s["description"] = row.says
	}
	if row.fallback != nil {
		s["default"] = row.fallback
	}
	return s
}

func (g generator) byKind(t reflect.Type, tag reflect.StructTag, path string) rule {
	switch t.Kind() {
	case reflect.Bool:
		return rule{"type": "boolean"}
	case reflect.Int:
		return number("integer", tag)
	case reflect.Float64:
		return number("number", tag)
	case reflect.String:
		if words := strings.Fields(tag.Get("words")); len(words) > 0 {
			return rule{"enum": words}
		}
		// Without quotes a text can look like a number or a boolean.
		return rule{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	case reflect.Map:
		return rule{"type": "object", "additionalProperties": g.value(t.Elem(), "", path+".NAME")}
	case reflect.Slice:
		if name := entryName(t); name != "" {
			return rule{"type": "object", "additionalProperties": g.value(t.Elem(), "", path+"."+name)}
		}
		return rule{"type": "array", "items": g.value(t.Elem(), tag, path+"[]")}
	}
	return g.section(t, path)
}

// number returns the schema of a number with the range of its key.
func number(kind string, tag reflect.StructTag) rule {
	s := rule{"type": kind}
	least, most, _ := strings.Cut(tag.Get("range"), ",")
	for name, bound := range map[string]string{"minimum": least, "maximum": most} {
		if bound != "" {
			s[name] = json.Number(bound)
		}
	}
	return s
}

func (g generator) section(t reflect.Type, path string) rule {
	properties, required := rule{}, []string{}
	for _, f := range keys(t) {
		key := f.Tag.Get("yaml")
		properties[key] = g.value(f.Type, f.Tag, strings.TrimPrefix(path+"."+key, "."))
		if isTagged(f.Tag, "required") {
			required = append(required, key)
		}
	}
	s := rule{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

//go:embed README.md
var readme string

// A row is that of a key in README.md: its description is written there, and the rest comes from the tags of its field.
type row struct {
	says     string
	fallback any // nil if the key has no default
}

var link = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)

// rowOf matches a row of a table of keys.
var rowOf = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// readmeRows returns the rows of the tables of README.md, by key.
func readmeRows() map[string]row {
	rows := map[string]row{}
	for _, cells := range rowOf.FindAllStringSubmatch(readme, -1) {
		r := row{says: link.ReplaceAllString(cells[3], "$1")}
		if text, err := strconv.Unquote(cells[2]); err == nil { // in backquotes
			_ = yaml.Unmarshal([]byte(text), &r.fallback)
		}
		rows[cells[1]] = r
	}
	return rows
}

// computed are the defaults that no tag has, since they depend on other keys.
var computed = map[string]string{"base_path": "`/`", "route.default": "required", "limits.memory": "`256MiB`"}

// Readme returns what README.md must be: the columns of each row that the tags have. It also returns the keys that lack a
// row, and the rows that are of no key.
func Readme() (text string, lacking, unknown []string) {
	columns := map[string][2]string{}
	addColumns(columns, reflect.TypeFor[Config](), "")
	text = rowOf.ReplaceAllStringFunc(readme, func(line string) string {
		cells := rowOf.FindStringSubmatch(line)
		c, ok := columns[cells[1]]
		if delete(columns, cells[1]); !ok {
			unknown = append(unknown, cells[1])
			return line
		}
		return "| `" + cells[1] + "` | " + c[0] + " | " + cells[3] + " | " + c[1] + " |"
	})
	return text, slices.Sorted(maps.Keys(columns)), unknown
}

func addColumns(to map[string][2]string, t reflect.Type, path string) {
	for _, f := range keys(t) {
		at, of := path+f.Tag.Get("yaml"), f.Type
		fallback, changed := "–", "reload"
		if isTagged(f.Tag, "restart") {
			changed = "restart"
		}
		if text := f.Tag.Get("default"); text != "" {
			fallback = "`" + text + "`"
		} else if isTagged(f.Tag, "required") {
			fallback = "required"
		}
		if of.Kind() == reflect.Pointer {
			to[at], of = [2]string{"–", changed}, of.Elem()
		}
		switch {
		case of.Kind() == reflect.Map:
			at += ".NAME"
		case of.Kind() == reflect.Slice && entryName(of) != "":
			at, of = at+"."+entryName(of), of.Elem()
		case fallback != "–":
		case of.Kind() == reflect.Slice:
			fallback = "`[]`"
		case of.Kind() == reflect.Bool:
			fallback = "`false`"
		case of.Kind() == reflect.Float64:
			fallback = "`0`"
		}
		if of.Kind() == reflect.Struct && len(keys(of)) > 0 {
			addColumns(to, of, at+".")
			continue
		}
		to[at] = [2]string{cmp.Or(computed[at], fallback), changed}
	}
}
