// Package examples has tables for other interfaces than billing, and the tests that run them.
package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

// A message has the values of one message in both forms. A value ends in ? if the field can be missing.
type message struct {
	About string // the operation and the message, or "callback"
	Forms [2]string
}

// send translates a message from one form to the other. It fails the test if anything but a declared constant is added, or anything
// is lost; a field that is missing in a reply is no loss.
func send(t rapid.TB, table *translate.Table, about string, from int, in string) string {
	t.Helper()
	name, message, _ := strings.Cut(about, " ")
	forms, o := table.Forms(), table.Operation(name)
	var out []byte
	var err error
	var report translate.Report
	switch message {
	case "request":
		call := o.Translation(forms[from], forms[1-from]).Start()
		out, err = call.Request(nil, []byte(in))
		report = call.Report
	case "reply":
		call := o.Translation(forms[1-from], forms[from]).StartReply()
		out, err = call.Reply(nil, 200, []byte(in))
		report = call.Report
	default:
		var notice translate.Notice
		out, notice, err = table.Callback.Translate(nil, []byte(in), forms[from], forms[1-from])
		if report = notice.Report; notice.Recognised != translate.Translated {
			t.Fatalf("%s is not translated: %s", in, notice.Recognised)
		}
	}
	misfit := func(wrong translate.Detail) bool { return wrong.Format != translate.IsMissing }
	if err != nil || report.Unknown > 0 || len(report.Dropped) > 0 || slices.ContainsFunc(report.Mismatches, misfit) {
		t.Fatalf("%s from %s: %s\nbecame %s, %v, %+v", about, forms[from], in, out, err, report)
	}
	return string(out)
}

// What a form can say and the other can hold comes back unchanged: of every message, with random values.
func TestRandomMessagesComeBack(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"courier.yaml", "messages.yaml", "parking.yaml"} {
		text, err := os.ReadFile(file)
		must(t, err)
		table, err := translate.Compile(32, translate.File{Name: file, Data: text})
		must(t, err)
		var messages []message
		text, err = os.ReadFile("testdata/random-" + file)
		must(t, err)
		must(t, yaml.Load(text, &messages))
		for _, m := range messages {
			for from := range 2 {
				t.Run(fmt.Sprint(file, " ", m.About, " ", from), func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(t *rapid.T) {
						in := generate(t, gjson.Parse(m.Forms[from]))
						if strings.Contains(in, `{}`) { // an object without fields is no value
							t.Skip()
						}
						out := send(t, table, m.About, from, in)
						if back := send(t, table, m.About, 1-from, out); canonical(back) != canonical(in) {
							t.Fatalf("%s\nbecame %s\nand    %s", in, out, back)
						}
					})
				})
			}
		}
	}
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func canonical(doc string) string { return string(translate.Canonical(nil, []byte(doc))) }

// generate makes a message from a template.
func generate(t *rapid.T, template gjson.Result) string {
	switch {
	case template.IsObject():
		var members []string
		template.ForEach(func(key, v gjson.Result) bool {
			if v.Type == gjson.String && strings.HasSuffix(v.Str, "?") && rapid.IntRange(0, 4).Draw(t, key.Str+" is there") == 0 {
				return true
			}
			members = append(members, key.Raw+":"+generate(t, v))
			return true
		})
		return "{" + strings.Join(members, ",") + "}"
	case template.IsArray():
		var items []string
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			items = append(items, generate(t, template.Get("0")))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return value(t, strings.TrimSuffix(template.Str, "?"))
}

// patterns are those of kinds of values, as JSON.
var patterns = map[string]string{
	"name": `"[a-z]{1,9}"`, "digits": `"(0|[1-9][0-9]{0,24})"`, "number": `0|[1-9][0-9]{0,24}`, "positive": `[1-9][0-9]{0,24}`,
	"decimal": `"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?"`, "fraction": `-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?`,
	"zeros": `"0[0-9]{3}"`, "time12": `"[0-9]{12}"`, "minute": `"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}"`,
	"kilos": `(0|[1-9][0-9]{0,20})(\.[0-9]{0,2}[1-9])?`, "date8": `"[0-9]{8}"`, "date": `"[0-9]{4}-[0-9]{2}-[0-9]{2}"`, "time14": `"([0-9]{14})?"`,
	"time": `null|"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+09:00"`,
}

// value makes a value of a kind, or one of several.
func value(t *rapid.T, kind string) string {
	if pattern, ok := patterns[kind]; ok {
		return rapid.StringMatching(pattern).Draw(t, kind)
	}
	if kind == "text" {
		encoded, err := json.Marshal(rapid.StringOfN(rapid.Rune(), 1, 20, -1).Draw(t, "text"))
		must(t, err)
		return string(encoded)
	}
	return rapid.SampledFrom(strings.Split(kind, "|")).Draw(t, kind)
}
