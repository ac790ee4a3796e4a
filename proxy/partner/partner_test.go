package partner_test

import (
	"strings"
	"testing"

	"billbridge/proxy/partner"
)

// The digits are in the databases of gateways that run: another way to compute them would lose every partner.
const (
	key  = "demo-partner-key"
	full = "5f7b2ed74a9736a538a6fb5a5a1a76afdcdd0d177d7fc6e79c6b6843527d848d"
)

func TestIDIsTheSHA256OfTheKey(t *testing.T) {
	t.Parallel()
	id := partner.Of(key)
	if id != full || !id.IsFull() {
		t.Errorf("got %q, want %q", id, full)
	}
	if short, direct := id.Short(), partner.ShortOf(key); short != full[:12] || direct != short {
		t.Errorf("short: %q and %q", short, direct)
	}
}

func TestIDIsReadAsOperatorsTypeIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ parses, full, prefix bool }{
		full:                   {true, true, true},
		full[:12]:              {true, false, true},
		full[:63]:              {true, false, true},
		full[:11]:              {},
		"":                     {},
		full + "0":             {false, false, true}, // selects nothing
		strings.ToUpper(full):  {},
		full[:12] + " ":        {},
		"demo-partner-key":     {},
		full[:20] + "g" + "00": {},
	} {
		id, ok := partner.Parse(text)
		if string(id) != text || ok != want.parses || id.IsFull() != want.full || id.IsPrefix() != want.prefix {
			t.Errorf("%q: parses %v, full %v, prefix %v, want %v", text, ok, id.IsFull(), id.IsPrefix(), want)
		}
	}
}

func TestShortIDOfNobodyIsEmpty(t *testing.T) {
	t.Parallel()
	if short := partner.ID("").Short(); short != "" {
		t.Errorf("got %q", short)
	}
}
