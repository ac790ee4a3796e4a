package proxy_test

import (
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/proxytest"

	"github.com/tidwall/gjson"
)

// Hosts and addresses are masked; a name with dots may be a class or a host. Other text, such as field names, amounts and
// times, is not.
func TestMask(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/mask.txt") {
		equal(t, proxy.Mask(row[0]), row[1], row[0])
	}
	long := strings.Repeat("가 ", 1024)
	equal(t, proxy.Mask(long+strings.Repeat("a.", 1<<21)), long+"…")
	equal(t, proxy.Mask(""), "")
}

// Only the text of an upstream's failure is masked, in every pair of forms, and not with failures.mask_hosts: false.
// Successes are not changed.
func TestMaskingChangesOnlyTheTextOfFailures(t *testing.T) {
	t.Parallel()
	const text = `<b>10.0.0.7:8080</b> \"응답\" 없음 \u0041`
	eachPair(t, func(t *testing.T, client, upstream string) {
		failure := inForm(upstream, `{ "data" : {"message":"10.0.0.7"}, "code":"ERROR", "message":"`+text+`" }`, `{ "code":"ERROR", "x":{"msg":"10.0.0.7"}, "msg":"`+text+`" }`)
		back := newBackend(t, replyWith(200, failure))
		name := inForm(client, "message", "msg")
		for more, host := range map[string]string{"": "…", "failures: {mask_hosts: false}": "10.0.0.7:8080"} {
			got := newGatewayTo(t, upstream, back, more).send(newCall(client, "create")).body
			equal[any](t, fields(t, got)["code"], "ERROR", got)
			equal[any](t, fields(t, got)[name], `<b>`+host+`</b> "응답" 없음 A`, got)
			if client == upstream {
				equal(t, gjson.Get(got, inForm(client, "data.message", "x.msg")).Str, "10.0.0.7", got)
				equal(t, got == failure, more != "", got)
			}
		}
	})
	const done = `{"code":"0000","message":"10.0.0.7","data":{"hash":"10.0.0.7"}}`
	equal(t, newGatewayTo(t, "v2", newBackend(t, replyWith(200, done))).send(v2("create")).body, done)
}

// A path of the table in the text of a backend becomes that of the caller's form, in brackets and before a colon at the
// beginning. Every other text stays as it is.
func TestTextsOfABackendHaveThePathsOfTheCaller(t *testing.T) {
	t.Parallel()
	for _, row := range [][2]string{ // v2 and legacy
		{"금액 오류 (bill.price)", "금액 오류 (bill.price)"},
		{"이름 오류 (bill.memberName), 기한 오류 (bill.expireDt)", "이름 오류 (bill.member_nm), 기한 오류 (bill.expire_dt)"},
		{"bill.expireDt: 형식 오류", "bill.expire_dt: 형식 오류"},
		{"(apiKey)", "(apikey)"},
	} {
		for i, upstream := range []string{"v2", "legacy"} {
			for j, client := range []string{"v2", "legacy"} {
				checkTextOfABackend(t, client, upstream, row[i], row[j])
			}
		}
	}
	for _, same := range []string{
		"bill.expireDt 형식 오류", "오류: bill.expireDt: 형식", "( bill.expireDt)", "(memberName)", "(bill.sendType)", "[bill.expireDt]", "bill.expireDt", "(expireDt)",
		"BILL.EXPIREDT: x (bill.expiredt)",
	} {
		checkTextOfABackend(t, "legacy", "v2", same, same)
	}
}

func checkTextOfABackend(t *testing.T, client, upstream, text, want string) {
	t.Helper()
	for _, more := range []string{"", "failures: {mask_hosts: false}"} {
		back := newBackend(t, refuseWith(upstream, "VALIDATION_001", text))
		got := newGatewayTo(t, upstream, back, more).expect(newCall(client, "create"), wantAnswer{200, "VALIDATION_001"}).body
		equal[any](t, fields(t, got)[inForm(client, "message", "msg")], want, client, upstream)
	}
}
