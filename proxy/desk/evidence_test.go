package desk

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
)

// linesOf splits a log.
func linesOf(log []byte) []string {
	return strings.SplitAfter(strings.TrimSuffix(string(log), "\n"), "\n")
}

// rechain gives changed lines the right numbers and hashes again, as a forger would.
func rechain(t *testing.T, lines []string) string {
	var out strings.Builder
	prev := ""
	for i, line := range lines {
		var r Record
		must(t, json.Unmarshal([]byte(line), &r))
		r.N, r.Prev = i+1, prev
		text, err := json.Marshal(r)
		must(t, err)
		prev = lineHash(text)
		out.Write(append(text, '\n'))
	}
	return out.String()
}

// Evidence that was changed in any way is refused, also if the forger makes the chain right again.
func TestTamperedEvidenceIsRefused(t *testing.T) {
	t.Parallel()
	key, sign := signed(t)
	_, log := runShop(t, "v2", "new-id-after-closed", func(c *Config) {
		sign(c)
		c.Plan.Only = []string{"U1", "U3", "H"}
	})
	_, unsigned := runShop(t, "v2", "new-id-after-closed", func(c *Config) { c.Plan.Only = []string{"U1"} })
	res, err := Verify(bytes.NewReader(log), key.Public().(ed25519.PublicKey))
	must(t, err)
	equal(t, failing(res.Verdicts), "U1")
	equal(t, len(res.Verdicts), 6)
	lines, practice := linesOf(log), linesOf(unsigned)
	at := func(lines []string, part string) int {
		for i, line := range lines {
			if strings.Contains(line, part) {
				return i
			}
		}
		t.Fatal("no line has " + part)
		return 0
	}
	edit := func(lines []string, i int, from, to string) []string {
		changed := append([]string{}, lines...)
		changed[i] = strings.Replace(changed[i], from, to, 1)
		if changed[i] == lines[i] {
			t.Fatalf("line %d has no %s", i+1, from)
		}
		return changed
	}
	without := func(lines []string, i int) []string { return append(append([]string{}, lines[:i]...), lines[i+1:]...) }
	swapped := append([]string{}, lines...)
	swapped[5], swapped[6] = swapped[6], swapped[5]
	other, _, _ := ed25519.GenerateKey(nil)
	verdict, failed := at(lines, `"kind":"verdict"`), at(practice, `"result":"FAILED"`)
	asPassed := edit(practice, failed, `"result":"FAILED"`, `"result":"PASSED"`)
	cases := map[string]struct {
		log    string
		public ed25519.PublicKey
		want   string
	}{
		"a record is changed":    {strings.Join(edit(lines, at(lines, `"operation":"bill.create"`), `"price":2`, `"price":3`), ""), nil, "the chain is broken"},
		"a record is removed":    {strings.Join(without(lines, 4), ""), nil, "the chain is broken"},
		"records are exchanged":  {strings.Join(swapped, ""), nil, "the chain is broken"},
		"a verdict is changed":   {strings.Join(edit(lines, verdict, `"FAILED"`, `"PASSED"`), ""), nil, "does not follow"},
		"the end is removed":     {strings.Join(lines[:len(lines)-2], ""), nil, "has no end"},
		"the last signature":     {strings.Join(lines[:len(lines)-1], ""), nil, "the signature of the end is missing"},
		"half a line":            {string(log[:len(log)-10]), nil, "not a complete record"},
		"another key":            {string(log), other, "signed with another key"},
		"nothing":                {"", nil, "has no end"},
		"rechained and changed":  {rechain(t, edit(lines, at(lines, `"operation":"bill.create"`), "Go-http", "another")), nil, "the signature is wrong"},
		"rechained and removed":  {rechain(t, without(lines, at(lines, `"text":"wait 5m"`))), nil, "the signature is wrong"},
		"rechained verdict":      {rechain(t, asPassed), nil, "does not follow from the log"},
		"rechained second bill":  {rechain(t, without(practice, at(practice, `X2"`))), nil, "does not follow from the log"},
		"a practice as the real": {rechain(t, edit(practice, 0, `"practice":true`, `"practice":false`)), nil, "signature of the end is missing"},
		"more after the end":     {rechain(t, append(append([]string{}, practice...), "\n"+practice[at(practice, `"kind":"call"`)])), nil, "the run has ended before"},
		"other cases":            {rechain(t, edit(practice, 0, casesHash, "0000000000000000")), nil, "verify with build test"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Verify(strings.NewReader(c.log), c.public)
			fails(t, c.want)(err)
		})
	}
	works(t)(Verify(bytes.NewReader(unsigned), nil))
}

// The evidence has no keys, phones, names or hashes.
func TestEvidenceHasNoSecrets(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"v2", "legacy"} {
		_, log := runShop(t, form, "tries-hashes", func(c *Config) { c.Plan.Only = []string{"A", "K1", "K4"} })
		for _, secret := range []string{testKey, phone, "수강료", "http://shop", "신한카드", "4518-42"} {
			if i := strings.Index(string(log), secret); i >= 0 {
				t.Errorf("%s: %s", secret, log[max(0, i-200):i+20])
			}
		}
		if n := strings.Count(string(log), "VALIDATION_002"); n == 0 {
			t.Error("no hash was refused")
		}
		for _, r := range linesOf(log) {
			var of struct {
				Call struct {
					Request struct{ Bill struct{ Hash string } }
				}
			}
			_ = json.Unmarshal([]byte(r), &of)
			if h := of.Call.Request.Bill.Hash; h != "" {
				equal(t, strings.HasPrefix(h, "fp:"), true)
			}
		}
	}
}
