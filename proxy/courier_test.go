package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"

	"github.com/tidwall/gjson"
)

// A table of another interface runs through the gateway: calls in both directions, and what the gateway answers by itself.
func TestTableOfACourier(t *testing.T) {
	t.Parallel()
	const table = "table: {file: ../translate/examples/courier.yaml}\n"
	var asked, reply string
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.URL.Path + " " + string(body)
		if reply == "" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, reply)
	})
	to := func(name, form, url string) *gateway {
		return newGateway(t, fmt.Sprintf("upstreams: {%s: {form: %s, url: %q}}\n", name, form, url)+table)
	}
	toNew := to("new", "v2", back.url)
	// The reply of the courier, the call, and the answer.
	check := func(g *gateway, list string) {
		t.Helper()
		for _, row := range rows(list) {
			reply = row[0]
			play(g, "post "+strings.Join(row[1:], " | "))
		}
	}
	check(toNew, `
{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","labelUrl":"u","price":12.50,"parcels":[{"sequence":1,"trackingNumber":"T1"}]}} | 200 /api/1/label_create {"cust_key":"K1","depot":"D1","ref_no":"R1","service":"2","cod_amt":"0","ship_date":"20261224","parcels":[{"seq":"1","weight_g":"2500","content":"books"}]} | {"result_cd":"00","result_msg":"ok","ref_no":"R1","label_no":"L9","label_url":"u","price":"12.50","tracking":[{"seq":"1","track_no":"T1"}]}
`)
	equal(t, asked, `/v2/shipments {"apiKey":"K1","depotId":"D1","shipment":{"reference":"R1","service":"EXPRESS","shipDate":"2026-12-24","parcels":[{"sequence":1,"weightKg":2.5,"content":"books"}]}}`)
	// What the gateway answers by itself is in the envelope, with the codes of the table.
	check(toNew, `
none | 404 /v2/shipments/nowhere {} | "status":"ERROR" | "code":"INTERNAL" | "result":null
none | 404 /api/1/nowhere {} | "result_cd":"E99"
none | 400 /api/1/label_create {"cust_key":"K1","parcels":[{"weight_g":"x"}]} | "result_cd":"E20" | parcels[0].weight_g
{"status":"ERROR","result":null,"error":{"code":"DUPLICATE_REFERENCE","message":"used"}} | 200 /api/1/label_create {"cust_key":"K1","ref_no":"R1","cod_amt":"0"} | {"result_cd":"E12","result_msg":"used"}
<html> | 502 /api/1/label_create {"cust_key":"K1","ref_no":"R1","cod_amt":"0"} | Outcome unknown
<html> | 502 /v2/shipments {"apiKey":"K1"} | Outcome unknown
<html> | 502 /api/1/label_read {"cust_key":"K1","ref_no":"R1"} | "result_cd":"E99"
`)

	// A request without TLS gets an answer in both forms.
	equal(t, toNew.NeedsTLS(), `{"error":{"code":"INTERNAL","message":"This port needs https."},"result":null,"result_cd":"E99","result_msg":"This port needs https.","status":"ERROR"}`)

	// The other direction.
	check(to("old", "v1", back.url), `
{"result_cd":"00","result_msg":"ok","count":"1","labels":[{"ref_no":"R1","label_no":"L9","state":"30"}]} | 200 /v2/shipments/list {"apiKey":"K1","depotId":"D1","from":"2026-12-01","to":"2026-12-31"} | {"status":"SUCCESS","error":null,"result":{"count":1,"shipments":[{"reference":"R1","labelNumber":"L9","state":"DELIVERED"}]}}
`)
	equal(t, asked, `/api/1/label_list {"cust_key":"K1","depot":"D1","from_date":"20261201","to_date":"20261231"}`)
	check(to("new", "v2", refusedURL), `none | 503 /api/1/label_cancel {"cust_key":"K1","ref_no":"R1","reason":"01"} | "result_cd":"E99"`)
}

