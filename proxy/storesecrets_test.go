package proxy_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/proxy/proxytest"
)

// TestR35_StoreWithAKeyShowsNoSecret: after bills were made, paid and notified, or could not be notified, the files
// of the store have no key, phone, name or secret of an address; without store.key they have some, so that the
// search is known to find them.
func TestR35_StoreWithAKeyShowsNoSecret(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"without a key": "", "with a key": ", key: " + strings.Repeat("5a", 32)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCallbackParties(t)
			const name, phone, token = "김카나리아", "01098765432", "canary-0451-token"
			var down atomic.Bool
			r.partner = newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if down.Load() {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				_, _ = w.Write([]byte(`{"code":"0000"}`))
			}))
			r.process = newProcess(t, anyPort+oneUpstream("v2", r.back.url)+"store: {url: \"sqlite:"+r.file+"\""+store+"}\n"+callbacksOn)
			for i, id := range []string{"BILLTHATISNOTIFIED01", "BILLTHATISUNDERWAY01"} {
				down.Store(i == 1)
				r.send(newCall("v2", "create").with("billId", id).with("memberName", name).with("phone", phone).
					with("callbackUrl", r.partner.url+"/paid?token="+token)).check(t, "v2", 200, "0000")
				if err := r.service.Pay("", id); err != nil {
					t.Fatal(err)
				}
				r.nthCallback(i + 1)
			}
			if got, err := doRequest(r.client, http.MethodPost, r.url+"/auth/mapping", `{"apiKey":"`+demoKey+`","memberId":"`+name+
				`","merchantId":"north","businessNumber":"1234567890","callbackUrl":"`+r.partner.url+`/r?token=`+token+`","redirectUrl":"https://partner.example.com/back"}`); err != nil || got.status != 200 {
				t.Fatal(got, err)
			}
			var files []byte
			for _, suffix := range []string{"", "-wal", "-shm"} {
				data := proxytest.ReadFile(t, r.file+suffix)
				files = append(files, data...)
			}
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{demoKey, phone, name, strings.Trim(string(quoted), `"`), token} {
				found := bytes.Contains(files, []byte(secret))
				if wanted := store == "" && (secret == demoKey || secret == token); found && store != "" || wanted && !found {
					t.Errorf("found %q: %v", secret, found)
				}
			}
		})
	}
}
