package config_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

var compileSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := config.Schema()
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("billbridge.schema.json", document); err != nil {
		return nil, err
	}
	return c.Compile("billbridge.schema.json")
})

// configSchema returns the schema, compiled.
func configSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiled, err := compileSchema()
	must(t, err)
	return compiled
}

// inEditor validates a file as an editor does: it reads the YAML as JSON first.
func inEditor(s *jsonschema.Schema, data []byte) error {
	var root yaml.Node
	if err := yaml.Load(data, &root, yaml.WithUniqueKeys(true)); err != nil {
		return err
	}
	value, err := jsonOf(&root)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil { // NaN
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(document)
}

// jsonOf returns a node with keys that are text.
func jsonOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		return jsonOf(n.Content[0])
	case yaml.AliasNode:
		return jsonOf(n.Alias)
	case yaml.SequenceNode:
		list := []any{}
		for _, entry := range n.Content {
			v, err := jsonOf(entry)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		section := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			v, err := jsonOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			section[n.Content[i].Value] = v
		}
		return section, nil
	}
	var v any
	err := n.Decode(&v)
	return v, err
}

// laxer are the bad configs that the schema accepts, by the reason.
var laxer = map[string][]string{
	"a schema does not read files": {
		"admin-tls-missing-files", "admin-tokens-file-missing", "store-folder", "table-both-missing", "table-file-folder", "table-file-missing",
		"table-file-missing-beside-overlay", "table-file-mistake", "table-overlay-missing", "table-overlay-mistake", "table-overlay-syntax",
		"tls-missing-files", "tls-no-pem", "token-file-empty", "token-file-marked", "token-file-two-lines", "token-file-missing", "token-file-missing-open", "upstream-tls-ca-missing",
		"upstream-tls-ca-without-certificate", "upstream-tls-client-missing",
	},
	"a schema does not know the environment": {
		"admin-tokens-env-unset", "store-key-unset", "store-unset", "store-unset-env", "token-env-empty", "token-env-unset",
	},
	"a schema does not know the table": {
		"callbacks-no-role", "callbacks-no-role-at-all", "rollout-converted-identity", "rollout-ignore", "rollout-no-bill", "rollout-no-state",
		"rollout-partner-of-one-form", "rollout-two-readers", "table-partner-default", "table-read-hash",
	},
	"a schema does not compare keys or names with each other": {
		"admin-tokens-empty", "admin-tokens-equal", "admin-tokens-equal-token", "admin-tokens-name-twice", "admin-tokens-short", "token-short", "callbacks-https-only",
		"callbacks-listen-same", "callbacks-no-store", "listen-same", "listen-same-explicit", "partners-key", "partners-name-twice", "partners-name-unicode",
		"partners-keys-empty", "partners-keys-same", "partners-keys-word", "partners-same", "rollout-dangling", "rollout-default-shadow", "rollout-dangling-near", "rollout-no-store", "rollout-same", "route-dangling",
		"route-dangling-case", "route-missing", "token-needed", "token-needed-any-address", "token-needed-name",
		"upstream-tls-on-http",
	},
	"a schema does not compare times, sizes and addresses, which are text": {
		"limits-trusted-mapped", "cors-port",
		"callbacks-allow", "callbacks-timeout", "drain-delay",
		"limits-memory", "limits-too-large",
		"rollout-settle", "size-overflow",
	},
	"00112233 is a number, and a key of 64 digits is one, too": {"store-key-short"},
	"YAML as JSON has no anchors, tags and equal keys": {
		"alias", "duplicate-key", "duplicate-key-inside", "duplicate-key-upstream", "value-binary",
	},
}

// TestSchemaFile: schema.json is that of the types, of README.md and of testdata/schema.yaml.
func TestSchemaFile(t *testing.T) {
	t.Parallel()
	want, err := config.GenerateSchema()
	must(t, err)
	if *update {
		proxytest.WriteFile(t, "schema.json", string(want))
	}
	got, err := config.Schema()
	must(t, err)
	if !*update && !bytes.Equal(got, want) {
		t.Error("schema.json is not up to date: go test ./config -run TestSchemaFile -update")
	}
}

