package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
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
}
