package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// The canaries are values of a key, a phone, a name, a hash and a card number that occur nowhere else.
const (
	canaryKey   = "canary-key-5e0b1c"
	canaryPhone = "01000007777"
	canaryName  = "카나리아이름"
	canaryHash  = "ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a"
	canaryCard  = "4518-4299-****-7731"
)

var canaries = []string{canaryKey, canaryPhone, canaryName, canaryHash, canaryCard}

// canaryCalls are calls with the canaries: a valid one, and ones that are refused for other parts of the call.
func canaryCalls(client, op string) []string {
	text := newCall(client, op).with("apiKey", canaryKey).with("memberName", canaryName).with("phone", canaryPhone).body()
	return []string{
		text, text[:len(text)-4], strings.Replace(text, "{", `{"`+canaryKey+`":1,"`+canaryKey+`":2,`, 1),
		strings.Replace(text, "{", `{"`+canaryPhone+`":"`+canaryName+`",`, 1),
		strings.Replace(text, `"`+canaryKey+`"`, `["`+canaryKey+`"]`, 1),
		`{"apiKey":"` + canaryKey + `","apikey":"` + canaryKey + `","bill":"` + canaryPhone + `"}`,
	}
}

// A caller writes secrets wherever it can, in a rollout and with callbacks. No line of the log and no series has them.
func TestR35_LogAndMetricsShowNoSecrets(t *testing.T) {
	t.Parallel()
	r := newCallbackParties(t)
	s := proxytest.BeginRollout(t, "sqlite:"+r.file, partner.Of(demoKey))
	must(t, s.Change(t.Context(), store.Change{Action: store.Staged, To: "new", By: "test", At: time.Now()}))
	r.process = newProcess(t, anyPort+fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: %q}
  new: {form: v2, url: %q}
route: {default: old}
rollout: {old: old, new: new}
store: {url: "sqlite:%s"}
`, newBackend(t, newService()).url, r.back.url, r.file)+callbacksOn)
	ask := func(method, path, body string) {
		t.Helper()
		_, err := doRequest(r.client, method, r.url+path, body,
			"Traceparent", callerTrace, "Tracestate", "a="+canaryKey, "User-Agent", canaryName, "Referer", canaryHash,
			"Baggage", "k="+canaryKey, "X-Forwarded-For", canaryPhone, "Authorization", "Bearer "+canaryKey)
		must(t, err)
	}
	for _, client := range forms {
		for _, op := range operations {
			for _, body := range canaryCalls(client, op) {
				ask("POST", newCall(client, op).path()+"?key="+canaryKey, body)
			}
		}
	}
	create := v2("create").with("billId", "CANARY0451").with("memberName", canaryName).with("phone", canaryPhone).with("callbackUrl", r.partner.url+"/"+canaryKey+"?token="+canaryHash)
	ask("POST", create.path(), create.body())
	ask("POST", "/"+canaryKey, "{}")
	ask("CANARY0451", "/bill", "{}")
	must(t, r.service.Pay("", "CANARY0451"))
	r.nthCallback(1)
	metrics := r.metrics()
	r.stopAndWait()
	for _, canary := range append([]string{"token="}, canaries...) {
		for what, text := range map[string]string{"log": r.logs.String(), "metrics": metrics} {
			if i := strings.Index(text, canary); i >= 0 {
				t.Errorf("%s in the %s: …%q", canary, what, text[max(0, i-200):min(len(text), i+80)])
			}
		}
	}
}

// No value that a caller sends ends a line of the log or begins another one.
func TestR36_LogValuesAreEscaped(t *testing.T) {
	t.Parallel()
	b := newBridge(t, "v2")
	evil := "\n{\"msg\":\"request\",\"partner\":\"evil\"}\n\x1b[31m\u202e"
	calls := 0
	for _, op := range operations {
		for _, field := range []string{"apiKey", "member", "billId", "price"} {
			b.send(legacy(op).with(field, evil).with("hash", "x"))
			calls++
		}
		b.post(legacy(op).path(), `{"a\n\nb":1,"a\n\nb":2}`)
		calls++
	}
	equal(t, strings.Count(b.logs.String(), "\n"), calls)
	for line := range strings.Lines(b.logs.String()) {
		equal(t, fields(t, line)["partner"] == "evil" || strings.ContainsAny(line, "\x1b\u202e"), false, line)
	}
}