// TestSchemaOfBadConfigs: an editor shows a mistake in each bad config, apart from those in laxer.
func TestSchemaOfBadConfigs(t *testing.T) {
	t.Parallel()
	s := configSchema(t)
	reasons := map[string]string{}
	for reason, names := range laxer {
		for _, name := range names {
			reasons[name] = reason
		}
	}
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad configs: %v", err)
	}
	refused := 0
	for _, file := range files {
		data := proxytest.ReadFile(t, file)
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		reason := reasons[name]
		delete(reasons, name)
		switch err := inEditor(s, data); {
		case err == nil && reason == "":
			t.Errorf("%s: the schema accepts it: add the rule to testdata/schema.yaml or a tag range, or the reason to laxer\n%s", file, data)
		case err != nil && reason != "":
			t.Errorf("%s: the schema refuses it, although %s: %v", file, reason, err)
		case err != nil:
			refused++
		default:
			t.Logf("%s is accepted: %s", name, reason)
		}
	}
	for name := range reasons {
		t.Errorf("laxer has %s, which is no bad config", name)
	}
	t.Logf("%d of %d bad configs are refused", refused, len(files))
}

// TestSchemaOfGoodConfigs: the schema accepts the good configs. It also accepts each config that another test parses (parse).
func TestSchemaOfGoodConfigs(t *testing.T) {
	t.Parallel()
	s := configSchema(t)
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no good configs: %v", err)
	}
	for _, file := range files {
		data := proxytest.ReadFile(t, file)
		if err := inEditor(s, bytes.Replace(data, []byte("own|always-200"), []byte("own"), 1)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	_, root := fullConfig(t)
	text, err := yaml.Marshal(root)
	must(t, err)
	if err := inEditor(s, text); err != nil {
		t.Errorf("the config with all sections: %v", err)
	}
}

// TestSchemaAgreesWithTheDecoder: a value is refused by both or by none.
func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	t.Parallel()
	s := configSchema(t)
	for _, values := range []struct{ before, list, after string }{
		{"callbacks: {public_url: http://a, timeout: ", `10s|+30s|1.5s|.5s|1.s|100µs|"10s"|0s|0|10|-1s|soon|"10 s"|""|1d|[]|true`, "}\nstore: {url: 'sqlite:x.db'}"},
		{"drain: {delay: ", `0|"0"|0s|1s|+0|-1s|1|""|"1"|{}`, "}"},
		{"limits: {body: ", `4096|+5|1MiB|1 MiB|"4KiB"|1GiB|0|-1|0KiB|1MB|1.5|""|1.5MiB|[]|"KiB"`, "}"},
		{"admin: {token: ", `word|12|true|1.5|"${env:BILLBRIDGE_ADMIN_TOKEN}"|"${file:testdata/bad/files/billing.yaml}x"|"${env:}"|"${"|"$"|"$x"|"a ${env:A}"|"${vault:A}"|""|[a]|{a: b}`, "}"},
		{"store: {url: ", `"sqlite:x.db"|"postgres://a"|"postgresql:"|"sqlite:"|"memory:"|12|"mysql://a"|"sqlite"`, "}"},
		{"store: {key: ", `"` + strings.Repeat("aB", 32) + `"|"` + strings.Repeat("A", 43) + `="|"` + strings.Repeat("a", 63) + `"|short`, "}"},
		{"listen: ", `127.0.0.1:80|":80"|"[::1]:80"|a b:80|localhost:65535|localhost:080|localhost:65536|localhost|":"|"::1:80"|a@b:80|http://a:80|"[::1]"|8080|localhost:+9`, ""},
		{"callbacks: {public_url: http://a, listen: ", `""|127.0.0.1:80|8090`, "}\nstore: {url: 'sqlite:x.db'}"},
		{"base_path: ", `/|""|//|/partner|/partner/|//a|/a/b|/a~b;c,d=:@$&+|/...|/.a|/a.b|/..b|a|/a//b|/a/../b|/a/.|/a%20b|/a*b|/a?b|/{a}|"/a b"`, ""},
		{"limits: {trusted: [", `10.0.0.0/8|"::/0"|fd00::/8|10.0.0.1|a/8|10.0.0.0|10.0.0.0/x`, "]}"},
		{"callbacks: {public_url: http://a, ports: ", `[]|[1, 65535]|[0]|[65536]|80|[http]`, "}\nstore: {url: 'sqlite:x.db'}"},
		{"limits: {partner: {rate: ", `0|0.1|10|0.05|1000001|-1|"1"`, "}}"},
		{"limits: {depth: ", `2|1000|3.0|1|1001|1.5|"3"|deep`, "}"},
		{"failures: {mask_hosts: ", `true|false|True|0|"true"|maybe`, "}"},
		{"partners: {5f7b2ed74a97: {name: ", `Hana Clinic|365|true|하나|a|" a"|"a "|""|"` + strings.Repeat("a", 60) + `"|"` + strings.Repeat("a", 61) + `"|[]`, "}}"},
		{"route: {pass: [", `/if/read/open|/cash-receipt/|a|/|/a//|/a b`, "]}"},
		{"rollout: {old: a, new: b, bills: shared, default: ", `old|shadow|new|drained|canary|none`, "}"},
		{"log: {level: ", `info|warn|error|debug|[info]|""`, "}"},
	} {
		for _, value := range strings.Split(values.list, "|") {
			text := values.before + value + values.after + "\nroute: {default: a}\n"
			if strings.HasPrefix(text, "route: ") {
				text = values.before + value + "], default: a}\n"
			}
			text += "upstreams: {a: {form: v2, url: http://a}, b: {form: legacy, url: http://b}}\n"
			_, decoded := config.Parse(translate.File{Name: "testdata/test.yaml", Data: []byte(text)}, lookup)
			if err := inEditor(s, []byte(text)); (err == nil) != (decoded == nil) {
				t.Errorf("%s%s%s: Parse says %v, the schema %v", values.before, value, values.after, decoded, err)
			}
		}
	}
	for _, url := range []string{
		"http://a", "https://a/b/", "HTTP://a:8/x y@", "http://[::1]:80/a", "http://a:", "http://a.b:65535", "http://하나.kr", "", "a", "ftp://a", "http://", "http:///a", "http://:80",
		"http://a:65536", "http://a:b", "http://u@a", "http://a?", "http://a/b?c", "http://a#b", "http://u:p@a/b",
	} {
		text := "upstreams: {a: {form: v2, url: \"" + url + "\"}}\n"
		_, decoded := config.Parse(translate.File{Name: "testdata/test.yaml", Data: []byte(text)}, lookup)
		if err := inEditor(s, []byte(text)); (err == nil) != (decoded == nil) {
			t.Errorf("%s: Parse says %v, the schema %v", url, decoded, err)
		}
	}
}

