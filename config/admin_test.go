package config_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/config"

	"billbridge/translate"
	"golang.org/x/text/unicode/norm"
)

// The tokens of a file, with their names and permissions, in its order. The nameless one is the first and may do everything.
func TestTokensOfTheAdminListener(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"anna.token": "the token of anna\n"})
	c, err := config.Parse(translate.File{Name: dir + "/billbridge.yaml", Data: []byte(oneUpstream + `
admin:
  listen: 192.0.2.1:9090
  token: nameless-nameless
  tokens:
    - {name: anna, token: "${file:anna.token}", may: operate}
    - {name: wall.1@hana, token: "${env:BILLBRIDGE_ADMIN_TOKEN}", may: read}
`)}, lookup)
	must(t, err)
	var got []string
	for _, one := range c.Admin.AllTokens() {
		got = append(got, fmt.Sprintf("%s %s %s", one.Name, one.May, one.Token.Reveal()))
	}
	equal(t, got, []string{" operate nameless-nameless", "anna operate the token of anna", "wall.1@hana read a token of the tests"})
	for _, text := range []string{"", "admin: {tokens: []}\n"} {
		if all := parse(t, oneUpstream+text).Admin.AllTokens(); len(all) != 0 {
			t.Errorf("%s%d tokens", text, len(all))
		}
	}
}

// Tokens with a name are enough for a listener that other machines can reach.
func TestNamedTokensAreEnoughBeyondLoopback(t *testing.T) {
	t.Parallel()
	parse(t, oneUpstream+"admin: {listen: '192.0.2.1:9090', tokens: [{name: anna, token: 0123456789abcdef, may: operate}]}\n")
}

// A partner has the name of the entry whose digits its ID begins with, or, for the first 12 digits, that begins with these.
func TestNamesOfPartners(t *testing.T) {
	t.Parallel()
	const short, full = "5f7b2ed74a97", "5f7b2ed74a97cc00112233445566778899aabbccddeeff00112233445566778899"
	c := parse(t, oneUpstream+`
partners:
  ffffffffffff: {name: 하나 의원}
  `+short+`: {name: Hana Clinic}
  00000000000012: {name: Twelve}
  00000000000034: {name: Thirty-four}
  123456789012: {name: Digits}
  1234567890e1: {name: Float}
`)
	for id, want := range map[string]string{
		short: "Hana Clinic", full[:64]: "Hana Clinic", short + "0": "Hana Clinic", "ffffffffffff": "하나 의원", strings.Repeat("f", 64): "하나 의원",
		"5f7b2ed74a98": "", "5f7b2ed74a9": "", "": "", "eeeeeeeeeeee": "",
		"000000000000": "", "00000000000012": "Twelve", "000000000000345": "Thirty-four", "0000000000003": "Thirty-four", "00000000000056": "",
		"123456789012": "Digits", "1234567890e1": "Float",
	} {
		equal(t, c.Partners.Name(id), want, id)
	}
	equal(t, config.Partners(nil).Name(short), "")
}

// A name in letters, as macOS writes Korean, is the same name as one in syllables.
func TestNamesAreComparedInNFC(t *testing.T) {
	t.Parallel()
	const syllables = "하나 의원"
	letters := norm.NFD.String(syllables)
	key := strings.Repeat("f", 64)
	for _, text := range []string{"  ffffffffffff: {name: " + letters + "}\n", "  " + letters + ": {keys: [" + key + "]}\n"} {
		c := parse(t, oneUpstream+"partners:\n"+text)
		equal(t, c.Partners.Name(key), syllables, text)
		for _, given := range []string{syllables, letters} {
			if found := c.Partners.Named(given); found == nil || found.Hash[:12] != key[:12] {
				t.Errorf("%q in %q: %v", given, text, found)
			}
		}
		if found := c.Partners.Named("하나"); found != nil {
			t.Errorf("a part of the name: %v", found)
		}
	}
}

// A partner with several keys is named by its first one, and a name can stand in place of its digits.
func TestKeysOfPartners(t *testing.T) {
	t.Parallel()
	first, second, other := strings.Repeat("f", 64), strings.Repeat("e", 64), strings.Repeat("d", 64)
	c := parse(t, oneUpstream+`
partners:
  Hana Clinic: {keys: [`+first+`, `+second+`]}
  `+other[:12]+`: {name: Dana Clinic, keys: [`+other+`]}
`)
	for key, want := range map[string][2]string{
		first: {first, "Hana Clinic"}, second: {first, "Hana Clinic"}, other: {other, "Dana Clinic"},
		second[:63]: {second[:63], ""}, "": {"", ""},
	} {
		if got := c.Identity(key); got != want[0] || c.Partners.Name(got) != want[1] {
			t.Errorf("%q: %q with the name %q, want %q", key, got, c.Partners.Name(got), want)
		}
	}
}
