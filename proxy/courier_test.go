package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

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
		_, _ = io.WriteString(w, reply)
	})
	toNew := newGateway(t, fmt.Sprintf("upstreams: {new: {form: v2, url: %q}}\n", back.url)+table)
	reply = `{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","labelUrl":"u","price":12.50,"parcels":[{"sequence":1,"trackingNumber":"T1"}]}}`
	toNew.post("/api/1/label_create", `{"cust_key":"K1","depot":"D1","ref_no":"R1","service":"2","cod_amt":"0","ship_date":"20261224","parcels":[{"seq":"1","weight_g":"2500","content":"books"}]}`).
		is(t, 200, `{"result_cd":"00","result_msg":"ok","ref_no":"R1","label_no":"L9","label_url":"u","price":"12.50","tracking":[{"seq":"1","track_no":"T1"}]}`)
	equal(t, asked, `/v2/shipments {"apiKey":"K1","depotId":"D1","shipment":{"reference":"R1","service":"EXPRESS","shipDate":"2026-12-24","parcels":[{"sequence":1,"weightKg":2.5,"content":"books"}]}}`)

	// What the gateway answers by itself is in the envelope, with the codes of the table.
	toNew.post("/v2/shipments/nowhere", `{}`).is(t, 404, `"status":"ERROR"`, `"code":"INTERNAL"`, `"result":null`)
	toNew.post("/api/1/nowhere", `{}`).is(t, 404, `"result_cd":"E99"`)
	toNew.post("/api/1/label_create", `{"cust_key":"K1","parcels":[{"weight_g":"x"}]}`).is(t, 400, `"result_cd":"E20"`, "parcels[0].weight_g")
	reply = `{"status":"ERROR","result":null,"error":{"code":"DUPLICATE_REFERENCE","message":"used"}}`
	toNew.post("/api/1/label_create", `{"cust_key":"K1","ref_no":"R1","cod_amt":"0"}`).is(t, 200, `{"result_cd":"E12","result_msg":"used"}`)
	reply = `<html>`
	toNew.post("/api/1/label_create", `{"cust_key":"K1","ref_no":"R1","cod_amt":"0"}`).is(t, 502, `"result_cd":null`)
	toNew.post("/v2/shipments", `{"apiKey":"K1"}`).is(t, 502, `"status":null`, `"code":null`)
	toNew.post("/api/1/label_read", `{"cust_key":"K1","ref_no":"R1"}`).is(t, 502, `"result_cd":"E99"`)

	// The state that a read shows after a cancel without a reply is in the words of the caller's form.
	reply = `{"status":"SUCCESS","error":null,"result":{"reference":"R1","state":"DELIVERED"}}`
	broken := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, reply)
	})
	newGateway(t, fmt.Sprintf("upstreams: {new: {form: v2, url: %q}}\nfailures: {language: en, explain: 3s}\n", broken.url)+table).
		post("/api/1/label_cancel", `{"cust_key":"K1","ref_no":"R1","reason":"01"}`).
		is(t, 502, `{"result_cd":null,"result_msg":"Shipment is in state 30. Outcome of this call unknown: read before sending again."}`)
	// A request without TLS gets an answer in both forms.
	equal(t, toNew.NeedsTLS(), `{"status":"ERROR","error":{"code":"INTERNAL","message":"This port needs https."},"result":null,"result_cd":"E99","result_msg":"This port needs https."}`)

	// The other direction.
	toOld := newGateway(t, fmt.Sprintf("upstreams: {old: {form: v1, url: %q}}\n", back.url)+table)
	reply = `{"result_cd":"00","result_msg":"ok","count":"1","labels":[{"ref_no":"R1","label_no":"L9","state":"30"}]}`
	toOld.post("/v2/shipments/list", `{"apiKey":"K1","depotId":"D1","from":"2026-12-01","to":"2026-12-31"}`).
		is(t, 200, `{"status":"SUCCESS","error":null,"result":{"count":1,"shipments":[{"reference":"R1","labelNumber":"L9","state":"DELIVERED"}]}}`)
	equal(t, asked, `/api/1/label_list {"cust_key":"K1","depot":"D1","from_date":"20261201","to_date":"20261231"}`)
	down := newGateway(t, "upstreams: {new: {form: v2, url: 'http://127.0.0.1:1'}}\n"+table)
	down.post("/api/1/label_cancel", `{"cust_key":"K1","ref_no":"R1","reason":"01"}`).is(t, 503, `"result_cd":"E99"`)
}

// A callback of the courier goes to the shipper in the shipper's form, and both acknowledge it as their documents say.
func TestCallbackOfACourier(t *testing.T) {
	t.Parallel()
	told := newBackend(t, replyWith(200, `{"result_cd":"00"}`)) // the shipper
	var address string
	back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		address = gjson.GetBytes(body, "shipment.webhookUrl").Str
		_, _ = io.WriteString(w, `{"status":"SUCCESS","error":null,"result":{"reference":"R1","labelNumber":"L9","labelUrl":"u","price":1,"parcels":[]}}`)
	})
	g := newProcess(t, anyPort+fmt.Sprintf("upstreams: {new: {form: v2, url: %q}}\n", back.url)+
		"table: {file: ../translate/examples/courier.yaml}\nstore: {url: \"sqlite:"+filepath.Join(t.TempDir(), "store.db")+"\"}\n"+callbacksOn)
	g.post("/api/1/label_create", `{"cust_key":"K1","depot":"D1","ref_no":"R1","cod_amt":"0","notify_url":"`+told.url+`/n","parcels":[]}`).is(t, 200, `"result_cd":"00"`)
	path, ours := strings.CutPrefix(address, "https://bridge.example.com")
	if !ours {
		t.Fatalf("the courier got the address %q", address)
	}
	g.post(path, `{"event":"shipment.state","apiKey":"K1","data":{"reference":"R1","labelNumber":"L9","state":"DELIVERED","stateTime":"2026-12-24T15:30:00+09:00"}}`).is(t, 200, `{"status":"SUCCESS"}`)
	proxytest.Eventually(t, func() bool { return told.count() > 0 }, func() string { return "no callback" })
	equal(t, string(told.received()[0].body), `{"cust_key":"K1","ref_no":"R1","label_no":"L9","state":"30","state_time":"20261224153000"}`)
	g.post(path, `{"event":"shipment.state","apiKey":"K2","data":{"reference":"R1"}}`).is(t, 404, `"status":"ERROR"`)
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
