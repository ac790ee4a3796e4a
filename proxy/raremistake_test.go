package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// One wrong digit in 200 replies of the new backend holds back all four partners, though only one of them has met
// it. Without a mistake all can move.
func TestOneMistakeInManyRepliesHoldsBackEveryPartner(t *testing.T) {
	t.Parallel()
	another := func(digits []byte) []byte { // with another last digit
		last := len(digits) - 1
		return append(bytes.Clone(digits[:last]), '0'+(digits[last]-'0'+1)%10)
	}
	for name, mistake := range map[string]struct {
		field, find string
		put         func([]byte) []byte
	}{
		"none":           {},
		"an amount":      {"apprPrice", `"apprPrice":"\d+`, another},
		"a second later": {"apprDt", `"apprDt":\d+`, another},
		"no number":      {"apprNum", `"apprNum":"[^"]*",`, func([]byte) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var partners []sandbox.Partner
			for n := range 4 {
				partners = append(partners, sandbox.Partner{Key: fmt.Sprint("rare-key-", n), Name: fmt.Sprint("p", n)})
			}
			service := sandbox.New(sandbox.Options{Partners: partners, Transport: noCallbacks{}})
			t.Cleanup(func() { _ = service.Close() })
			var replies atomic.Int64
			fresh := newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := httptest.NewRecorder()
				service.ServeHTTP(answer, r)
				body := answer.Body.Bytes()
				if replies.Add(1) == 117 && mistake.field != "" {
					wrong := regexp.MustCompile(mistake.find).ReplaceAllFunc(body, mistake.put)
					if bytes.Equal(wrong, body) {
						t.Errorf("no mistake was made in %s", body)
					}
					body = wrong
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(answer.Code)
				_, _ = w.Write(body)
			}))
			p := newProcess(t, anyPort+fmt.Sprintf(`
upstreams: {old: {form: legacy, url: %q}, new: {form: v2, url: %q}}
route: {default: old}
rollout: {old: old, new: new, bills: shared, default: shadow, verdict: {comparisons: 40, bills: 5, paid: 5, mismatch: 0.1}, shadow: {ignore: [apprPayType, apprCashTrader]}}
store: {url: "sqlite:%s"}
`, newBackend(t, service).url, fresh.url, filepath.Join(t.TempDir(), "store.db")))
			reads := 0
			for n := range 50 {
				for _, partner := range partners {
					bill := fmt.Sprint("RARE", n%5)
					if n < 5 {
						p.expect(newCall("legacy", "create").with("apiKey", partner.Key).with("billId", bill), 200, "0000")
						if err := service.Pay(partner.Key, bill); err != nil {
							t.Fatal(err)
						}
					}
					p.expect(newCall("legacy", "read").with("apiKey", partner.Key).with("billId", bill), 200, "0000")
					reads++
					proxytest.Eventually(t, func() bool { return int(replies.Load()) == reads }, func() string { return "a read was not compared" })
				}
			}
			p.report(t, func(r operate.Report) bool {
				compared := 0
				for _, v := range r.Verdicts {
					if v.Compared != nil && v.Partner != "" {
						compared += v.Number
					}
				}
				return compared >= reads
			})
			for _, one := range partners {
				got := p.admin("POST", "/rollout/next?preview=true&by=anna&partner="+string(partner.Of(one.Key)))
				var preview struct {
					Reasons []struct{ Kind, Text string }
				}
				if err := json.Unmarshal([]byte(got.body), &preview); err != nil || got.status != 200 {
					t.Fatalf("%d %s %v", got.status, got.body, err)
				}
				held := ""
				for _, reason := range preview.Reasons {
					if reason.Kind == "verdict" || reason.Kind == "money_elsewhere" {
						held += reason.Text + "\n"
					}
				}
				if (held != "") != (mistake.field != "") || !strings.Contains(held, mistake.field) {
					t.Errorf("%s is held back by %q", one.Key, held)
				}
			}
		})
	}
}
