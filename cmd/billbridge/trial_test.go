package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"

	"github.com/tidwall/gjson"
)

// A trial relays callbacks: a bill that a legacy client creates and that is paid on its page has a callback in the legacy
// form, although the sandbox is a v2 upstream.
func TestTrialDeliversCallbacks(t *testing.T) {
	t.Parallel()
	type notice struct{ id, path, body string }
	noticed := make(chan notice, 100) // more than the number of attempts
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		noticed <- notice{r.Header.Get("webhook-id"), r.URL.Path, string(body)}
		_, _ = io.WriteString(w, callbackAnswer(strings.TrimPrefix(r.URL.Path, "/paid/")))
	}))
	t.Cleanup(partner.Close)
	trial := launchInTempDir(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	at, err := trial.await("stdout", `^  partners +(?P<partners>http://\S+)$`)
	must(t, err)
	operator, err := trial.await("stdout", `^  metrics +(?P<at>http://\S+)/metrics$`)
	must(t, err)
	hash := func(bill string) string { return sandbox.Hash(bill, "", "20000") }
	for _, row := range []struct{ form, path, body, short, names string }{
		{
			"legacy", "/if/bill/send",
			`{"apikey":"demo-partner-key","member":"m","merchant":"s","bill":{"bill_id":"L1","price":"20000","hash":"` + hash("L1") + `","callbackURL":"` + partner.URL + `/paid/legacy"}}`,
			"shortURL", "apikey=demo-partner-key bill_id=L1 appr_state=F appr_price=20000 appr_pay_type=1",
		},
		{
			"v2", "/bill",
			`{"apiKey":"demo-partner-key","member":"m","merchant":"s","bill":{"billId":"V1","sendType":"URL","price":20000,"hash":"` + hash("V1") + `","callbackUrl":"` + partner.URL + `/paid/v2"}}`,
			"data.shortUrl", "apiKey=demo-partner-key billId=V1 apprState=F apprPrice=20000 apprPayType=1",
		},
	} {
		status, made := httpCall(t, http.MethodPost, at["partners"]+row.path, row.body)
		page := gjson.Get(made, row.short).String()
		if status != http.StatusOK || page == "" {
			t.Fatalf("making the %s bill: %d %s", row.form, status, made)
		}
		reply, err := http.PostForm(page, url.Values{"method": {"CARD_VAN"}, "months": {"0"}})
		must(t, err)
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Fatalf("paying the %s bill: %s", row.form, reply.Status)
		}
		select {
		case n := <-noticed:
			if n.path != "/paid/"+row.form || !strings.HasPrefix(n.id, "cb_") {
				t.Errorf("the %s bill has a callback at %s with the id %q", row.form, n.path, n.id)
			}
			for _, field := range strings.Fields(row.names) {
				name, value, _ := strings.Cut(field, "=")
				if got := gjson.Get(n.body, name).String(); got != value {
					t.Errorf("the notice of the %s bill has %q for %s, want %q: %s", row.form, got, name, value, n.body)
				}
			}
		case <-time.After(patience):
			t.Fatalf("the %s bill has no callback:\n%s", row.form, trial.all("stderr"))
		}
	}
	code, out, errs := runCommand(t, false, "callbacks", "list", "--state", "delivered", "--limit", "1", "--admin", operator["at"])
	if code != exitOK || errs != "" {
		t.Errorf("%d %s %s", code, out, errs)
	}
}
