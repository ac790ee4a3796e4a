package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/sandbox"
)

// Codes of a backend that clients of the other form do not know are counted, and named for the console. What the
// backend writes there cannot fill the metrics.
func TestCodesWithoutAPairAreCounted(t *testing.T) {
	t.Parallel()
	code := ""
	back := newBackendFunc(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, `{"code":%q,"msg":"no"}`, code) })
	b := newGatewayTo(t, "legacy", back, overlayFile(t, `codes: [{v2: BILL_001, legacy: "9800"}]`))
	read := v2("destroy")
	for _, code = range []string{"9980", "9980", "9800", "9999", "BILL_006", "0000", "010-0000-0000", "01000000000"} {
		b.send(read)
	}
	b.checkMetrics(`billbridge_unpaired_codes_total{code="9980",upstream="up"} 2`, `billbridge_unpaired_codes_total{code="other",upstream="up"} 2`)
	if got := b.Upstreams()[0].Unpaired; !slices.Equal(got, []string{"9980", "other"}) {
		t.Errorf("%v", got)
	}
	for n := range 100 {
		code = fmt.Sprint("E", n)
		b.send(read)
	}
	equal(t, len(b.Upstreams()[0].Unpaired), 32)
}

// A request that the upstream's form cannot carry is refused with the code of the table. An operator can choose a
// status by which clients turn to the other form. Nothing is sent.
func TestRequestThatCannotBeCarried(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{
		"": 400, "failures: {cannot_carry: refuse}": 400, "failures: {cannot_carry: not_found}": 404,
		"failures: {status: always-200}": 200, "failures: {status: always-200, cannot_carry: not_found}": 404,
	} {
		back := newBackend(t, replyWith(200, `{"code":"0000","msg":"ok"}`))
		b := newGatewayTo(t, "legacy", back, config)
		b.send(v2("create").with("sendType", "URL")).is(t, want, `"code":"BILL_010"`)
		mistake := b.send(v2("create").with("phone", []int{1}))
		equal(t, mistake.status == 404, false, config, mistake)
		back.expectCalls(t, 0)
	}
}

// Some v2 clients take a create without a link as failed. The operator learns of the first one, and of the number.
func TestBillsWithoutALinkAreCounted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		client, upstream string
		without          bool // a link
		counted          string
	}{
		{"v2", "legacy", true, "2"}, {"v2", "legacy", false, ""}, {"legacy", "legacy", true, ""},
	} {
		service := sandbox.New(sandbox.Options{
			NoLegacyShortURL: row.without, Clock: func() time.Time { return fixedTime }, Transport: noCallbacks{},
		})
		b := newGatewayTo(t, row.upstream, newBackend(t, service), "partners: {"+partner.Of(demoKey).Short()+": {name: Hana}}")
		for _, id := range []string{"A1", "A2"} {
			b.send(newCall(row.client, "create").with("billId", id)).check(t, row.client, success)
		}
		b.send(newCall(row.client, "create").with("billId", "A1")).check(t, row.client, idInUse)
		warned := strings.Count(b.logs.String(), "has no link")
		if want := min(len(row.counted), 1); warned != want || want == 1 && !strings.Contains(b.logs.String(), `"name":"Hana"`) {
			t.Errorf("%+v: %d warnings: %s", row, warned, b.logs)
		}
		metric := `billbridge_bills_without_link_total{upstream="up"} `
		if row.counted != "" {
			b.checkMetrics(metric + row.counted)
		} else if text := b.scrape(); strings.Contains(text, metric) {
			t.Errorf("%+v: %s", row, text)
		}
	}
}