// A callback of the courier goes to the shipper in the shipper's form, and both acknowledge it as their documents say.
func TestCallbackOfACourier(t *testing.T) {
	t.Parallel()
	told := newBackend(t, replyWith(200, `{"result_cd":"00"}`)) // the shipper
	back := newBackend(t, replyWith(200, `{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","labelUrl":"u","price":1,"parcels":[]}}`))
	g := newProcess(t, anyPort+fmt.Sprintf("upstreams: {new: {form: v2, url: %q}}\n", back.url)+
		"table: {file: ../translate/examples/courier.yaml}\nstore: {url: "+proxytest.SQLite(t)+"}\n"+callbacksOn)
	play(g, `post 200 /api/1/label_create {"cust_key":"K1","depot":"D1","ref_no":"R1","cod_amt":"0","notify_url":"URL/n","parcels":[]} | "result_cd":"00"`, "URL", told.url)
	address := gjson.Get(back.first(t).body, "shipment.webhookUrl").Str
	path, ours := strings.CutPrefix(address, "https://bridge.example.com")
	equal(t, ours, true, "the courier got the address", address)
	play(g, `post 200 PATH {"event":"shipment.state","apiKey":"K1","data":{"reference":"R1","labelNumber":"L9","state":"DELIVERED","stateTime":"2026-12-24T15:30:00+09:00"}} | {"status":"SUCCESS"}`, "PATH", path)
	eventually(t, "no callback", func() bool { return told.count() > 0 })
	equal(t, told.first(t).body, `{"cust_key":"K1","ref_no":"R1","label_no":"L9","state":"30","state_time":"20261224153000"}`)
	play(g, `post 404 PATH {"event":"shipment.state","apiKey":"K2","data":{"reference":"R1"}} | "status":"ERROR"`, "PATH", path)
}

// The items of lists count in the budget of memory: they take much more than their bytes in the body.
func TestItemsOfListsCountInTheBudget(t *testing.T) {
	t.Parallel()
	back := newBackend(t, replyWith(200, `{"status":"SUCCESS","error":null,"result":{"reference":"R1"}}`))
	g := newGateway(t, fmt.Sprintf("upstreams: {new: {form: v2, url: %q}}\ntable: {file: ../translate/examples/courier.yaml}\nlimits: {memory: 1MiB, body: 64KiB, reply: 64KiB}\n", back.url))
	create := func(items int) answer {
		parcels := strings.TrimSuffix(strings.Repeat("{},", items), ",")
		return g.post("/api/1/label_create", `{"cust_key":"K1","ref_no":"R1","cod_amt":"0","parcels":[`+parcels+`]}`)
	}
	create(7000).is(t, 503, `"result_cd":"E99"`)
	equal(t, back.count(), 0)
	create(100).is(t, 200, `"result_cd":"00"`)
	g.checkMetrics("billbridge_body_bytes 0") // all of it is given back
}

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
	oldBackend, newBackend := newCourier(t, "v1"), newCourier(t, "v2")
	file := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	proxytest.BeginRollout(t, file, partner.Of("K1"))
	p := newProcess(t, anyPort+fmt.Sprintf("upstreams:\n  old: {form: v1, url: %q}\n  new: {form: v2, url: %q}\nroute: {default: old}\n"+
		"table: {file: ../translate/examples/courier.yaml}\nrollout: {old: old, new: new%s}\nstore: {url: %q}\n",
		oldBackend.url, newBackend.url, patient, file))
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
			equal(t, says, row[1], row)
		}
	}
	move := func(stage, force string) {
		p.mustPost("/rollout/stage?by=anna&partner=default&stage=" + stage + "&" + force)
	}
	move("old", forced)
	calls(`
create R1 | 00
read R1 | 00 of v1 10`)
	equal(t, newBackend.count(), 0)
	calls("read R9 | E13") // neither backend has it
	move("canary&percent=100", forced)
	calls(`
create R2 | 00
read R2 | 00 of v2 10
read R1 | 00 of v1 10
create R1 | E12`)
	v := p.verdict("label.create", evidence.ByReadBack, compared(1))
	equal(t, v.Differed+v.NotThere, 0, v.Compared)
	move("new", forced)
	calls(`
create R3 | 00
cancel R1 | 00`)
	eventually(t, "a shipment is open at old", func() bool { // the ledger records a cancel after its answer
		return p.admin("POST", "/rollout/stage?by=anna&partner=default&stage=drained&force=settling,verdict,calls,unchecked").status == 200
	})
	before := oldBackend.count()
	calls(`
read R3 | 00 of v2 10
read R9 | E13
create R4 | 00`)
	equal(t, oldBackend.count(), before)
	calls("read R1 | 00 of v1 90") // the ledger knows its owner
	// The other form gets the same.
	p.post("/v2/shipments/get", `{"apiKey":"K1","reference":"R4"}`).is(t, 200, `"status":"SUCCESS"`, `"state":"CREATED"`)
}
