package relay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/operate"
)

// Pages have the same callbacks as the list, and the counts are those of what waits and is dead.
func TestOperatorPagesAndCounts(t *testing.T) {
	t.Parallel()
	s, _ := operatedRelay(t)
	var paged []string
	for query := "?limit=3"; ; {
		w := s.ask("GET", "/callbacks"+query)
		var p operate.CallbackPage
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		for _, one := range p.Callbacks {
			paged = append(paged, one.Bill)
		}
		if p.Next == 0 {
			break
		}
		query = fmt.Sprintf("?limit=3&after=%d", p.Next)
	}
	if want := []string{"waiting", "other", "dead", "taken"}; !slices.Equal(paged, want) {
		t.Errorf("page by page %v", paged)
	}
	for target, want := range map[string]string{
		"/callbacks?state=dropped":       `{"callbacks":[]}`,
		"/callbacks/counts?at_most=100":  `{"failed":{"number":2},"superseded":{"number":0},"waiting":{"number":1}}`,
		"/callbacks/counts?at_most=1":    `{"failed":{"number":1,"more":true},"superseded":{"number":0},"waiting":{"number":1}}`,
		"/callbacks?limit=1001":          "limit must be at most 1000",
		"/callbacks?limits=1":            `there is no key "limits"`,
		"/callbacks?state=gone":          "there is no state",
		"/callbacks/counts":              "at_most must be given once",
		"/callbacks/counts?at_most=0":    "at_most must be given once",
		"/callbacks/counts?at_most=1&x=": `there is no key "x"`,
	} {
		w := s.ask("GET", target)
		if bad := !strings.HasPrefix(want, "{"); !strings.Contains(w.Body.String(), want) || bad != (w.Code == 400) {
			t.Errorf("%s: %d %s, want %s", target, w.Code, w.Body, want)
		}
	}
}
