package proxy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/sandbox"
)

// Codes of a backend that clients of the other form do not know are counted, and named for the console. What the
// backend writes there cannot fill the metrics.
func TestCodesWithoutAPairAreCounted(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "legacy", overlayFile(t, `codes: [{v2: BILL_001, legacy: "9800"}]`))
	destroy := func(codes ...string) {
		for _, code := range codes {
			b.service.Fault(sandbox.Fault{Body: fmt.Sprintf(`{"code":%q,"msg":"no"}`, code)})
			b.send(v2("destroy"))
		}
	}
	unpaired := func() []string { return b.Upstreams()[0].Unpaired }
	destroy("9980", "9980", "9800", "9999", "BILL_006", "0000", "010-0000-0000", "01000000000")
	b.checkMetrics(`billbridge_unpaired_codes_total{code="9980",upstream="up"} 2`, `billbridge_unpaired_codes_total{code="other",upstream="up"} 2`)
	equal(t, strings.Join(unpaired(), " "), "9980 other")
	for n := range 100 {
		destroy(fmt.Sprint("E", n))
	}
	equal(t, len(unpaired()), 32)
}

// A request that the upstream's form cannot carry is refused with the code of the table. Nothing is sent.
func TestRequestThatCannotBeCarried(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{
		"": 400, "failures: {status: always-200}": 200,
	} {
		back := newBackend(t, replyWith(200, `{"code":"0000","msg":"ok"}`))
		b := newGatewayTo(t, "legacy", back, config)
		b.send(v2("create").with("sendType", "URL")).is(t, want, `"code":"BILL_010"`)
		back.expectCalls(t, 0)
	}
}

// Some v2 clients take a create without a link as failed. The operator learns of the first one, and of the number.
func TestBillsWithoutALinkAreCounted(t *testing.T) {
	t.Parallel()
	// The forms of the caller and of the upstream, whether it leaves links out, and how many are counted.
	for _, row := range rows(`
v2 | legacy | true | 2
v2 | legacy | false |
legacy | legacy | true |
`) {
		service := newService(func(o *sandbox.Options) { o.NoLegacyShortURL = row[2] == "true" })
		b := newGatewayTo(t, row[1], newBackend(t, service), "partners: {"+partner.Of(demoKey).Short()+": {name: Hana}}")
		play(b, `
success FORM create billId=A1,A2
idInUse FORM create billId=A1`, "FORM", row[0])
		lines := regexp.MustCompile("(?m)^.*has no link.*$").FindAllString(b.logs.String(), -1)
		equal(t, len(lines), len(row[3]), row, b.logs)
		for _, line := range lines {
			checkText(t, line, `"name":"Hana"`)
		}
		const metric = `billbridge_bills_without_link_total{upstream="up"} `
		equal(t, strings.TrimSpace(b.scrape(metric)), strings.TrimSuffix(metric+row[3], metric), row)
	}
}
