package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
			// calls makes calls, each with its reference and the code, the label and the state of its answer.
			calls := func(list string) {
				t.Helper()
				for _, row := range rows(list) {
					name, ref, _ := strings.Cut(row[0], " ")
					more := map[string]string{"create": `,"cod_amt":"0"`, "cancel": `,"reason":"01"`}[name]
					got := p.post("/api/1/label_"+name, `{"cust_key":"K1","depot":"D1","ref_no":"`+ref+`"`+more+`}`)
					equal(t, got.status, 200, got.body)
					says := strings.TrimSpace(gjson.Get(got.body, "result_cd").Str + " " + gjson.Get(got.body, "label_no").Str + " " + gjson.Get(got.body, "state").Str)
					if name != "read" && says[:2] == "00" {
						says = "00"
					}
					equal(t, says, strings.NewReplacer("OLD", old, "NEW", fresh).Replace(row[1]), row)
				}
			}
			move := func(stage, force string) {
				p.mustPost("/rollout/stage?by=anna&partner=default&stage=" + stage + "&" + force)
			}
			move("old", forced)
			calls(`
create R1 | 00
read R1 | 00 of OLD 10`)
			equal(t, newBackend.count(), 0)
			calls("read R9 | E13") // neither backend has it
			move("canary&percent=100", forced)
			calls(`
create R2 | 00
read R2 | 00 of NEW 10
read R1 | 00 of OLD 10
create R1 | E12`)
			v := p.verdict("label.create", evidence.ByReadBack, compared(1))
			equal(t, v.Differed+v.NotThere, 0, v.Compared)
			move("new", forced)
			calls(`
create R3 | 00
cancel R1 | 00`)
			move("drained", "force=settling,verdict,calls,unchecked") // no shipment is open at old
			before := oldBackend.count()
			calls(`
read R3 | 00 of NEW 10
read R9 | E13
create R4 | 00`)
			equal(t, oldBackend.count(), before)
			calls("read R1 | 00 of OLD 90") // the ledger knows its owner
			// The other form gets the same.
			p.post("/v2/shipments/get", `{"apiKey":"K1","reference":"R4"}`).is(t, 200, `"status":"SUCCESS"`, `"state":"CREATED"`)
		})
	}
}
