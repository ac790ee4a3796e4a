package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"billbridge/translate"
)

// A collection is a collection of requests that is being written. The keys of partners are variables.
type collection struct {
	items     []object
	variables []string
}

// Collection returns the requests of a form of the table, with the examples of [Document], as a collection in the
// format 2.1 of Postman, which other HTTP clients import too. server is the address before the paths of the table, or
// "".
func Collection(t *translate.Table, form translate.Form, server string) ([]byte, error) {
	var c collection
	for _, o := range t.Operations() {
		if path := o.Path(form); path != "" {
			c.add(o.Name, "POST", "{{server}}"+path, o.Schema(translate.Request, form))
		}
	}
	variables := []object{{{"key", "server"}, {"value", server}}}
	if callback := t.Callback(); callback != nil {
		c.add(callback.Name(), callback.Method(), "{{callbackAddress}}", callback.Schema(form))
		c.variables = append(c.variables, "callbackAddress")
	}
	for _, name := range c.variables {
		variables = append(variables, object{{"key", name}, {"value", ""}})
	}
	return json.MarshalIndent(object{
		{"info", object{
			{"name", fmt.Sprintf("The form %s of the interface", form)},
			{"schema", "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
		}},
		{"item", c.items},
		{"variable", variables},
	}, "", "  ")
}

// add adds a request with the example of its schema.
func (c *collection) add(name, method, url string, s *translate.Schema) {
	c.useVariables(s)
	var text bytes.Buffer
	_ = json.Indent(&text, example(s), "", "  ") // without an error, since it is JSON
	c.items = append(c.items, object{{"name", name}, {"request", object{
		{"method", method},
		{"header", []object{{{"key", "Content-Type"}, {"value", "application/json"}}}},
		{"url", url},
		{"body", object{
			{"mode", "raw"},
			{"raw", text.String()},
			{"options", object{{"raw", object{{"language", "json"}}}}},
		}},
	}}})
}

// useVariables replaces the values of secrets with variables.
func (c *collection) useVariables(s *translate.Schema) {
	for _, p := range s.Properties {
		if p.Format == "password" {
			p.Example = `"{{` + p.Name + `}}"`
			if !slices.Contains(c.variables, p.Name) {
				c.variables = append(c.variables, p.Name)
			}
		}
		c.useVariables(p.Schema)
	}
}
