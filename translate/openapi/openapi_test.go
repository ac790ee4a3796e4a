package openapi_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/translate"
	"billbridge/translate/billing"
	"billbridge/translate/openapi"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

var update = flag.Bool("update", false, "write the golden files; review every line of the diff")

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

const server = "https://bridge.example.com"

// overlay has what the tables of this repository lack.
const overlay = `
forms: {legacy: {status: {404: "9980", 200: "0000"}}}
fields:
  agreed: [agreed, true]
  rate: [rate, 1.5]
operations:
  bill.create:
    request:
      +bill.agreed: bill.agreed
      +bill.rate: bill.rate
      +bill.months: {legacy: bill.months, as: digits, check: ..36}
      +bill.kind: {legacy: bill.kind, values: [{v2: A, legacy: "1"}, {v2: B, legacy: "2"}]}
      +bill.initials: {legacy: bill.initials, check: 2..3}
      +bill.tags: {legacy: bill.tags, each: value, as: digits}
  bill.read:
    reply:
      apprPayType: {values: [{v2: 0, legacy: SIMPLE_PAY}, {v2: null, legacy: other}]}
`

// tables returns the tables of this repository, and the billing table with an overlay.
func tables(t *testing.T) map[string]*translate.Table {
	t.Helper()
	all := map[string]*translate.Table{}
	compile := func(name string, base translate.File, overlays ...translate.File) {
		table, err := translate.Compile(32, base, overlays...)
		must(t, err)
		all[name] = table
	}
	compile("billing", billing.Table())
	compile("overlay", billing.Table(), translate.File{Name: "overlay.yaml", Data: []byte(overlay)})
	for _, name := range []string{"courier", "messages"} {
		compile(name, translate.File{Name: name, Data: readFile(t, "../examples/"+name+".yaml")})
	}
	return all
}

// A document is the document of a form of a table.
type document struct {
	name  string // of the table
	table *translate.Table
	form  translate.Form
	text  []byte
}

// documents calls f with every document.
func documents(t *testing.T, f func(t *testing.T, d document)) {
	t.Helper()
	for name, table := range tables(t) {
		for _, form := range table.Forms() {
			t.Run(fmt.Sprint(name, "/", form), func(t *testing.T) {
				t.Parallel()
				text, err := openapi.Document(table, form, server)
				must(t, err)
				f(t, document{name, table, form, text})
			})
		}
	}
}

func TestDocumentsOfTheBillingTable(t *testing.T) {
	t.Parallel()
	documents(t, func(t *testing.T, d document) {
		if d.name != "billing" {
			return
		}
		file, text := filepath.Join("testdata", fmt.Sprint(d.form, ".openapi.json")), append(d.text, '\n')
		if *update {
			must(t, os.WriteFile(file, text, 0o644))
		}
		if !bytes.Equal(readFile(t, file), text) {
			t.Errorf("%s differs: run the test with -update, and review the diff", file)
		}
	})
}

// The schema is https://spec.openapis.org/oas/3.1/schema/2022-10-07, of the OpenAPI Initiative (Apache License 2.0).
func TestDocumentsAreValid(t *testing.T) {
	t.Parallel()
	schema := compiler(t, readFile(t, "testdata/oas31-schema.json"))("")
	documents(t, func(t *testing.T, d document) { must(t, schema.Validate(decode(t, d.text))) })
}

