package main

import (
	"path/filepath"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
)

// The examples of package config are what init writes, and a gateway starts with them. The tests of config validate them with the schema.
func TestInitWritesTheExamples(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"pass-through", "--new", "https://billing.example.com", "--form", "legacy"},
		{"translate", "--new", "https://v2.example.com/partner"},
		{"callbacks", "--new", "https://v2.example.com/partner", "--public-url", "https://bridge.example.com", "--store", "${env:BILLBRIDGE_STORE_URL}"},
		{"migration", "--old", "https://legacy.example.com", "--new", "https://v2.example.com/partner", "--public-url", "https://bridge.example.com", "--listen", ":8080"},
	} {
		file := filepath.Join(module, "config", "testdata", "good", "init-"+args[0]+".yaml")
		code, out, errs := runCommand(t, false, append([]string{"init", "--output", "-", "--case"}, args...)...)
		if code != exitOK || errs != "" {
			t.Fatalf("%q: %d %s", args, code, errs)
		}
		if *update {
			proxytest.WriteFile(t, file, out)
		}
		want := proxytest.ReadFile(t, file)
		equal(t, out, string(want), file)
		variable := func(string) (string, bool) { return "sqlite:billbridge.db", true }
		if _, err := config.Parse(translate.File{Name: file, Data: []byte(out)}, variable); err != nil {
			t.Errorf("billbridge would not start: %v", err)
		}
	}
}
