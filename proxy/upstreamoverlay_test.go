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
				reply = strings.Replace(reply, `"apprPrice":`+price.Raw, `"apprPrice":"9","amounts":{"approved":`+price.Raw+`}`, 1)
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
				key := ""
				if overlay != "" {
					key = ", overlay: " + overlayPath(t, overlay)
				}
				p := newProcess(t, anyPort+fmt.Sprintf("upstreams:\n  old: {form: v2, url: %q}\n  new: {form: v2, url: %q%s}\nroute: {default: old}\n"+
					"rollout: {old: old, new: new, bills: shared, default: shadow}\nstore: {url: \"sqlite:%s\"}\n",
					newBackend(t, service).url, newBackend(t, handler).url, key, filepath.Join(t.TempDir(), "store.db")))
				play := func(script string) { play(p, script, "CLIENT", client) }
				play("success CLIENT create")
				must(t, service.Pay(demoKey, demoBill))
				play("success CLIENT read\nnoSuchBill CLIENT read billId=NOSUCHBILL0000000001")
				v := p.verdict("bill.read", evidence.ByShadow, func(v evidence.Verdict) bool { return v.Number+v.NotThere+v.Unclear == 2 })
				good := v.Differed == 0 && v.NotThere == 1 && v.Number == 1
				if equal(t, good, overlay != "", v.Compared); overlay == "" {
					return
				}
				dropped := fmt.Sprintf(`billbridge_fields_dropped_total{client=%q,field="unknown",message="reply",operation="bill.read"}`, client)
				checkText(t, p.metrics(), "!"+dropped+" 1\n") // shadow reads do not count
				// The upstream writes B for A, and has no word for B. A call that only the old backend can take is evidence.
				play("success CLIENT create productName=B billId=ATOLD000000000000001")
				refused := func(n int) {
					p.verdict("bill.create", evidence.ByCalls, func(v evidence.Verdict) bool { return len(v.Unsupported) == 1 && v.Unsupported[0].Count == n })
				}
				refused(1)
				play(`
200 POST /rollout/stage?by=anna&partner=default&stage=new&{forced}
success CLIENT create billId=SECOND00000000000001`)
				checkText(t, bodies(), "/invoice {", `"amounts":{"total":30000}`)
				play("invalid CLIENT create productName=B billId=THIRD000000000000001 | bill." +
					inForm(client, "productName", "product_nm") + ": has a value that is not supported here")
				refused(2) // nothing was sent
				checkText(t, bodies(), "!THIRD")
				play("success CLIENT create billId=THIRD000000000000001")
				must(t, service.Pay(demoKey, "SECOND00000000000001"))
				play("success CLIENT read billId=SECOND00000000000001 | SECOND00000000000001 | 30000 | tate\":\"F\"")
				checkText(t, p.metrics(), dropped+" 1\n")
				got := p.expect(newCall(client, "read").with("billId", "NOSUCHBILL0000000001"), noSuchBill)
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
		back := newBackend(t, replyWith(200, `{"code":"0000","message":"ok","data":{"apiKey":"`+demoKey+`","billId":"`+demoBill+`"}}`))
		p := newProcess(t, anyPort+fmt.Sprintf("upstreams: {new: {form: v2, url: %q, overlay: %s}}\n", back.url, overlayPath(t, unusualBackend))+
			"store: {url: "+proxytest.SQLite(t)+"}\n"+callbacksOn)
		p.expect(newCall(client, "create").with("callbackUrl", told.url+"/paid"), success)
		p.expect(newCall(client, "read"), brokenRead) // the reply has the name of the table: it may be about any bill
		address := gjson.Get(back.first(t).body, "bill.callbackUrl").Str
		p.post(strings.TrimPrefix(address, "https://bridge.example.com"), `{"apiKey":"`+demoKey+`","invoice":"`+demoBill+`","apprState":"PAID","amounts":{"approved":30000}}`).
			is(t, 200, `"code":"0000"`)
		eventually(t, "no callback", func() bool { return told.count() > 0 })
		body := told.first(t).body
		for name, want := range map[string]string{"billId": demoBill, "apprState": "F", "apprPrice": "30000"} {
			if client == "legacy" {
				name = map[string]string{"billId": "bill_id", "apprState": "appr_state", "apprPrice": "appr_price"}[name]
			}
			equal(t, gjson.Get(body, name).String(), want, body)
		}
	})
}
