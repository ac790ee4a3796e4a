package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The overlay in translate/README.md adds an operation and a field. A gateway with this overlay translates both
// between all forms.
func TestOperationOfAnOverlayIsTranslated(t *testing.T) {
	t.Parallel()
	readme := proxytest.ReadFile(t, "../translate/README.md")
	_, overlay, _ := strings.Cut(string(readme), "```yaml\n")
	overlay, _, _ = strings.Cut(overlay, "```")
	table := overlayFile(t, overlay)
	eachPair(t, func(t *testing.T, client, upstream string) {
		points := func(form string) string { return inForm(form, "/read/remain_count", "/if/read/remain_count") }
		asked := func(form string) string {
			return `{"` + inForm(form, "apiKey", "apikey") + `":"k","member":"m","merchant":"s"}`
		}
		says := func(form string) string {
			return inForm(form, `{"code":"0000","message":"ok","data":{"remainCount":12}}`, `{"code":"0000","msg":"ok","remain_count":"12"}`)
		}
		create := func(form string) string {
			return inForm(form, `{"apiKey":"k","bill":{"billId":"1","sendType":"TALK","memo":"3"}}`, `{"apikey":"k","bill":{"bill_id":"1","memo":"3"}}`)
		}
		back := newBackend(t, replyWith(200, says(upstream)))
		b := newGatewayTo(t, upstream, back, table)
		got := b.post(points(client), asked(client))
		equal(t, fmt.Sprint(got.status, got.body), "200"+says(client))
		equal(t, back.first(t).target+back.first(t).body, points(upstream)+asked(upstream))
		b.checkMetrics(`billbridge_requests_total{client="` + client + `",code="0000",operation="points.left",status="200",upstream="up"} 1`)

		b.post(newCall(client, "create").path(), create(client))
		back.expectCalls(t, 2)
		equal(t, back.last(t).body, create(upstream))
	})
}
