package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"

	"github.com/tidwall/gjson"
)

// newCourier is a backend of the courier's table, in one of its forms.
func newCourier(t *testing.T, form string) *backend {
	var mu sync.Mutex
	states := map[string]string{} // by reference
	replies := map[string][3]string{
		"v1": {`{"result_cd":"00","result_msg":"ok","ref_no":%q,"label_no":"of v1","state":%q}`, `{"result_cd":%q,"result_msg":"no"}`, "E12 E13 10 90"},
		"v2": {`{"status":"SUCCESS","error":null,"result":{"reference":%q,"labelNumber":"of v2","state":%q}}`, `{"status":"ERROR","result":null,"error":{"code":%q,"message":"no"}}`, "DUPLICATE_REFERENCE NOT_FOUND CREATED CANCELLED"},
	}[form]
	words := strings.Fields(replies[2])
	return newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		ref := gjson.GetBytes(body, "ref_no").Str + gjson.GetBytes(body, "reference").Str + gjson.GetBytes(body, "shipment.reference").Str
		creates := strings.HasSuffix(r.URL.Path, "create") || strings.HasSuffix(r.URL.Path, "shipments")
		state, known := states[ref]
		switch {
		case creates && known:
			fmt.Fprintf(w, replies[1], words[0])
			return
		case creates:
			state = words[2]
		case !known:
			fmt.Fprintf(w, replies[1], words[1])
			return
		case strings.HasSuffix(r.URL.Path, "cancel"):
			state = words[3]
		}
		states[ref] = state
		fmt.Fprintf(w, replies[0], ref, state)
	})
}

// A shipper of a stranger's interface moves from the backend of one form to that of the other, in each stage, over sockets.
func TestRolloutOfACourier(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"v1", "v2"} {
		parallel(t, old, func(t *testing.T) {
			fresh := map[string]string{"v1": "v2", "v2": "v1"}[old]
			oldBackend, newBackend := newCourier(t, old), newCourier(t, fresh)
			file := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
			proxytest.BeginRollout(t, file, partner.Of("K1"))
			p := newProcess(t, anyPort+fmt.Sprintf("upstreams:\n  old: {form: %s, url: %q}\n  new: {form: %s, url: %q}\nroute: {default: old}\n"+
				"table: {file: ../translate/examples/courier.yaml}\nrollout: {old: old, new: new%s}\nstore: {url: %q}\n",
				old, oldBackend.url, fresh, newBackend.url, patient, file))
			call := func(name, ref string) string {
				t.Helper()
				more := map[string]string{"create": `,"cod_amt":"0"`, "cancel": `,"reason":"01"`}[name]
				got := p.post("/api/1/label_"+name, `{"cust_key":"K1","depot":"D1","ref_no":"`+ref+`"`+more+`}`)
				equal(t, got.status, 200, got.body)
				return gjson.Get(got.body, "result_cd").Str + " " + gjson.Get(got.body, "label_no").Str + " " + gjson.Get(got.body, "state").Str
			}
			move := func(stage string) { p.mustPost("/rollout/stage?by=anna&partner=default&stage=" + stage + "&" + forced) }
			atOld, atNew := "00 of "+old+" 10", "00 of "+fresh+" 10"
			move("old")
			equal(t, call("create", "R1")[:2], "00")
			equal(t, call("read", "R1"), atOld)
			equal(t, newBackend.count(), 0)
			equal(t, call("read", "R9"), "E13  ") // neither backend has it
			move("canary&percent=100")
			equal(t, call("create", "R2")[:2], "00")
			equal(t, call("read", "R2"), atNew)
			equal(t, call("read", "R1"), atOld)
			equal(t, call("create", "R1"), "E12  ")
			r := p.report(t, func(r operate.Report) bool {
				v := verdictOn(r, "label.create", evidence.ByReadBack)
				return v.Compared != nil && v.Number == 1
			})
			if v := verdictOn(r, "label.create", evidence.ByReadBack); v.Differed != 0 || v.NotThere != 0 {
				t.Errorf("%+v", v.Compared)
			}
			move("new")
			equal(t, call("create", "R3")[:2], "00")
			equal(t, call("cancel", "R1")[:2], "00")
			p.mustPost("/rollout/stage?by=anna&partner=default&stage=drained&force=settling,verdict,calls,unchecked") // no shipment is open at old
			calls := oldBackend.count()
			equal(t, call("read", "R3"), atNew)
			equal(t, call("read", "R9"), "E13  ")
			equal(t, call("create", "R4")[:2], "00")
			equal(t, oldBackend.count(), calls)
			equal(t, call("read", "R1"), "00 of "+old+" 90") // the ledger knows its owner
			// The other form gets the same.
			p.post("/v2/shipments/get", `{"apiKey":"K1","reference":"R4"}`).is(t, 200, `"status":"SUCCESS"`, `"state":"CREATED"`)
		})
	}
}
