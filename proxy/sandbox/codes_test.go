package sandbox_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The input of bill operations that leads to each code, and input just within the limit.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, cells := range proxytest.Rows(t, "testdata/rows/codes.txt") {
		want, call := cells[1], strings.Fields(cells[2])
		for _, form := range forms {
			if other := forms[1-slices.Index(forms, form)]; slices.Contains(call, other) {
				continue
			}
			t.Run(form+"/"+call[0]+"/"+cells[0], func(t *testing.T) {
				t.Parallel()
				r := start(t)
				if state := call[len(call)-1]; state == "W" || state == "F" {
					r.createInState(state)
				}
				q := newCall(form, call[0]).changedBy(t, cells[3])
				before := encode(r.Bills())
				code, body := r.do(q)
				equal(t, code, want, body)
				if after := encode(r.Bills()); want != "0000" && after != before {
					t.Errorf("a refusal changed the store:\n%s%s", before, after)
				}
				if q.key != "" && want != "0000" && strings.Contains(body, q.key) {
					t.Errorf("a refusal shows the key: %s", body)
				}
			})
		}
	}
}

// Requests that are not calls of the interface are answered with the envelope of their form.
func TestInvalidRequestsHaveTheEnvelopeOfTheirForm(t *testing.T) {
	t.Parallel()
	r := start(t)
	rows := append(proxytest.Rows(t, "testdata/rows/requests.txt"), [][]string{
		{"broken UTF-8", "POST /bill/read", "200 VALIDATION_001", "{\"apiKey\":\"\xff\"}"},
		{"deep", "POST /bill", "200 VALIDATION_001", strings.Repeat("[", 1<<19)},
		{"at the limit", "POST /bill", "200 PARTNER_002", strings.Repeat(" ", 1<<20-2) + "{}"},
		{"over the limit", "POST /bill", "413 VALIDATION_001", strings.Repeat(" ", 1<<20-1) + "{}"},
		{"over the limit, legacy", "POST /if/bill/send", "413 VALIDATION_001", strings.Repeat(" ", 1<<20) + "{}"},
	}...)
	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(row[1], " ")
			form := "v2"
			if strings.Contains(path, "/if/") {
				form = "legacy"
			}
			status, body := send(t, method, r.url+path, row[3])
			equal(t, fmt.Sprint(status, " ", codeOf(t, form, body)), row[2], body)
		})
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	r := start(t)
	for given, want := range map[string]int{
		"": 200, "application/json": 200, "application/json; charset=utf-8": 200,
		"text/plain": 415, "application/jsonx": 415, ";": 415,
	} {
		req, err := http.NewRequest(http.MethodPost, r.url+"/if/bill/read", strings.NewReader("{}"))
		must(t, err)
		if given != "" {
			req.Header.Set("Content-Type", given)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		res.Body.Close()
		equal(t, res.StatusCode, want, given)
	}
}

func TestMethodNotAllowedNamesPost(t *testing.T) {
	t.Parallel()
	res, err := http.Get(start(t).url + "/bill")
	must(t, err)
	res.Body.Close()
	equal(t, res.Header.Get("Allow"), "POST")
}

// The input of the sub-business operations that leads to each code.
func TestMappingCodes(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/mappings.txt") {
		t.Run(row[1]+"/"+row[0], func(t *testing.T) {
			t.Parallel()
			call := maps.Clone(subBusiness[row[1]])
			for change := range strings.SplitSeq(row[3], "; ") {
				if name, without := strings.CutPrefix(change, "no "); without {
					delete(call, name)
				} else if name, value, ok := strings.Cut(change, "="); ok {
					call[name] = json.RawMessage(value)
				}
			}
			status, body := start(t).post(row[1], encode(call))
			equal(t, fmt.Sprint(status, " ", codeOf(t, "v2", body)), "200 "+row[2], body)
		})
	}
}
