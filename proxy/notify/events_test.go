package notify_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/notify"
	"billbridge/proxy/proxytest"
)

// The list of kinds, the words of the config, the schema and the table of README.md have the same events.
func TestOneListOfEvents(t *testing.T) {
	t.Parallel()
	readme := string(proxytest.ReadFile(t, "README.md"))
	text, err := notify.Schema()
	must(t, err)
	var schema struct {
		Properties struct {
			Type struct{ Enum []string }
			Data struct{ Properties map[string]any }
		}
	}
	must(t, json.Unmarshal(text, &schema))
	var names, types []string
	rows := ""
	for _, kind := range notify.Kinds() {
		names, types = append(names, kind.Name), append(types, "billbridge."+kind.Name)
		example, err := json.Marshal(kind.Example)
		must(t, err)
		rows += "| `" + kind.Name + "` | " + kind.Means + " | `" + string(example) + "` |\n"
		e := kind.Event(time.Now())
		body, err := json.Marshal(e)
		must(t, err)
		must(t, valid(t, string(body)))
		words := e.Sentence()
		has(t, words, "Test: ")
		for _, broken := range []string{"<no value>", "{{", "  ", "\n"} {
			lacks(t, words, broken)
		}
		if !strings.HasSuffix(words, ".") && !strings.Contains(words, " See billbridge ") {
			t.Errorf("%q is no sentence", words)
		}
		e.Data = notify.Data{}
		if body, err = json.Marshal(e); err != nil || valid(t, string(body)) == nil {
			t.Errorf("an event %s without data fits the schema, %v", kind.Name, err)
		}
	}
	field, _ := reflect.TypeFor[config.Destination]().FieldByName("Events")
	proxytest.Equal(t, strings.Fields(field.Tag.Get("words")), names)
	proxytest.Equal(t, schema.Properties.Type.Enum, types)
	if !strings.Contains(readme, rows) {
		t.Errorf("README.md needs these rows:\n%s", rows)
	}
	for i := range reflect.TypeFor[notify.Data]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[notify.Data]().Field(i).Tag.Get("json"), ",")
		if schema.Properties.Data.Properties[name] == nil {
			t.Errorf("the schema lacks data.%s", name)
		}
	}
}
