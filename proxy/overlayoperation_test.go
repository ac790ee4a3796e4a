package proxy_test

import (
	"path/filepath"
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
	file := filepath.Join(t.TempDir(), "mine.yaml")
	proxytest.WriteFile(t, file, overlay)
	asked := map[string]string{"v2": `{"apiKey":"k","member":"m","merchant":"s"}`, "legacy": `{"apikey":"k","member":"m","merchant":"s"}`}
	says200 := map[string]string{"v2": `{"code":"0000","message":"ok","data":{"remainCount":12}}`, "legacy": `{"code":"0000","msg":"ok","remain_count":"12"}`}
	paths := map[string]string{"v2": "/read/remain_count", "legacy": "/if/read/remain_count"}
	eachPair(t, func(t *testing.T, client, upstream string) {
		back := newBackend(t, replyWith(200, says200[upstream]))
		b := newGatewayTo(t, upstream, back, "table: {overlay: "+file+"}")
		if got := b.post(paths[client], asked[client]); got.status != 200 || got.body != says200[client] {
			t.Errorf("the partner got %d %s", got.status, got.body)
		}
		if got := back.received(); len(got) != 1 || got[0].target != paths[upstream] || got[0].body != asked[upstream] {
			t.Errorf("the backend got %+v", got)
		}
		b.checkMetrics(`billbridge_requests_total{client="` + client + `",code="0000",operation="points.left",status="200",upstream="up"} 1`)

		create := map[string]string{"v2": `{"apiKey":"k","bill":{"billId":"1","sendType":"TALK","memo":"3"}}`, "legacy": `{"apikey":"k","bill":{"bill_id":"1","memo":"3"}}`}
		b.post(inForm(client, "/bill", "/if/bill/send"), create[client])
		if got := back.received(); len(got) != 2 || got[1].body != create[upstream] {
			t.Errorf("the backend got %+v, want %s", got[1:], create[upstream])
		}
	})
}
