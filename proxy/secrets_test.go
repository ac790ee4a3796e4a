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

// The canaries are values of a key, a phone, a name, a hash and a card number that occur nowhere else.
const (
	canaryKey   = "canary-key-5e0b1c"
	canaryPhone = "01000007777"
	canaryName  = "카나리아이름"
	canaryHash  = "ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a41ca9a"
	canaryCard  = "4518-4299-****-7731"
)

var canaries = []string{canaryKey, canaryPhone, canaryName, canaryHash, canaryCard}

// canaryCalls are calls with the canaries: valid ones, and ones that are refused for other parts of the call.
func canaryCalls(client, op string) map[string]string {
	q := newCall(client, op).with("apiKey", canaryKey).with("memberName", canaryName).with("phone", canaryPhone)
	text := q.body()
	price := q.with("hash", canaryHash).body()
	return map[string]string{
		"good":              text,
		"with a wrong hash": price,
		"a name twice":      strings.Replace(text, "{", `{"`+canaryKey+`":1,"`+canaryKey+`":2,`, 1),
		"a name twice, in":  strings.Replace(text, "{", `{"x":{"`+canaryPhone+`":{"`+canaryName+`":1,"`+canaryName+`":2}},`, 1),
		"cut off":           text[:len(text)-4],
		"an unknown field":  strings.Replace(text, "{", `{"`+canaryPhone+`":"`+canaryName+`",`, 1),
		"key of a number":   strings.Replace(text, `"`+canaryKey+`"`, `["`+canaryKey+`"]`, 1),
		"phone of a list":   strings.Replace(text, `"`+canaryPhone+`"`, `["`+canaryPhone+`"]`, 1),
		"name of an object": strings.Replace(text, `"`+canaryName+`"`, `{"a":"`+canaryName+`"}`, 1),
		"bill of text":      `{"apiKey":"` + canaryKey + `","apikey":"` + canaryKey + `","bill":"` + canaryPhone + `"}`,
	}
}

// All operations are called between all forms, with valid and invalid calls, valid and broken replies. No canary may be
// in the log, in the metrics, or in an answer that is not a success.
func TestR35_Canaries(t *testing.T) {
	t.Parallel()
	partners := append(sandbox.DefaultPartners(), sandbox.Partner{Key: canaryKey})
	record := map[string]string{
		"v2": fmt.Sprintf(`"apiKey":%q,"billId":%q,"apprIssuerNum":%q,"apprNum":%q,"apprDt":%q,"udItem":%q`,
			canaryKey, demoBill, canaryCard, canaryHash, canaryCard, canaryName),
		"legacy": fmt.Sprintf(`"apikey":%q,"bill_id":%q,"appr_issuer_num":%q,"appr_num":%q,"appr_dt":%q`,
			canaryKey, demoBill, canaryCard, canaryHash, canaryCard),
	}
	for _, client := range forms {
		for _, upstream := range forms {
			t.Run(client+"/"+upstream, func(t *testing.T) {
				t.Parallel()
				service := sandbox.New(sandbox.Options{Partners: partners, Clock: func() time.Time { return fixedTime }, Transport: noCallbacks{}})
				b := newGateway(t, strings.Replace(oneUpstream(upstream, newBackend(t, service).url), "30s", "2s", 1))
				failures := 0
				faults := []*sandbox.Fault{
					nil,
					{Drop: true},
					{Truncate: true},
					{Status: 302},
					{Code: "ERROR", Status: 500},
					{Gzip: true, Truncate: true},
					{Body: canaryKey + canaryPhone},
					{Body: `{"code":"` + canaryKey + `","message":"x","msg":"x"}`},
					{Body: `{"code":"` + canaryPhone + `","` + canaryName + `":1,"` + canaryName + `":1}`},
					{Body: `{"code":{"` + canaryHash + `":1},"message":"` + canaryName + `"}`},
					{Body: `{"code":"0000","message":"x","` + canaryKey + `":1,"data":{` + record["v2"] + `,"` + canaryPhone + `":1}}`},
					{Body: `{` + record["legacy"] + `,"appr_state":"` + canaryName + `","` + canaryKey + `":1}`},
				}
				for _, op := range operations {
					for name, body := range canaryCalls(client, op) {
						for i, fault := range faults {
							if fault != nil && name != "good" {
								continue
							}
							service.ClearFaults()
							if fault != nil {
								service.Fault(*fault)
							}
							got := b.post(newCall(client, op).path(), body)
							m := fields(t, got.body)
							if got.status == http.StatusOK {
								continue // the upstream's own refusal, translated
							}
							if failures++; got.status == http.StatusInternalServerError && m["code"] != "ERROR" {
								t.Errorf("%s", got.body)
							}
							for _, canary := range canaries {
								// The refusal may name the duplicate field to its sender: it is a name and not a value.
								if strings.Contains(got.body, canary) && !strings.Contains(name, "twice") {
									t.Errorf("%s %s, fault %d: %s", op, name, i, got.body)
								}
							}
						}
					}
				}
				if failures < 20 {
					t.Errorf("only %d answers were failures", failures)
				}
				log, metrics := b.logs.String(), b.scrape()
				for _, canary := range canaries {
					if i := strings.Index(log, canary); i >= 0 {
						t.Errorf("%s in the log: …%s", canary, log[max(0, i-200):i+80])
					}
					if i := strings.Index(metrics, canary); i >= 0 {
						t.Errorf("%s in the metrics: …%s", canary, metrics[max(0, i-200):i+80])
					}
				}
				if !strings.Contains(log, `"partner":"`+partner.Of(canaryKey).Short()+`"`) {
					t.Error("the log does not have the partner of the calls")
				}
			})
		}
	}
}

// No value that a caller sends ends a line of the log or begins another one.
func TestR36_LogValuesAreEscaped(t *testing.T) {
	t.Parallel()
	back := newBackend(t, newService())
	b := newGateway(t, oneUpstream("v2", back.url))
	evil := "\n{\"msg\":\"request\",\"partner\":\"evil\"}\n\x1b[31m\u202e"
	calls := 0
	for _, op := range operations {
		for _, field := range []string{"apiKey", "member", "billId", "price"} {
			b.send(newCall("legacy", op).with(field, evil).with("hash", "x"))
			calls++
		}
		b.post(newCall("legacy", op).path(), `{"a\n\nb":1,"a\n\nb":2}`)
		calls++
	}
	lines := slices.Collect(strings.Lines(b.logs.String()))
	if len(lines) != calls {
		t.Errorf("%d lines for %d calls", len(lines), calls)
	}
	for _, line := range lines {
		if fields(t, line)["partner"] == "evil" || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("%q", line)
		}
	}
}