// TestSchemaOfForms: the forms are those of the built-in table, unless the config has a table file.
func TestSchemaOfForms(t *testing.T) {
	t.Parallel()
	s := configSchema(t)
	const third = "upstreams: {a: {form: v3, url: http://a}}\n"
	for text, valid := range map[string]bool{third: false, third + "table: {overlay: a.yaml}\n": false, third + "table: {file: a.yaml}\n": true} {
		if err := inEditor(s, []byte(text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSchemaHasAMessageForEachPattern: an editor shows the message instead of a regular expression.
func TestSchemaHasAMessageForEachPattern(t *testing.T) {
	t.Parallel()
	text, err := config.Schema()
	must(t, err)
	var root any
	must(t, json.Unmarshal(text, &root))
	n := 0
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, entry := range v {
				visit(entry)
			}
		case map[string]any:
			if pattern, ok := v["pattern"].(string); ok {
				if n++; v["patternErrorMessage"] == nil {
					t.Errorf("no message for %s", pattern)
				}
			}
			for _, entry := range v {
				visit(entry)
			}
		}
	}
	if visit(root); n < 20 {
		t.Errorf("only %d patterns", n)
	}
}

// TestNumberOfKeys: each key is a choice that an operator must understand and a rule can overlook. A number that nobody
// needs to choose is in constants.go.
func TestNumberOfKeys(t *testing.T) {
	t.Parallel()
	const most = 95
	text, err := config.Schema()
	must(t, err)
	var root map[string]any
	must(t, json.Unmarshal(text, &root))
	var list []string
	sections := 0
	var visit func(section map[string]any, path string)
	visit = func(section map[string]any, path string) {
		properties, _ := section["properties"].(map[string]any)
		for key, value := range properties {
			before := len(list)
			visit(value.(map[string]any), path+key+".")
			if sections++; len(list) == before {
				sections--
				list = append(list, path+key)
			}
		}
		for inner, name := range map[string]string{"additionalProperties": "NAME.", "items": "[]."} {
			if entry, ok := section[inner].(map[string]any); ok {
				visit(entry, path+name)
			}
		}
	}
	visit(root, "")
	slices.Sort(list)
	t.Logf("%d keys with a value, in %d sections", len(list), sections)
	if len(list) > most || len(list) < most/2 {
		t.Errorf("%d keys, at most %d are allowed:\n%s", len(list), most, strings.Join(list, "\n"))
	}
}
