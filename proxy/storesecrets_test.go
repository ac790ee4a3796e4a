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
	for _, store := range []string{"", sealed} {
		parallel(t, "key"+store, func(t *testing.T) {
			r := newCallbackParties(t)
			const name, phone, token = "김카나리아", "01098765432", "canary-0451-token"
			var down atomic.Bool
			r.partner = newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
				replyWith(map[bool]int{false: 200, true: 500}[down.Load()], `{"code":"0000"}`).ServeHTTP(w, r)
			})
			r.process = newProcess(t, r.config("v2", store)+callbacksOn)
			for i, id := range []string{"BILLTHATISNOTIFIED01", "BILLTHATISUNDERWAY01"} {
				down.Store(i == 1)
				play(r, "success v2 create billId="+id+" memberName="+name+" phone="+phone+" callbackUrl="+r.partner.url+"/paid?token="+token)
				must(t, r.service.Pay("", id))
				r.nthCallback(i + 1)
			}
			play(r, `post 200 /auth/mapping {"apiKey":"demo-partner-key","memberId":"NAME","merchantId":"north","businessNumber":"1234567890","callbackUrl":"URL/r?token=TOKEN","redirectUrl":"https://partner.example.com/back"}`,
				"NAME", name, "URL", r.partner.url, "TOKEN", token)
			var files []byte
			for _, suffix := range []string{"", "-wal", "-shm"} {
				files = append(files, proxytest.ReadFile(t, r.file+suffix)...)
			}
			quoted, err := json.Marshal(name)
			must(t, err)
			for _, secret := range []string{demoKey, phone, name, strings.Trim(string(quoted), `"`), token} {
				found := bytes.Contains(files, []byte(secret))
				if wanted := store == "" && (secret == demoKey || secret == token); found && store != "" || wanted && !found {
					t.Errorf("found %q: %v", secret, found)
				}
			}
		})
	}
}

// sealed is a key in the section of the store.
var sealed = ", key: " + strings.Repeat("5a", 32)
