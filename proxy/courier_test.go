package proxy_test

import (
	"fmt"
	"io"
	"net/http"
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
