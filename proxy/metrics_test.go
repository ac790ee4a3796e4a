package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"

	"github.com/google/go-cmp/cmp"
)

// The scraped text after a few calls, except the durations.
func TestMetricsOfCalls(t *testing.T) {
	t.Parallel()
	service := newService()
	back := newBackend(t, service)
	b := newGatewayTo(t, "v2", back, "limits: {reply: 4KiB, body: 64KiB}")
	create := legacy("create")
	b.send(create)
	b.post(create.path(), strings.Replace(create.body(), "{", `{"a":1,"b":{"c":2},`, 1)) // BILL_001, with two unknown fields
	b.send(legacy("read"))                                                               // the fields that only v2 has are dropped
	b.send(v2("read"))                                                                   // same form: nothing is dropped
	b.send(legacy("create").with("price", "1.5"))                                        // refused by the gateway
	b.post("/nothing", "")
	b.do(http.MethodGet, "/if/bill/read", "")
	b.post("/if/bill/read", strings.Repeat(" ", 70<<10))
	for _, f := range []sandbox.Fault{
		{Drop: true},
		{Body: "no"},
		{Status: 502, Body: "no"},
		{Status: 302},
		{Body: longReply},
		{Code: "SOMETHING_NEW"},
		{Body: `{"code":"0000","message":"x","data":{"billId":"` + demoBill + `"}}`},
	} {
		service.Fault(f)
		b.send(legacy("destroy"))
	}
	want := `billbridge_fields_dropped_total{client="legacy",field="apprCardMerchantNum",message="reply",operation="bill.read"} 1
billbridge_fields_dropped_total{client="legacy",field="apprSign",message="reply",operation="bill.read"} 1
billbridge_fields_dropped_total{client="legacy",field="cardType",message="reply",operation="bill.read"} 1
billbridge_fields_dropped_total{client="legacy",field="dscTxNum",message="reply",operation="bill.read"} 1
billbridge_fields_dropped_total{client="legacy",field="udItem",message="reply",operation="bill.read"} 1
billbridge_fields_dropped_total{client="legacy",field="unknown",message="request",operation="bill.create"} 2
billbridge_reply_mismatches_total{field="apiKey",operation="bill.destroy",upstream="up"} 1
billbridge_requests_in_flight{upstream="up"} 0
billbridge_requests_total{client="legacy",code="0000",operation="bill.create",status="200",upstream="up"} 1
billbridge_requests_total{client="legacy",code="0000",operation="bill.destroy",status="200",upstream="up"} 1
billbridge_requests_total{client="legacy",code="0000",operation="bill.read",status="200",upstream="up"} 1
billbridge_requests_total{client="legacy",code="BILL_001",operation="bill.create",status="200",upstream="up"} 1
billbridge_requests_total{client="legacy",code="ERROR",operation="bill.read",status="405",upstream="up"} 1
billbridge_requests_total{client="legacy",code="VALIDATION_001",operation="bill.create",status="400",upstream="up"} 1
billbridge_requests_total{client="legacy",code="VALIDATION_001",operation="bill.read",status="413",upstream="up"} 1
billbridge_requests_total{client="legacy",code="none",operation="bill.destroy",status="502",upstream="up"} 5
billbridge_requests_total{client="legacy",code="other",operation="bill.destroy",status="200",upstream="up"} 1
billbridge_requests_total{client="v2",code="0000",operation="bill.read",status="200",upstream="up"} 1
billbridge_requests_total{client="v2",code="ERROR",operation="none",status="404",upstream="none"} 1
billbridge_upstream_errors_total{reason="not_json",upstream="up"} 1
billbridge_upstream_errors_total{reason="reset",upstream="up"} 1
billbridge_upstream_errors_total{reason="status",upstream="up"} 2
billbridge_upstream_errors_total{reason="too_large",upstream="up"} 1
`
	names := []string{"billbridge_fields_dropped_total", "billbridge_reply_mismatches_total", "billbridge_requests_in_flight", "billbridge_requests_total", "billbridge_upstream_errors_total"}
	var counted strings.Builder // without the series that are 0
	for line := range strings.Lines(b.scrape(names...)) {
		if !strings.HasSuffix(line, " 0\n") || strings.HasPrefix(line, "billbridge_requests_in_flight") {
			counted.WriteString(line)
		}
	}
	equal(t, cmp.Diff(want, counted.String()), "")
	b.checkMetrics(
		`billbridge_request_duration_seconds_count{client="legacy",operation="bill.destroy",upstream="up"} 7`,
		`billbridge_upstream_duration_seconds_count{operation="bill.destroy",upstream="up"} 7`,
		`billbridge_upstream_duration_seconds_count{operation="bill.create",upstream="up"} 2`,
		`billbridge_request_duration_seconds_count{client="v2",operation="none",upstream="none"} 1`,
	)
}

