package translate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// scanTables are tables that drop, pass and refuse unknown fields.
func scanTables(t testing.TB) (tables []*translate.Table) {
	t.Helper()
	for _, unknown := range []string{"drop, reply: drop", "pass, reply: pass", "refuse, reply: drop"} {
		table, err := translate.Compile(8, billing.Table(), translate.File{Name: "o.yaml", Data: []byte("unknown: {request: " + unknown + "}")})
		must(t, err)
		tables = append(tables, table)
	}
	return tables
}

// checkScan compares the scanner with its reference, for a request and for a reply. What the scanner accepts must also be valid for
// encoding/json, and without duplicate names.
func checkScan(t *testing.T, c *translate.Translation, doc []byte) (accepted bool) {
	t.Helper()
	for _, m := range []translate.Message{translate.Request, translate.Reply} {
		valid, err := translate.CompareScan(c, m, doc)
		if err != nil {
			t.Fatalf("%s of %s: %v", m, c.Operation().Name, err)
		}
		accepted = valid
	}
	if err := strict(doc); accepted && (err != nil || !utf8.Valid(doc)) {
		t.Fatalf("%q is accepted, but has invalid UTF-8 or %v", doc, err)
	}
	return accepted
}

// FuzzScan: the scanner accepts the documents that package jsontext accepts, with the same faults, and reads the values that gjson reads.
func FuzzScan(f *testing.F) {
	tables := scanTables(f)
	seeds(f, func(operation, direction uint8, doc, _ []byte) { f.Add(operation, direction, doc) })
	f.Fuzz(func(t *testing.T, operation, direction uint8, doc []byte) {
		o, client, upstream := choose(operation, direction)
		checkScan(t, tables[int(direction>>2)%len(tables)].Operation(o.Name).Translation(client, upstream), doc)
	})
}

// unknownNames returns the members of an object with this many names that are not in the table, the last of which is given.
func unknownNames(count int, last string) string {
	var members []string
	for i := range count - 1 {
		members = append(members, fmt.Sprintf(`"n%d":%d`, i, i))
	}
	return strings.Join(append(members, `"`+last+`":0`), ",")
}

// The scanner reads as its reference does when a document is cut, or something is inserted or replaced at any place of it.
func TestScannerReadsChangedDocuments(t *testing.T) {
	t.Parallel()
	docs := map[string][]string{ // by operation; the first is translated from a client with v2 to legacy, the next the other way
		"bill.create": {
			`{"apiKey":"k","bill":{"billId":"1","price":100,"message":"é","x":[1,{"y":"z"}]},"z":-1.5e1}`,
			` { "apikey" : "k" , "bill" : { "bill_id" : "\ud83d\ude02" , "price" : "0" } , "x" : { } } `,
			`{"apiKey":"k","bill":{` + unknownNames(15, "a") + `},"n1":1,"member":null}`,
		},
		"bill.read": {
			`{"bill_id":"\u0031","appr_state":"F","appr_dt":"가","b":{"c":false}}`,
			`{"code":"0000","message":"ok","data":{"billId":"1","apprDt":0,"udItem":null,"a":true,"b":[]}}`,
		},
	}
	pieces := []string{
		``, ` `, "\n", "\t", "\r", "\v", "\f", "\x00", "\x1f", "\x7f", "\x80", "\xff", "\xed\xa0\x80", "\xc0\x80", "\u00a0", "\ufeff", "\ufffd", "가",
		`"`, `\`, `\"`, `\\`, `\/`, `\n`, `\x`, `\u0061`, `\u00e`, `\ud83d`, `\ude02`, `,`, `:`, `{`, `}`, `[`, `]`, `{}`, `[]`, `[[[[[[[[`, `]]]]]]]]`,
		`0`, `00`, `7`, `-`, `-0`, `+`, `.`, `.5`, `1.`, `e`, `e5`, `1e400`, `null`, `nul`, `true`, `false`, `NaN`,
		`"":1,`, `"x":1,`, `"x":1,"x":2,`, `"x":1,"\u0078":2,`, `"billId":"2",`, `"bill\u0049d":3,`, `"BILLID":4,`, `"bill":null,`, `"bill":{},"data":{},`, `"x":{"a":1,"a":2},`, `"x":["\ud800"],`,
		unknownNames(16, "z") + `,`, unknownNames(17, "z") + `,`, unknownNames(17, "n3") + `,`, unknownNames(40, "n0") + `,`, unknownNames(40, `\u006e0`) + `,`,
	}
	tables, step := scanTables(t), 5
	if os.Getenv("BILLBRIDGE_LONG") == "1" { // .ci/long: at each place
		step = 1
	}
	for operation, docs := range docs {
		for i, doc := range docs {
			t.Run(fmt.Sprint(operation, i), func(t *testing.T) {
				t.Parallel()
				c, accepted := tables[i%len(tables)].Operation(operation).Translation(forms[i%2], forms[1-i%2]), 0
				for at := rand.IntN(step); at <= len(doc); at += step {
					checkScan(t, c, []byte(doc[:at]))
					for _, piece := range pieces {
						for _, in := range []string{doc[:at] + piece + doc[at:], doc[:at] + piece + doc[min(at+1, len(doc)):]} {
							if checkScan(t, c, []byte(in)) {
								accepted++
							}
						}
					}
				}
				if accepted < 500/step {
					t.Errorf("%d changed documents were valid, want more", accepted)
				}
			})
		}
	}
}
