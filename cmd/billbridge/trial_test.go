package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"billbridge/proxy/sandbox"

	"github.com/tidwall/gjson"
)

// A trial relays callbacks: a bill that a legacy client creates and that is paid on its page has a callback in the legacy
// form, although the sandbox is a v2 upstream.
func TestTrialDeliversCallbacks(t *testing.T) {
	t.Parallel()
	noticed := make(chan string, 100) // more than the number of attempts
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		noticed <- string(body)
		_, _ = io.WriteString(w, callbackAnswer("legacy"))
	}))
	t.Cleanup(partner.Close)
	trial := launchInTempDir(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	at, err := trial.await("stdout", `^  partners +(?P<partners>http://\S+)$`)
	must(t, err)
	bill := `{"apikey":"demo-partner-key","member":"m","merchant":"s","bill":{"bill_id":"L1","price":"20000","hash":"` +
		sandbox.Hash("L1", "", "20000") + `","callbackURL":"` + partner.URL + `/paid"}}`
	status, made := httpCall(t, http.MethodPost, at["partners"]+"/if/bill/send", bill)
	page := gjson.Get(made, "shortURL").String()
	if status != http.StatusOK || page == "" {
		t.Fatalf("making the bill: %d %s", status, made)
	}
	reply, err := http.PostForm(page, url.Values{"method": {"CARD_VAN"}, "months": {"0"}})
	must(t, err)
	_ = reply.Body.Close()
	select {
	case body := <-noticed:
		if gjson.Get(body, "bill_id").String() != "L1" || gjson.Get(body, "appr_price").String() != "20000" {
			t.Errorf("the callback is %s", body)
		}
	case <-time.After(patience):
		t.Fatalf("paying was answered with %s, and there is no callback:\n%s", reply.Status, trial.all("stderr"))
	}
}
