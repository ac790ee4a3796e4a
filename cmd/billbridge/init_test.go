package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Values that have a meaning in YAML are quoted.
func TestInitQuotesValues(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://a/#b", "http://a/ #b", "http://a/b: c", "http://a/{b}", `http://a/"b"`, "http://a/'", "http://a:", "http://a/,x]"} {
		file := filepath.Join(t.TempDir(), "b.yaml")
		code, _, errs := runCommand(t, false, "init", "--case", "translate", "--new", url, "--output", file)
		c, err := config.Load(file, os.LookupEnv)
		switch refused := strings.Contains(url, "#"); {
		case refused && (code != exitUsage || !strings.Contains(errs, "upstreams.new.url: must not have a query or a fragment")):
			t.Errorf("%s: %d %s", url, code, errs)
		case !refused && (code != exitOK || err != nil):
			t.Errorf("%s: %d %s %v", url, code, errs, err)
		case !refused && c.Upstreams[0].Form != "v2":
			t.Errorf("%s: %+v", url, c.Upstreams[0])
		}
	}
}

// What the old backend answers goes into an overlay beside the config: with it, partners in v2 get the codes and numbers of their form.
func TestInitWritesAnOverlayForTheOldBackend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	migration := []string{"init", "--case", "migration", "--old", "https://legacy.example.com", "--new", "https://v2.example.com", "--public-url", "https://bridge.example.com"}
	code, said, errs := runCommand(t, false, append(slices.Clone(migration), "--output", filepath.Join(dir, "billbridge.yaml"), "--used-code", "9800", "--no-bill-code", "9980", "--pay-types", "SIMPLE_PAY=0,CARD_VAN=1", "--other-pay-types", "null")...)
	equal(t, code, exitOK, errs)
	has(t, said, "billbridge-table.yaml was written")
	c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), func(string) (string, bool) { return "", false })
	must(t, err)
	equal(t, c.Table.Code("9800", "legacy", "v2")+c.Table.Code("9980", "legacy", "v2"), "BILL_001BILL_003")
	// Only the backend's operator knows whether replies have links.
	if warnings := c.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0].Text, "may have no link") {
		t.Errorf("warnings: %v", warnings)
	}
	for _, bad := range [][]string{
		{"cannot have a pair", "--used-code", "0000"},
		{"the pay types must be WORD=N", "--pay-types", "CARD_VAN"},
		{"the pay types must be WORD=N", "--pay-types", "CARD_VAN=-1"},
		{"name a file with --output", "--no-bill-code", "9980", "--output", "-"},
	} {
		if code, _, errs := runCommand(t, false, append(append(slices.Clone(migration), "--output", filepath.Join(dir, "x.yaml")), bad[1:]...)...); code != exitUsage || !strings.Contains(errs, bad[0]) {
			t.Errorf("%q: %d %s", bad, code, errs)
		}
	}
}
