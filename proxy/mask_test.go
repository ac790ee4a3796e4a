package proxy_test

import (
	"strings"
	"testing"

	"billbridge/proxy"
	"billbridge/proxy/sandbox"
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
	failure := map[string]string{
		"v2":     `{ "data" : {"message":"10.0.0.7"}, "code":"ERROR", "message":"` + text + `" }`,
		"legacy": `{ "code":"ERROR", "x":{"msg":"10.0.0.7"}, "msg":"` + text + `" }`,
	}
	for _, upstream := range forms {
		b := newGatewayTo(t, upstream, newBackend(t, replyWith(200, failure[upstream])))
		unmasked := newGatewayTo(t, upstream, newBackend(t, replyWith(200, failure[upstream])), "failures: {mask_hosts: false}")
		for _, client := range forms {
			name := inForm(client, "message", "msg")
			got := b.send(newCall(client, "create"))
			m := fields(t, got.body)
			if m["code"] != "ERROR" || m[name] != `<b>…</b> "응답" 없음 A` {
				t.Errorf("%s from %s: %s", client, upstream, got.body)
			}
			if client == upstream {
				inner, _ := m[inForm(client, "data", "x")].(map[string]any)
				equal(t, inner[name], "10.0.0.7", got.body)
			}
			got = unmasked.send(newCall(client, "create"))
			if fields(t, got.body)[name] != `<b>10.0.0.7:8080</b> "응답" 없음 A` || client == upstream && got.body != failure[upstream] {
				t.Errorf("%s from %s, unmasked: %s", client, upstream, got.body)
			}
		}
	}
	b := newBridge(t, "v2")
	b.service.Fault(sandbox.Fault{Body: `{"code":"0000","message":"10.0.0.7","data":{"hash":"10.0.0.7"}}`})
	if got := b.send(v2("create")); got.body != `{"code":"0000","message":"10.0.0.7","data":{"hash":"10.0.0.7"}}` {
		t.Errorf("a success was changed: %s", got.body)
	}
}
