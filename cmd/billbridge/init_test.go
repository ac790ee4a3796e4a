package main

import (
	"os"
	"path/filepath"
	"regexp"
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

// What the comment of a migration says about codes is an overlay and a line of the config. With them a legacy partner gets no code of the
// new backend but the four that are said there, and a code of the old one means what it meant.
func TestCodesOfAMigration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "billbridge.yaml")
	code, _, errs := runCommand(t, false, "init", "--case", "migration", "--old", "https://legacy.example.com", "--new", "https://v2.example.com",
		"--public-url", "https://bridge.example.com", "--store", "sqlite:"+filepath.Join(dir, "b.db"), "--output", file)
	equal(t, code, exitOK, errs)
	text := string(proxytest.ReadFile(t, file))
	overlay := regexp.MustCompile(`(?m)^#   (forms: .*)$`).FindStringSubmatch(text)
	if overlay == nil {
		t.Fatalf("no overlay for the codes of legacy partners in\n%s", text)
	}
	warned := func() bool {
		_, out, _ := runCommand(t, false, "check", "--config", file)
		return strings.Contains(out, "partners in legacy may not know those of new: ask each")
	}
	equal(t, warned(), true)
	proxytest.WriteFile(t, filepath.Join(dir, "codes.yaml"), overlay[1]+"\n")
	proxytest.WriteFile(t, file, strings.Replace(text, "# table: {overlay: codes.yaml}", "table: {overlay: codes.yaml}", 1))
	equal(t, warned(), false)
	c, err := config.Load(file, os.LookupEnv)
	must(t, err)
	for code, want := range map[string]string{
		"BILL_001": "9800", "BILL_003": "9980", "BILL_002": "9999", "PARTNER_002": "9999", "MAINTAINED_METHOD": "9999", "0000": "0000",
	} {
		got, _ := c.Table.Envelope("legacy").CodesOf(code)
		equal(t, got, []string{want}, code)
	}
	for code, means := range map[string]translate.Meaning{"BILL_001": translate.Exists, "9800": translate.Exists, "9980": translate.NotFound} {
		equal(t, c.Table.Envelope("legacy").Means(code, means), true, code)
	}
	plain, err := compileTable("", "")
	must(t, err)
	for _, m := range plain.Meanings() {
		equal(t, c.Table.Envelope("legacy").Means(m.Code, m.Means), true, m)
	}
	equal(t, c.Table.Envelope("legacy").Means("9999", translate.Refused, translate.NotFound), false)
}
