package proxy_test

import (
	"strings"
	"testing"

	"billbridge/proxy"

	"github.com/tidwall/gjson"
)

// Hosts and addresses are masked; a name with dots may be a class or a host. Other text, such as field names, amounts and
// times, is not.
func TestMask(t *testing.T) {
	t.Parallel()
	for _, row := range rows(`
http://10.0.0.7:8080/api/bill?x=1 응답 없음 | … 응답 없음
https://billing.internal.example.com 접속 실패 | … 접속 실패
GET "https://a.b/c": EOF | GET "…": EOF
jdbc:mysql://db-main.local:3306/bill?user=a 연결 실패 | … 연결 실패
redis://cache:6379/0 down | … down
dial tcp 10.0.0.7:8080: connect: connection refused | dial tcp …: connect: connection refused
서버(192.168.10.21)에 연결할 수 없습니다. | 서버(…)에 연결할 수 없습니다.
[::1]:8080 refused | … refused
[fe80::1%eth0] | […%eth0]
dial tcp [2001:db8::1]:443: timeout | dial tcp …: timeout
peer 2001:db8:0:0:0:0:0:1 gone | peer … gone
peer 2001:db8::8a2e:370:7334 gone | peer … gone
peer ::1 gone | peer … gone
db-main:5432 does not answer | … does not answer
app01:8080 does not answer | … does not answer
localhost:8080 does not answer | … does not answer
localhost does not answer | … does not answer
billing.internal.example.com:443 timed out | … timed out
example.com refused | … refused
billing.internal refused | … refused
db.host:3306 refused | … refused
mail to help@example.com | mail to help@…
java.net.ConnectException: Connection refused | …: Connection refused
com.example.billing.dao.BillDao.find 실패 | … 실패
이미 사용된 청구서 번호입니다. | 이미 사용된 청구서 번호입니다.
유효기간은 2026.11.21까지입니다. | 유효기간은 2026.11.21까지입니다.
2026-11-21 10:30 점검이 끝납니다 | 2026-11-21 10:30 점검이 끝납니다
점검 시간 23:00:00~02:30:00 | 점검 시간 23:00:00~02:30:00
2026-11-21T10:30:15.123 오류 | 2026-11-21T10:30:15.123 오류
금액은 20,000원 이상이어야 합니다. | 금액은 20,000원 이상이어야 합니다.
비율은 1:2, 할인 3.5% 입니다 | 비율은 1:2, 할인 3.5% 입니다
카드사 응답: 거절(코드:51) | 카드사 응답: 거절(코드:51)
hash validation failed (bill.price) | hash validation failed (bill.price)
pay.example.com, db.local:1 | …, …
code: 0000, price: 30000 | code: 0000, price: 30000
성공하였습니다. | 성공하였습니다.
결제 금액 1.000.000.000 | 결제 금액 1.000.000.000
10.0.0.255 10.0.0.256 | … 10.0.0.256
v1.2.3 | v1.2.3
`) {
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
