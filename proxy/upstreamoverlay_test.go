package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/sandbox"

	"github.com/tidwall/gjson"
)

// unusualBackend is what the backend of unusualV2 writes in another way than the table.
const unusualBackend = `
codes: [{own: NO_BILL, v2: BILL_003}]
operations:
  bill.create:
    own: /invoice
    request:
      - {v2: bill.price, own: bill.amounts.total}
      - {v2: bill.productName, own: bill.productName, values: [{v2: A, own: B}]}
  bill.read:
    reply:
      - {v2: billId, own: invoice}
      - {v2: apprPrice, own: amounts.approved}
      - {v2: apprState, own: apprState, values: [{v2: F, own: PAID}]}
callbacks:
  callback.payment:
    request:
      - {v2: billId, own: invoice}
      - {v2: apprState, own: apprState, values: [{v2: F, own: PAID}]}
      - {v2: apprPrice, own: amounts.approved}
`

// unusualV2 is a service that has its own path, names, states and codes, and the bodies of its requests.
func unusualV2(service *sandbox.Service) (handler http.Handler, bodies func() string) {
	var mu sync.Mutex
	var got strings.Builder
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			fmt.Fprintln(&got, r.URL.Path, string(body))
			mu.Unlock()
			text := string(body)
			if total := gjson.GetBytes(body, "bill.amounts.total"); total.Exists() {
				text = strings.Replace(text, `"amounts":{"total":`+total.Raw+`}`, `"price":`+total.Raw, 1)
			}
			inner := httptest.NewRequest(r.Method, strings.Replace(r.URL.Path, "/invoice", "/bill", 1), strings.NewReader(text))
			inner.Header = r.Header
			answer := httptest.NewRecorder()
			service.ServeHTTP(answer, inner)
			reply := answer.Body.String()
			if price := gjson.Get(reply, "data.apprPrice"); price.Exists() {
				reply = strings.Replace(reply, `"apprPrice":`+price.Raw, `"amounts":{"approved":`+price.Raw+`}`, 1)
				reply = strings.NewReplacer(`"billId"`, `"invoice"`, `"apprState":"F"`, `"apprState":"PAID"`).Replace(reply)
			}
			w.WriteHeader(answer.Code)
			_, _ = io.WriteString(w, strings.Replace(reply, "BILL_003", "NO_BILL", 1))
		}), func() string {
			mu.Lock()
			defer mu.Unlock()
			return got.String()
		}
}

