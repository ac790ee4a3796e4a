package operate_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"

	"golang.org/x/text/unicode/norm"
)

// An invalid call is refused and changes nothing.
func TestInvalidOperatorCallsAreRefused(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.seen("k", time.Hour)
	d.owns("twin", "legacy", 1, 0, 0)
	must(t, d.store.Seen(t.Context(), partner.ID(hash("twin")[:12]+hash("k")[12:]), noon))
	for _, row := range proxytest.Rows(t, "testdata/invalidcalls.txt") {
		var status int
		var method, target string
		works(t)(fmt.Sscan(row[0], &status, &method, &target))
		d.denies(status, method, target, row[1])
	}
	d.denies(400, "POST", "/rollout/stop?by="+strings.Repeat("a", 101), "1 to 100 printable")
	for _, target := range []string{"POST /rollout", "GET /rollout/stop?by=a", "PUT /rollout/stage?by=a", "DELETE /audit", "HEAD /rollout/resume?by=a"} {
		method, path, _ := strings.Cut(target, " ")
		equal(t, d.ask(method, path).Code, 405, target)
	}
	lacks(t, d.ask("POST", "/rollout/stage?by=a&stage=old&partner=secret-demo-key").Body.String(), "secret", "what may be a key is repeated")
	if r, err := d.store.Rollout(t.Context()); err != nil || r.Revision != noon.Add(-time.Hour).UnixMilli() { // the begin's
		t.Errorf("%+v, %v", r, err)
	}
	if d.logs.Len() > 0 {
		t.Errorf("%s", &d.logs)
	}
}

// A name is found in whichever way Unicode writes it: in the config, in a call, and in its hash.
func TestNamesAreComparedInNFC(t *testing.T) {
	t.Parallel()
	forms := []string{"하나 의원 Ä", norm.NFD.String("하나 의원 ä")}
	for _, inConfig := range forms {
		d := operatorInMemory(t, separate+"partners: {"+hash("k")[:12]+": {name: "+inConfig+"}}\n")
		d.seen("k", time.Hour)
		for _, given := range forms {
			for _, ref := range []string{given, operate.Named(given)} {
				answer := d.ask("GET", "/rollout?partner="+url.QueryEscape(ref)).Body.String()
				if !strings.Contains(answer, `"partners":[{"partner":"`+hash("k")[:12]+`"`) {
					t.Errorf("%s is not %s: %s", ref, inConfig, answer)
				}
			}
		}
	}
}
