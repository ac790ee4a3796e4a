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

// Whoever can write to the database, and does not have store.key, gets no callback of a partner: neither through an address nor through
// a callback that waits. The log and a metric show the attempt.
func TestPlainRowsOfAnEncryptedStoreAreNotUsed(t *testing.T) {
	t.Parallel()
	r := newCallbackParties(t)
	thief := newBackend(t, replyWith(200, `{"code":"0000"}`))
	var down atomic.Bool
	r.partner = newBackend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(`{"code":"0000"}`))
	}))
	r.process = newProcess(t, anyPort+oneUpstream("v2", r.back.url)+"store: {url: \"sqlite:"+r.file+"\", key: "+strings.Repeat("5a", 32)+"}\n"+
		strings.Replace(callbacksOn, "}", ", schedule: [0s, 2s, 2s, 2s, 2s, 2s, 2s, 2s, 2s, 2s, 2s]}", 1))
	bills := []string{"BILLWITHACALLBACK001", "BILLWITHANADDRESS001", "BILLTHATISLEFTALONE1"}
	for _, id := range bills {
		r.send(newCall("v2", "create").with("billId", id).with("callbackUrl", r.partner.url)).check(t, "v2", 200, "0000")
	}
	down.Store(true)
	if err := r.service.Pay("", bills[0]); err != nil {
		t.Fatal(err)
	}
	r.nthCallback(1)
	db, err := sql.Open("sqlite", "file:"+r.file+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"UPDATE billbridge_callbacks SET key_id = '', url = $1 WHERE bill = $2",
		"UPDATE billbridge_addresses SET key_id = '', url = $1 WHERE bill <> $2 AND bill <> 'BILLTHATISLEFTALONE1'",
	} {
		if changed, err := db.Exec(statement, thief.url, bills[0]); err != nil {
			t.Fatal(err)
		} else if n, _ := changed.RowsAffected(); n != 1 {
			t.Fatalf("%d rows", n)
		}
	}
	down.Store(false)
	for _, id := range bills[1:] {
		if err := r.service.Pay("", id); err != nil {
			t.Fatal(err)
		}
	}
	r.waitFor("both rows in the log", func() bool {
		got := r.logs.String()
		return strings.Contains(got, "the url of callback cb_") && strings.Contains(got, "the url of address ") && strings.Count(got, "is not encrypted, but the store is") > 1
	})
	r.waitFor("the callback of the other bill", func() bool { return strings.Contains(fmt.Sprint(r.partner.received()), bills[2]) })
	if address := r.addressAtUpstream(t, 2); strings.Contains(r.logs.String(), address[strings.LastIndex(address, "/")+1:]) {
		t.Error("the log has the whole callback address")
	}
	if stolen := thief.received(); len(stolen) > 0 {
		t.Errorf("stolen: %v", stolen)
	}
	if strings.Contains(r.admin("GET", "/metrics").body, "billbridge_store_changed_rows_total 0\n") {
		t.Error("nothing is counted")
	}
}