func TestDocumentsPassRedocly(t *testing.T) {
	t.Parallel()
	cli := os.Getenv("BILLBRIDGE_REDOCLY")
	if cli == "" {
		t.Skip("not checked with Redocly: BILLBRIDGE_REDOCLY does not name its cli.js")
	}
	arguments := []string{cli, "lint"}
	for name, table := range tables(t) {
		for _, form := range table.Forms() {
			text, err := openapi.Document(table, form, server)
			must(t, err)
			file := filepath.Join(t.TempDir(), fmt.Sprint(name, "-", form, ".json"))
			must(t, os.WriteFile(file, text, 0o600))
			arguments = append(arguments, file)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "node", arguments...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// messages returns the places of messages in a document, as JSON pointers, with those of their examples.
func messages(d document) map[string]string {
	all := map[string]string{}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, section := range []string{"paths", "webhooks"} {
		gjson.GetBytes(d.text, section).ForEach(func(path, item gjson.Result) bool {
			item.ForEach(func(method, _ gjson.Result) bool {
				at := "/" + section + "/" + escape.Replace(path.Str) + "/" + method.Str
				all[at+"/requestBody/content/application~1json/schema"] = at + "/requestBody/content/application~1json/example"
				if section == "paths" {
					reply := at + "/responses/200/content/application~1json"
					all[reply+"/schema/anyOf/0"] = reply + "/examples/success/value"
					all[reply+"/schema/anyOf/1"] = reply + "/examples/failure/value"
				}
				return true
			})
			return true
		})
	}
	return all
}

// Every example has the type and the bounds that the document describes. A failure is no success.
func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	documents(t, func(t *testing.T, d document) {
		schemas := compiler(t, d.text)
		for schema, example := range messages(d) {
			if err := schemas(schema).Validate(at(t, d.text, example)); err != nil {
				t.Errorf("%s: %v", example, err)
			}
			if success, ok := strings.CutSuffix(schema, "/anyOf/1"); ok {
				if schemas(success+"/anyOf/0").Validate(at(t, d.text, example)) == nil {
					t.Errorf("%s: the failure is also a success", example)
				}
			}
		}
	})
}

// The examples are messages that the gateway translates and writes: nothing in them is refused, dropped as unknown or
// mismatched, and their envelopes are those of the gateway.
func TestExamplesAreTranslated(t *testing.T) {
	t.Parallel()
	documents(t, func(t *testing.T, d document) {
		other := d.table.Forms()[0]
		if other == d.form {
			other = d.table.Forms()[1]
		}
		invalid := d.table.Own[translate.OwnInvalid]
		failure := d.table.Envelope(d.form).FailureSchema().Example
		sameNames(t, "failure", failure, d.table.Envelope(d.form).AppendFailure(nil, invalid, "the reason"))
		for _, o := range d.table.Operations {
			there := o.Translation(d.form, other)
			if there == nil {
				continue
			}
			back := o.Translation(other, d.form)
			request := there.ExplainRequest(o.Schema(translate.Request, d.form).Example)
			reply := back.ExplainReply(request.Output, 200, o.Schema(translate.Reply, d.form).Example)
			toPartner := there.ExplainReply(nil, 200, o.Schema(translate.Reply, other).Example)
			sameNames(t, o.Name, o.Schema(translate.Reply, d.form).Example, toPartner.Output)
			for what, e := range map[string]*translate.Explanation{"request": request, "reply": reply} {
				unpaired := e.Report.Mismatched // a word of a field that has no pairs
				if e.Err != nil || e.Report.Unknown > 0 || d.name != "billing" && d.name != "overlay" && len(unpaired) > 0 {
					t.Errorf("%s %s: %v, unknown %d, mismatched %v", o.Name, what, e.Err, e.Report.Unknown, unpaired)
				}
			}
		}
	})
}

// sameNames checks that two messages have the same names at the top level, but for fields that one form lacks.
func sameNames(t *testing.T, what string, example, written []byte) {
	t.Helper()
	names := gjson.ParseBytes(example).Map()
	gjson.ParseBytes(written).ForEach(func(name, v gjson.Result) bool {
		if names[name.Str].Type != v.Type {
			t.Errorf("%s: %s differs in\n%s\n%s", what, name.Str, example, written)
		}
		delete(names, name.Str)
		return true
	})
	for name, v := range names {
		if v.Type == gjson.Null {
			t.Errorf("%s: the gateway does not write %s", what, name)
		}
	}
}

// Every field that the table has in the form is in the document.
func TestDocumentsHaveEveryField(t *testing.T) {
	t.Parallel()
	documents(t, func(t *testing.T, d document) {
		for _, o := range d.table.Operations {
			for _, f := range o.Fields() {
				for path, form := range map[string]translate.Form{f.Source: f.From, f.Target: f.To} {
					if form == d.form && path != "" && !hasPath(o.Schema(translate.Message(f.Message), form), path) {
						t.Errorf("%s %s: %s is missing", o.Name, f.Message, path)
					}
				}
			}
		}
		for _, f := range d.table.Callback.Fields() {
			if f.From == d.form && f.Source != "" && !hasPath(d.table.Callback.Schema(d.form), f.Source) {
				t.Errorf("callback: %s is missing", f.Source)
			}
		}
	})
}

// hasPath reports whether a schema has a path, from its top or from an object in it, such as the result of a reply.
func hasPath(s *translate.Schema, path string) bool {
	if s.Items != nil {
		return hasPath(s.Items, strings.TrimPrefix(strings.TrimPrefix(path, "[]"), "."))
	}
	if path == "" {
		return true
	}
	name, rest, _ := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[]")
	if p := s.Properties[name]; p != nil && (rest == "" || hasPath(p, rest)) && (!list || p.Items != nil) {
		return true
	}
	result := cmp.Or(s.Properties["data"], s.Properties["result"])
	return result != nil && hasPath(result, path)
}

// boundRows are requests that break one bound each: the table, its form, the path, the place of the field in the example,
// and the value.
const boundRows = `
billing v2 /bill apiKey "123456789012345678901234567890123"
billing v2 /bill apiKey ""
billing v2 /bill bill.billId "123456789012345678901"
billing v2 /bill bill.sendType "FAX"
billing v2 /bill bill.price 99
billing v2 /bill bill.price "20000"
billing v2 /bill bill.price 1.5
billing v2 /auth/mapping businessNumber "123456789"
billing legacy /if/bill/send bill.price 20000
billing legacy /if/bill/send bill.price "020000"
courier v2 /v2/shipments shipment.service "SLOW"
courier v2 /v2/shipments shipment.shipDate "20260102"
courier v2 /v2/shipments shipment.parcels.0.sequence "1"
courier v1 /api/1/label_create parcels.0.weight_g "heavy"
messages classic /sms/send sendTime "2026"
overlay v2 /bill bill.agreed "true"
overlay v2 /bill bill.rate "1.5"
overlay v2 /bill bill.months 37
overlay v2 /bill bill.initials "ABCD"
overlay legacy /if/bill/send bill.kind "A"
overlay legacy /if/bill/send bill.tags.0 1
`

func TestDocumentsHaveTheBounds(t *testing.T) {
	t.Parallel()
	documents(t, func(t *testing.T, d document) {
		schemas := compiler(t, d.text)
		for row := range strings.Lines(strings.TrimSpace(boundRows)) {
			f := strings.Fields(row)
			if f[0] != d.name || f[1] != string(d.form) {
				continue
			}
			place := "/paths/" + strings.ReplaceAll(f[2], "/", "~1") + "/post/requestBody/content/application~1json/"
			schema, example := schemas(place+"schema"), at(t, d.text, place+"example")
			text, err := json.Marshal(example)
			must(t, err)
			wrong := decode(t, setRaw(t, text, f[3], f[4]))
			if schema.Validate(wrong) == nil {
				t.Errorf("%s: it is valid", row)
			}
		}
	})
}

// The hash of an example is that of the example.
func TestExamplesHaveTheirHash(t *testing.T) {
	t.Parallel()
	documents(t, func(t *testing.T, d document) {
		for _, o := range d.table.Operations {
			if !o.HasHash() {
				continue
			}
			call := o.Translation(d.form, d.form).Start()
			must(t, call.Read(o.Schema(translate.Request, d.form).Example))
			signed, err := call.Sign()
			must(t, err)
			if signed.Carried != signed.Hash {
				t.Errorf("%s has the hash %s", o.Name, signed.Carried)
			}
			call.Release()
		}
	})
}

func TestDocumentWithoutAServer(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document(tables(t)["overlay"], "legacy", "")
	must(t, err)
	if url := gjson.GetBytes(text, "servers.0.url").Str; url != "/" {
		t.Errorf("the server is %q", url)
	}
}

// compiler returns a function that compiles the schema at a JSON pointer of a document.
func compiler(t *testing.T, text []byte) func(pointer string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("https://example.com/document.json", decode(t, text)))
	return func(pointer string) *jsonschema.Schema {
		schema, err := c.Compile("https://example.com/document.json#" + pointer)
		must(t, err)
		return schema
	}
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	return v
}

// at returns the value at a JSON pointer of a document.
func at(t *testing.T, text []byte, pointer string) any {
	t.Helper()
	v := decode(t, text)
	for name := range strings.SplitSeq(pointer[1:], "/") {
		v = v.(map[string]any)[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	if v == nil {
		t.Fatalf("there is nothing at %s", pointer)
	}
	return v
}

func setRaw(t *testing.T, text []byte, path, raw string) []byte {
	t.Helper()
	text, err := sjson.SetRawBytes(text, path, []byte(raw))
	must(t, err)
	return text
}