// After each kind of outcome has occurred, random paths, methods, codes, fields, ids and partners add no series.
func TestR37_SeriesAreBounded(t *testing.T) {
	t.Parallel()
	service := newService()
	b := newGatewayTo(t, "v2", newBackend(t, service))
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("w%x", random.Uint64()) }
	methods := []string{"GET", "PUT", "DELETE", "PATCH"}
	round := func() {
		for _, prefix := range []string{"/", "/if/", "/bill/", "/if/bill/"} {
			b.post(prefix+word(), word())
			b.do(strings.ToUpper(word()), prefix+word(), word())
		}
		for _, form := range forms {
			for _, op := range operations {
				q := newCall(form, op)
				b.do(methods[random.IntN(4)], q.path(), "")
				b.do(strings.ToUpper(word()), q.path(), "")
				b.send(q, "Content-Type", "text/"+word())
				b.post(q.path(), strings.Replace(q.body(), "{", `{"`+word()+`":1,"bill":{"`+word()+`":2},`, 1))
				b.post(q.path(), strings.Replace(q.body(), "{", `{"`+word()+`":{"`+word()+`":1},`, 1), "X-Request-Id", word())
				b.send(q.with("apiKey", word()).with("member", word()).with("billId", "b"))
				service.Fault(sandbox.Fault{Code: word()})
				b.send(q)
				service.Fault(sandbox.Fault{Code: strings.ToUpper(word()), Status: 600 + random.IntN(300)})
				b.send(q)
				service.Fault(sandbox.Fault{Body: `{"code":"0000","message":"x","` + word() + `":1,"data":{"` + word() + `":1,"billId":{"` + word() + `":1}}}`})
				b.send(q)
				service.Fault(sandbox.Fault{Body: `{"code":"0000","message":{"` + word() + `":1},"data":"` + word() + `"}`})
				b.send(q)
			}
		}
	}
	fields := func() string { return b.scrape("billbridge_fields", "billbridge_reply") }
	atStart := strings.Count(fields(), "\n")
	round()
	round() // the bills exist now
	equal(t, strings.Count(fields(), "\n"), atStart, fields())
	for range 3 { // until the codes of the upstream have no series of their own any more
		round()
	}
	first := strings.Count(b.scrape("billbridge_"), "\n")
	for range 2 {
		round()
	}
	c := parse(t, oneUpstream("v2", "http://127.0.0.1:1"))
	if atStart, maximum, err := server.Series(t.Context(), c, server.Build{}); atStart > first || first > maximum || err != nil {
		t.Errorf("%d series, want %d to %d, %v", first, atStart, maximum, err)
	}
	equal(t, strings.Count(b.scrape("billbridge_"), "\n"), first, b.scrape("billbridge_requests_total", "billbridge_fields", "billbridge_reply"))
}

// A label value must not point into the buffer of a reply, which other replies reuse.
func TestCodeLabelsDoNotChangeWithReusedBuffers(t *testing.T) {
	t.Parallel()
	service := newService()
	b := newGatewayTo(t, "v2", newBackend(t, service))
	for _, form := range forms {
		for _, code := range sandbox.Catalogue()[1:] {
			service.Fault(sandbox.Fault{Body: `{"code":"` + code + `","message":"x","data":null}`})
			b.send(newCall(form, "read"))
		}
		for range 20 {
			service.Fault(sandbox.Fault{Body: `{"message":"` + strings.Repeat("#", 500) + `","code":"ERROR","data":null}`})
			b.send(newCall(form, "resend"))
		}
	}
	for _, form := range forms {
		for _, code := range sandbox.Catalogue()[1:] {
			b.checkMetrics(fmt.Sprintf(`billbridge_requests_total{client=%q,code=%q,operation="bill.read",status="200",upstream="up"} 1`, form, code))
		}
	}
}
