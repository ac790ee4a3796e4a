package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// Calls that hang, of a few partners or of any number of keys without a success, do not open the breaker while other
// partners get answers. If most partners get none, it opens.
func TestBreakerStaysClosedForPartnersWithAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		valid, hanging, others int // keys that succeed before they hang, keys whose calls hang, keys whose calls succeed
		open                   bool
	}{
		"two invented keys":                 {0, 2, 1, false},
		"forty invented keys":               {0, 40, 1, false},
		"two partners":                      {2, 2, 2, false},
		"a partner and many invented keys":  {1, 39, 2, false},
		"more partners than have an answer": {3, 3, 2, true},
		"all, and nobody has succeeded":     {0, 2, 0, true},
	} {
		parallel(t, name, func(t *testing.T) {
			release := make(chan struct{})
			back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "HANGS") {
					<-release
				}
				key := strings.Split(strings.SplitAfter(string(body), `"apiKey":"`)[1], `"`)[0]
				_, _ = fmt.Fprintf(w, `{"code":"0000","message":"ok","data":{"apiKey":%q,"billId":%q,"apprState":"W","apprPrice":"1"}}`, key, demoBill)
			})
			defer close(release)
			b := newGateway(t, strings.Replace(oneUpstream("v2", back.url), "30s", "3s", 1))
			read := func(key string) call { return v2("read").with("apiKey", key) }
			for n := range row.valid {
				b.expect(read(fmt.Sprintf("hanging-%d", n)), success)
			}
			answered := func() {
				for n := range row.others {
					b.expect(read(fmt.Sprintf("other-%d", n)), success)
				}
			}
			answered()
			for range 2 {
				before := back.count()
				var hanging []<-chan answer
				for n := range 40 {
					hanging = append(hanging, b.later(read(fmt.Sprintf("hanging-%d", n%row.hanging)).with("billId", "HANGS")))
				}
				proxytest.Eventually(t, func() bool { return back.count() == before+40 }, nil)
				answered() // before a call is over
				for _, one := range hanging {
					receive(t, one, "answer")
				}
				state := map[bool]string{true: "2", false: "0"}[row.open]
				if b.checkMetrics(`billbridge_upstream_breaker_state{upstream="up"} ` + state); row.open || t.Failed() {
					return
				}
			}
		})
	}
}
