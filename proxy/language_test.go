package proxy_test

import (
	"fmt"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// The texts of failures are in the language of the partner, as far as the request names it.
func TestFailuresAreInTheLanguageOfThePartner(t *testing.T) {
	t.Parallel()
	const another = "another-partner-key"
	partners := fmt.Sprintf("failures: {language: ko}\npartners: {%s: {name: Hana Clinic, failures: {language: both}}, %s: {name: Duri Clinic, failures: {language: en}}}\n",
		partner.Of(demoKey).Short(), partner.Of(another).Short())
	rollout := fmt.Sprintf("upstreams: {old: {form: legacy, url: %[1]q}, new: {form: v2, url: %[1]q}}\nroute: {default: old}\nrollout: {old: old, new: new, default: old}\nstore: {url: %[2]q}\n",
		refusedURL, proxytest.SQLite(t))
	for name, c := range map[string]*caller{
		"one upstream": &newGateway(t, oneUpstream("legacy", refusedURL, partners)).caller,
		"a rollout":    &newProcess(t, anyPort+rollout+partners).caller,
	} {
		for _, form := range forms {
			for _, row := range rows(`
a-third-key | 객체나 배열일 수 없습니다. | 요청을 처리하지 않았습니다. 지금은 처리할 수 없으니 잠시 후 다시 보내십시오.
another-partner-key | must be a single value | Nothing was sent: it is not possible now. Send again later.
demo-partner-key | 객체나 배열일 수 없습니다. / must be a single value | 요청을 처리하지 않았습니다. 지금은 처리할 수 없으니 잠시 후 다시 보내십시오. / Nothing was sent: it is not possible now. Send again later.
`) {
				check := func(got answer, want string) {
					t.Helper()
					equal[any](t, fields(t, got.body)[inForm(form, "message", "msg")], want, name, form, row[0])
				}
				q := newCall(form, "create").with("apiKey", row[0])
				check(c.send(q.with("billId", []int{1})), inForm(form, "bill.billId", "bill.bill_id")+": "+row[1])
				if name == "one upstream" {
					check(c.send(q), row[2])
				}
				check(c.post(q.path(), `{"apiKey":!`), "apiKey: JSON 형식이 올바르지 않습니다(바이트 위치 10).")
			}
		}
	}
}
