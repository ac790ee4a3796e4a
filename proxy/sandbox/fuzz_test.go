package sandbox_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Any body for a documented path is answered with HTTP 200 (413 if it is too large), the envelope of its form, and a code
// of the catalogue.
func FuzzBadInput(f *testing.F) {
	var paths []string
	for _, form := range forms {
		for _, op := range billOps {
			path, body := newCall(form, op).encode()
			f.Add(uint8(len(paths)), body)
			paths = append(paths, path)
		}
	}
	paths = append(paths, slices.Sorted(maps.Keys(subBusiness))...)
	f.Add(uint8(0), `{"apiKey":"demo-partner-key","member":"m","merchant":"m","bill":{"billId":"\ud800","price":1e999,"hash":[]}}`)
	f.Add(uint8(10), `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"m","callbackUrl":"u"}`)
	known := map[string]bool{}
	for _, code := range sandbox.Catalogue() {
		known[code] = true
	}
	f.Fuzz(func(t *testing.T, at uint8, body string) {
		s := sandbox.New(sandbox.Options{})
		path := paths[int(at)%len(paths)]
		form := "v2"
		if strings.HasPrefix(path, "/if/") {
			form = "legacy"
		}
		for range 2 { // the second time the bill exists
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if w.Code != http.StatusOK && w.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d", w.Code)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("not JSON: %s", w.Body)
			}
			if code := codeOf(t, form, w.Body.String()); !known[code] {
				t.Errorf("code %q", code)
			}
		}
	})
}
