package proxy_test

import (
	"fmt"
	"testing"

	"billbridge/proxy/partner"
)

// The texts of failures are in the language of the partner, as far as the request names it.
func TestFailuresAreInTheLanguageOfThePartner(t *testing.T) {
	t.Parallel()
	const another = "another-partner-key"
	partners := fmt.Sprintf("failures: {language: ko}\npartners: {%s: {name: Hana Clinic, failures: {language: both}}, %s: {name: Duri Clinic, failures: {language: en}}}\n",
		partner.Of(demoKey).Short(), partner.Of(another).Short())
	rollout := fmt.Sprintf("upstreams: {old: {form: legacy, url: %[1]q}, new: {form: v2, url: %[1]q}}\nroute: {default: old}\nrollout: {old: old, new: new, default: old}\nstore: {url: \"sqlite:%[2]s\"}\n",
		refusedURL, t.TempDir()+"/store.db")
	at := map[string]*caller{
		"one upstream": &newGateway(t, oneUpstream("legacy", refusedURL, partners)).caller,
		"a rollout":    &newProcess(t, anyPort+rollout+partners).caller,
	}
	const (
		single, singleEn = "객체나 배열일 수 없습니다.", "must be a single value"
		notSent          = "요청을 처리하지 않았습니다. 지금은 처리할 수 없으니 잠시 후 다시 보내십시오."
		notSentEn        = "Nothing was sent: it is not possible now. Send again later."
	)
	for name, c := range at {
		for _, form := range forms {
			field := inForm(form, "bill.billId", "bill.bill_id")
			for key, want := range map[string][2]string{
				"a-third-key": {single, notSent},
				another:       {singleEn, notSentEn},
				demoKey:       {single + " / " + singleEn, notSent + " / " + notSentEn},
			} {
				check := func(got answer, want string) {
					t.Helper()
					equal[any](t, fields(t, got.body)[inForm(form, "message", "msg")], want, name, form, key)
				}
				q := newCall(form, "create").with("apiKey", key)
				check(c.send(q.with("billId", []int{1})), field+": "+want[0])
				if name == "one upstream" {
					check(c.send(q), want[1])
				}
				check(c.post(q.path(), `{"apiKey":!`), "apiKey: JSON 형식이 올바르지 않습니다(바이트 위치 10).")
			}
		}
	}
}
