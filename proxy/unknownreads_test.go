package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Of 48 creates that time out, a third took effect, a third did not, and the backend gives no clear answer about the
// others. The gateway reads each bill once when the reads are due, from the first success of the partner on, with the
// merchant of the create. It sends nothing but reads. Only the last third is left to an operator.
func TestGatewayReadsUnknownOutcomesByItself(t *testing.T) {
	t.Parallel()
	const writes = 48
	bill := func(i int) string { return fmt.Sprintf("TIMEDOUT%c%010d", "YNX"[i%3], i) }
	m := newRolloutWith(t, "old", func(_ string, service http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			of := func(group string) bool { return strings.Contains(string(body), "TIMEDOUT"+group) }
			switch create := strings.HasSuffix(r.URL.Path, "/send"); {
			case create && of("Y"):
				service.ServeHTTP(discardWriter{}, r)
				panic(http.ErrAbortHandler)
			case create && of(""), of("X"):
				panic(http.ErrAbortHandler)
			}
			service.ServeHTTP(w, r)
		})
	}, patient+", unknown: {rate: 100}}\nfailures: {explain: 0s")
	for i := range writes {
		m.expect(v2("create").with("billId", bill(i)), unknown)
	}
	m.checkListed("outcome=unknown", writes)
	m.checkListed("outcome=unclear", 0)
	m.exec("UPDATE billbridge_unknown SET next_read = 0, at = at - 120000") // the writes cannot take effect any more
	before := m.oldCalls.count()
	equal(t, before, writes, "calls before the first success of the partner")

	m.expect(v2("create"), success)
	for _, b := range m.checkListed("outcome=resolved", writes/3*2).Bills {
		want := map[byte]string{'Y': "has it", 'N': "no such bill"}[b.Bill[len("TIMEDOUT")]]
		if w := b.Write; w.Result != want || w.ReadBy != "gateway" || w.Reads != 1 || w.Resolved == nil {
			t.Errorf("%s: %+v", b.Bill, w)
		}
	}
	eventually(t, "not each read has ended", func() bool {
		return !strings.Contains(m.admin("GET", "/rollout/bills?outcome=unknown").body, "not asked")
	})
	for _, b := range m.checkListed("outcome=unknown", writes/3).Bills {
		if w := b.Write; b.Bill[len("TIMEDOUT")] != 'X' || w.Result != "no clear answer" || w.Reads != 1 || w.NextRead == nil {
			t.Errorf("%s: %+v", b.Bill, w)
		}
	}
	m.exec("UPDATE billbridge_unknown SET at = at - 4000000")
	m.checkListed("outcome=unclear", writes/3)
	m.ask(200, "GET /metrics", `billbridge_rollout_unknown_reads_total{shown="has it"} 16`,
		`{shown="no such bill"} 16`, `{shown="no clear answer"} 16`)

	// An operator has them read at once.
	m.mustPost("/rollout/read-all", `{"unknown":16,"due":16}`)
	eventually(t, "not each bill was read again", func() bool { return m.oldCalls.count() >= before+1+writes+writes/3 })
	sent := map[string]int{}
	for _, got := range m.oldCalls.received() {
		sent[got.target[strings.LastIndex(got.target, "/"):]]++
	}
	if sent["/send"] != writes+1 || sent["/read"] != writes+writes/3 || len(sent) != 2 {
		t.Errorf("calls at the backend: %v", sent)
	}
}
