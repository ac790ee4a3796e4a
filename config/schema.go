package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A schema is a JSON Schema of a value.
type schema map[string]any

// Schema returns a JSON Schema (draft 2020-12) of the config, for editors. It is generated from the types that Load
// decodes into; descriptions and defaults come from README.md. It accepts every config that Load accepts, except
// booleans such as yes and on. It does not check rules for several keys, files, the environment, and the bounds of
// times and sizes.
func Schema() ([]byte, error) {
	g := generator{readmeRows()}
	root := g.value(reflect.TypeFor[Config](), "", "")
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "config of billbridge"
	table, err := builtIn()
	if err != nil {
		return nil, err
	}
	// Only the built-in table has these forms: a table file can have others.
	forms := table.Forms()
	root["if"] = schema{"properties": schema{"table": schema{"not": schema{"required": []string{"file"}}}}}
	root["then"] = schema{"properties": schema{"upstreams": schema{
		"additionalProperties": schema{"properties": schema{"form": schema{"enum": forms[:]}}},
	}}}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(root)
	return out.Bytes(), err
}

// scalar has the types of a value that Load reads as text: without quotes it can look like a number or a boolean.
var scalar = []string{"string", "number", "boolean"}

const (
	duration  = `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	secretRef = `\$\{(env|file):.+\}`
	portText  = `0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9][0-9]|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})`
	listener  = `^([^\]\[:@/?#]*|\[[^\]\[@/?#]*\]):` + portText + `$`
	address   = `([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f.:]*)`
	segment   = `(\.*[A-Za-z0-9_~$&+,:;=@-][A-Za-z0-9_~$&+,:;=@.-]*|\.{3,})`
)

// pattern returns the schema of a text. Editors show the message instead of the pattern.
func pattern(expression, message string) schema {
	return schema{"pattern": expression, "patternErrorMessage": message}
}

// text returns the schema of a text that cannot look like a number or a boolean.
func text(expression, message string) schema {
	s := pattern(expression, message)
	s["type"] = "string"
	return s
}

var (
	durationText = text(duration, "must be a duration such as 10s, 500ms or 5m")
	hostPort     = text(listener, "must be HOST:PORT such as 127.0.0.1:8080")
	storeKeyText = pattern(`^([0-9A-Fa-f]{64}|[A-Za-z0-9+/\r\n]{43,}=[\r\n]*|`+secretRef+`)$`,
		"must be 32 bytes as 64 hex digits or base64, ${env:NAME} or ${file:PATH}")
)

// typeSchemas are the schemas of types that are written as text.
var typeSchemas = map[reflect.Type]schema{
	reflect.TypeFor[Duration]():       {"allOf": []schema{durationText, pattern("[1-9]", "must be greater than 0s")}},
	reflect.TypeFor[DurationOrZero](): {"anyOf": []schema{durationText, {"enum": []any{0, "0", "+0", "-0"}}}},
	reflect.TypeFor[PerSecond](): {"anyOf": []schema{
		text(`^\+?0*([1-9][0-9]?|100)(/s)?$`, "must be from 1 to 100, such as 5 or 5/s"),
		{"type": "integer", "minimum": 1, "maximum": 100},
	}},
	reflect.TypeFor[Size](): {"anyOf": []schema{
		text(`^\+?0*[1-9][0-9]*(\s*[KMG]iB)?$`, "must be a size such as 1MiB, 512KiB or 4096"),
		{"type": "integer", "minimum": 1},
	}},
	reflect.TypeFor[Secret](): {
		"type": scalar, "pattern": `^([^$]|\$([^{]|$)|` + secretRef + `$)`,
		"patternErrorMessage": "must be text, ${env:NAME} or ${file:PATH}",
	},
	reflect.TypeFor[Address](): text(
		`^[Hh][Tt][Tt][Pp][Ss]?://([^\]\[\s:/?#@]+|\[[^\]\[/?#@]+\])(:(`+portText+`)?)?(/[^?#]*)?$`,
		"must be a URL such as https://billing.example.com/partner, without user, password, query and fragment"),
	reflect.TypeFor[LocalAddress](): text(`^(`+address+`(%.+)?)$`,
		"must be an IP address of this machine such as 192.0.2.10"),
	reflect.TypeFor[Zone](): text(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`,
		"must be a time zone such as Asia/Seoul, UTC or Local"),
	reflect.TypeFor[Network](): text(`^`+address+`(/[0-9]{1,3})?$`,
		"must be a network such as 10.0.0.0/8, or an IP address"),
}

// keySchemas are for keys with stricter rules than those of their Go types. Load checks the same rules in check.go
// and similar files.
var keySchemas = map[string]schema{
	"listen":           hostPort,
	"admin.listen":     hostPort,
	"callbacks.listen": hostPort,
	"base_path":        text(`^(/+|/+`+segment+`(/`+segment+`)*/*)$`, "must be a plain path such as /partner"),
	"route.pass[]": text(plainPath.String(),
		"must be a path such as /if/read/open, or a prefix such as /cash-receipt/"),
	"admin.tokens[].name": pattern(tokenName.String(),
		"must be 1 to 60 letters, digits, '.', '-', '_' and '@', and begin with a letter or digit"),
	"upstreams": {"minProperties": 1, "propertyNames": schema{
		"pattern": upstreamName.String(), "not": schema{"enum": []string{"none", NotifyUpstream}},
		"patternErrorMessage": "must be 1 to 32 lower-case letters, digits, '-' and '_'",
	}},
	"upstreams.NAME.success": pattern(code.String(), "must be a code of up to 16 letters, digits and _"),
	"partners.HASH":          {"anyOf": []schema{{"required": []string{"name"}}, {"required": []string{"keys"}}}},
	"partners.HASH.keys[]": text(keyHash.String(),
		"must be all 64 lower-case hex digits of the SHA-256 of a key"),
	"partners.HASH.name": {
		"pattern": `^\S(.*\S)?$`, "maxLength": 60,
		"not": text("^([0-9a-f]{12,60}|[Dd][Ee][Ff][Aa][Uu][Ll][Tt]|[Aa][Ll][Ll])$",
			"must not be default, all or 12 to 64 hex digits"),
		"patternErrorMessage": "must be 1 to 60 printable characters without a space at the beginning or end",
	},
	"limits.partner.rate": {"anyOf": []schema{{"const": 0}, {"minimum": 0.1, "maximum": 1_000_000}}},
	"store.url": text(`^(sqlite:(.|\n)+|postgres(ql)?:|`+secretRef+`$)`,
		"must be sqlite:PATH, postgres://…, ${env:NAME} or ${file:PATH}"),
	"store.key":          storeKeyText,
	"store.old_keys[]":   storeKeyText,
	"callbacks.schedule": {"minItems": 1, "maxItems": 100},
	"tracing.headers": {"propertyNames": pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
		"must be the name of an HTTP header")},
	"tracing.headers.NAME": {
		"pattern": `^([^$\x00-\x08\x0a-\x1f\x7f]|\$([^{\x00-\x08\x0a-\x1f\x7f]|$)|` + secretRef + `$)` +
			`[^\x00-\x08\x0a-\x1f\x7f]*$`,
		"patternErrorMessage": "must be text without control characters, ${env:NAME} or ${file:PATH}",
	},
	"notify[].events":          {"minItems": 1},
	"rollout.verdict.mismatch": {"exclusiveMinimum": 0},
	"rollout.verdict.unclear":  {"exclusiveMinimum": 0},
}

type generator struct{ rows map[string]row }

// value returns the schema of the value of a key. In path, NAME and HASH stand for the names in a map, and [] for the
// entries of a list.
func (g generator) value(t reflect.Type, tag reflect.StructTag, path string) schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := maps.Clone(typeSchemas[t])
	if s == nil {
		s = g.byKind(t, tag, path)
	}
	maps.Copy(s, keySchemas[path])
	row := g.rows[path]
	if row.says != "" {
		s["description"] = row.says
	}
	if row.fallback != nil {
		s["default"] = row.fallback
	}
	return s
}

func (g generator) byKind(t reflect.Type, tag reflect.StructTag, path string) schema {
	switch t.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return number("integer", tag)
	case reflect.Float64:
		return number("number", tag)
	case reflect.String:
		if words := strings.Fields(tag.Get("words")); len(words) > 0 {
			return schema{"enum": words}
		}
		return schema{"type": scalar, "minLength": 1}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": g.value(t.Elem(), "", path+".NAME")}
	case reflect.Slice:
		if name := entryName(t); name != "" {
			return schema{"type": "object", "additionalProperties": g.value(t.Elem(), "", path+"."+name)}
		}
		return schema{"type": "array", "items": g.value(t.Elem(), tag, path+"[]")}
	}
	return g.section(t, path)
}

// number returns the schema of a number with the range of its key.
func number(kind string, tag reflect.StructTag) schema {
	s := schema{"type": kind}
	least, most, _ := strings.Cut(tag.Get("range"), ",")
	for name, bound := range map[string]string{"minimum": least, "maximum": most} {
		if bound != "" {
			s[name] = json.Number(bound)
		}
	}
	return s
}

func (g generator) section(t reflect.Type, path string) schema {
	properties, required := schema{}, []string{}
	for _, f := range keys(t) {
		key := f.Tag.Get("yaml")
		properties[key] = g.value(f.Type, f.Tag, strings.TrimPrefix(path+"."+key, "."))
		if was := f.Tag.Get("was"); was != "" {
			properties[was] = schema{"deprecated": true, "description": "Is called " + key + " now."}
		}
		if isTagged(f, "required") {
			required = append(required, key)
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

//go:embed README.md
var readme string

// A row has the description and the default of a key in README.md.
type row struct {
	says     string
	fallback any // nil if the key has no default
}

var link = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)

// readmeRows returns the rows of the tables of README.md, by key.
func readmeRows() map[string]row {
	rows := map[string]row{}
	for line := range strings.Lines(readme) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(line, "| `") {
			continue
		}
		r := row{says: link.ReplaceAllString(strings.TrimSpace(cells[3]), "$1")}
		if text, err := strconv.Unquote(strings.TrimSpace(cells[2])); err == nil { // in backquotes
			_ = yaml.Unmarshal([]byte(text), &r.fallback) // a test reads all defaults
		}
		rows[strings.Trim(cells[1], " `")] = r
	}
	return rows
}