// Two v2 backends of the same bills, one of which has an overlay: partners see no difference, and neither do comparisons.
func TestOverlayOfAnUpstream(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		for _, overlay := range []string{unusualBackend, ""} {
			parallel(t, fmt.Sprint(client, overlay == ""), func(t *testing.T) {
				service := newService()
				handler, bodies := unusualV2(service)
				old, fresh := newBackend(t, service), newBackend(t, handler)
				key := ""
				if overlay != "" {
					key = ", overlay: " + strings.TrimSuffix(strings.TrimPrefix(overlayFile(t, overlay), "table: {overlay: "), "}\n")
				}
				p := newProcess(t, anyPort+fmt.Sprintf("upstreams:\n  old: {form: v2, url: %q}\n  new: {form: v2, url: %q%s}\nroute: {default: old}\n"+
					"rollout: {old: old, new: new, bills: shared, default: shadow}\nstore: {url: \"sqlite:%s\"}\n",
					old.url, fresh.url, key, filepath.Join(t.TempDir(), "store.db")))
				p.expect(newCall(client, "create"), success)
				must(t, service.Pay(demoKey, demoBill))
				p.expect(newCall(client, "read"), success)
				p.expect(newCall(client, "read").with("billId", "NOSUCHBILL0000000001"), wantAnswer{200, "BILL_003"})
				r := p.report(t, func(r operate.Report) bool {
					v := verdictOn(r, "bill.read", evidence.ByShadow)
					return v.Compared != nil && v.Number+v.NotThere+v.Unclear == 2
				})
				v := verdictOn(r, "bill.read", evidence.ByShadow)
				if good := v.Differed == 0 && v.NotThere == 1 && v.Number == 1; good != (overlay != "") {
					t.Errorf("%+v", v.Compared)
				}
				if overlay == "" {
					return
				}
				// The upstream writes B for A, and has no word for B. A call that only the old backend can take is evidence.
				b := newCall(client, "create").with("productName", "B")
				p.expect(b.with("billId", "ATOLD000000000000001"), success)
				refused := func(n int) func(operate.Report) bool {
					return func(r operate.Report) bool {
						v := verdictOn(r, "bill.create", evidence.ByCalls)
						return v.CallStats != nil && len(v.Unsupported) == 1 && v.Unsupported[0].Count == n
					}
				}
				p.report(t, refused(1))
				p.mustPost("/rollout/stage?by=anna&partner=default&stage=new&" + forced)
				p.expect(newCall(client, "create").with("billId", "SECOND00000000000001"), success)
				checkText(t, bodies(), "/invoice {", `"amounts":{"total":30000}`)
				got := p.expect(b.with("billId", "THIRD000000000000001"), wantAnswer{400, "VALIDATION_001"})
				checkText(t, got.body, "bill."+map[string]string{"v2": "productName", "legacy": "product_nm"}[client]+": has a value that is not supported here")
				p.report(t, refused(2)) // nothing was sent
				if strings.Contains(bodies(), "THIRD") {
					t.Error(bodies())
				}
				p.expect(newCall(client, "create").with("billId", "THIRD000000000000001"), success)
				must(t, service.Pay(demoKey, "SECOND00000000000001"))
				path := map[string]string{"v2": "data.apprState", "legacy": "appr_state"}[client]
				got = p.expect(newCall(client, "read").with("billId", "SECOND00000000000001"), success)
				equal(t, gjson.Get(got.body, path).Str, "F", got.body)
				checkText(t, got.body, "SECOND00000000000001", "30000")
				got = p.expect(newCall(client, "read").with("billId", "NOSUCHBILL0000000001"), wantAnswer{200, "BILL_003"})
				equal(t, strings.Contains(got.body, `"data":null`), client == "v2", got.body)
			})
		}
	}
}

// A callback of an upstream with an overlay comes to the partner as the table describes it.
func TestCallbackOfAnUpstreamWithAnOverlay(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, client string) {
		told := newBackend(t, replyWith(200, `{"code":"0000"}`))
		var address string
		back := newBackendFunc(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			address = gjson.GetBytes(body, "bill.callbackUrl").Str
			_, _ = io.WriteString(w, `{"code":"0000","message":"ok","data":{"apiKey":"`+demoKey+`","billId":"`+demoBill+`"}}`)
		})
		file := strings.TrimSuffix(strings.TrimPrefix(overlayFile(t, unusualBackend), "table: {overlay: "), "}\n")
		p := newProcess(t, anyPort+fmt.Sprintf("upstreams: {new: {form: v2, url: %q, overlay: %s}}\n", back.url, file)+
			"store: {url: \"sqlite:"+filepath.Join(t.TempDir(), "store.db")+"\"}\n"+callbacksOn)
		p.expect(newCall(client, "create").with("callbackUrl", told.url+"/paid"), success)
		path := strings.TrimPrefix(address, "https://bridge.example.com/from-upstreams")
		p.post("/from-upstreams"+path, `{"apiKey":"`+demoKey+`","invoice":"`+demoBill+`","apprState":"PAID","amounts":{"approved":30000}}`).is(t, 200, `"code":"0000"`)
		proxytest.Eventually(t, func() bool { return told.count() > 0 }, func() string { return "no callback" })
		names := map[string][3]string{"v2": {"billId", "apprState", "apprPrice"}, "legacy": {"bill_id", "appr_state", "appr_price"}}[client]
		body := string(told.received()[0].body)
		equal(t, gjson.Get(body, names[0]).Str+gjson.Get(body, names[1]).Str+gjson.Get(body, names[2]).String(), demoBill+"F30000", body)
	})
}
