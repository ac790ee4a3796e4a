package proxy_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
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
		parallel(t, name, func(t *testing.T) {
			r := newCallbackParties(t)
			const name, phone, token = "김카나리아", "01098765432", "canary-0451-token"
			var down atomic.Bool
			r.partner = newBackendFunc(t, func(w http.ResponseWriter, _ *http.Request) {
				if down.Load() {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				_, _ = w.Write([]byte(`{"code":"0000"}`))
			})
			r.process = newProcess(t, anyPort+oneUpstream("v2", r.back.url)+"store: {url: \"sqlite:"+r.file+"\""+store+"}\n"+callbacksOn)
			for i, id := range []string{"BILLTHATISNOTIFIED01", "BILLTHATISUNDERWAY01"} {
				down.Store(i == 1)
				r.send(v2("create").with("billId", id).with("memberName", name).with("phone", phone).
					with("callbackUrl", r.partner.url+"/paid?token="+token)).check(
					t, "v2", success)

				must(t, r.service.Pay("", id))
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

// Whoever can write to the database, and does not have store.key, gets no callback of a partner. The log and a metric
// show the attempt. Package store has the other rows.
func TestPlainRowsOfAnEncryptedStoreAreNotUsed(t *testing.T) {
	t.Parallel()
	r := newCallbackParties(t)
	thief := newBackend(t, replyWith(200, `{"code":"0000"}`))
	store := fmt.Sprintf("store: {url: %q, key: %s}\n", "sqlite:"+r.file, strings.Repeat("5a", 32))
	r.process = newProcess(t, anyPort+oneUpstream("v2", r.back.url)+store+callbacksOn)
	r.expect(v2("create").with("callbackUrl", r.partner.url), success)
	db, err := sql.Open("sqlite", "file:"+r.file+"?_pragma=busy_timeout(20000)")
	must(t, err)
	defer db.Close()
	if _, err := db.Exec("UPDATE billbridge_addresses SET key_id = '', url = $1", thief.url); err != nil {
		t.Fatal(err)
	}
	must(t, r.service.Pay("", demoBill))
	r.waitFor("row in the log", func() bool {
		_, row, found := strings.Cut(r.logs.String(), "the url of address ")
		return found && strings.Contains(row, "is not encrypted, but the store is")
	})
	address := r.addressAtUpstream(t, 1)
	checkText(t, r.logs.String(), "!"+address[strings.LastIndex(address, "/")+1:])
	if stolen := thief.received(); len(stolen) > 0 {
		t.Errorf("stolen: %v", stolen)
	}
	// The row is counted each time that it is read, and the sender may have read it again by now.
	checkText(t, r.metrics(), "\nbillbridge_store_changed_rows_total ", "!\nbillbridge_store_changed_rows_total 0\n")
}
