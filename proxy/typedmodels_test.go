package proxy_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A word for which null was written is counted, and stays in the log.
func TestWordsOfRepliesAreLogged(t *testing.T) {
	t.Parallel()
	service := newService()
	prepareBill(t, service, "F", demoBill)
	logs, registry := &proxytest.Log{}, prometheus.NewRegistry()
	g, err := proxy.New(parse(t, oneUpstream("legacy", newBackend(t, service).url, overlayFile(t, "operations: {bill.read: {reply: [{v2: apprPayType, legacy: appr_pay_type, otherwise: null}]}}"))), proxy.Options{
		Registerer: registry, Logger: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	must(t, err)
	defer g.Close()
	w, q := httptest.NewRecorder(), v2("read")
	g.ServeHTTP(w, q.request())
	checkText(t, w.Body.String(), `"apprPayType":null`)
	checkText(t, logs.String(), `"level":"DEBUG","msg":"words without a number became null"`, `"words":["appr_pay_type: CARD_VAN"]`)
	const dropped = `{client="v2",field="appr_pay_type",message="reply",operation="bill.read"} 1`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(""), "billbridge_fields_dropped_total"); !strings.Contains(fmt.Sprint(err), dropped) {
		t.Error(err)
	}
}
