package operate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
)

// invalidCalls are calls of the operator that are refused: status, method and target, and a part of the answer.
const invalidCalls = `
400 POST /rollout/stage                                                | by must be your name
400 POST /rollout/stage?partner=<k>&stage=new                          | by must be your name
400 POST /rollout/stage?partner=<k>&stage=new&by=                      | by must not be empty
400 POST /rollout/stage?partner=<k>&stage=new&by=a%0Ab                 | printable characters
400 POST /rollout/stage?partner=<k>&stage=new&by=%FF                   | by must be UTF-8
400 POST /rollout/stage?partner=<k>&by=a | stage must be one of [old canary new drained], or default, but is ""
400 POST /rollout/stage?partner=<k>&by=a&stage=                        | stage must not be empty
400 POST /rollout/stage?partner=<k>&by=a&stage=New                     | but is "New"
400 POST /rollout/stage?partner=<k>&by=a&stage=new&stage=old           | stage is given more than once
400 POST /rollout/stage?partner=<k>&by=a&stage=new&partner=<k>         | partner is given more than once
400 POST /rollout/stage?partner=<k>&by=a&stage=new&forced=true | no key "forced": the keys are by, do, force, partner, percent, preview, stage
400 POST /rollout/stage?partner=<k>&by=a&stage=new&Stage=old           | there is no key "Stage"
400 POST /rollout/stage?partner=<k>&by=a&stage=new&force=1 | force must name reasons: some of settling,verdict,
400 POST /rollout/stage?partner=<k>&by=a&stage=new&force               | force must not be empty
400 POST /rollout/stage?partner=<k>&by=a&stage=new&percent=10 | percent is required with stage canary, and not allowed with other stages
400 POST /rollout/stage?partner=<k>&by=a&stage=canary | percent is required with stage canary, and not allowed with other stages
400 POST /rollout/stage?partner=<k>&by=a&stage=canary&percent=101      | percent must be 0 to 100, but is 101
400 POST /rollout/stage?partner=<k>&by=a&stage=canary&percent=-1       | percent must be 0 to 100, but is -1
400 POST /rollout/stage?partner=<k>&by=a&stage=canary&percent=1e1      | percent cannot be "1e1"
400 POST /rollout/stage?partner=<k>&by=a&stage=new;force=true          | the query cannot be read
400 POST /rollout/stage?partner=<k>&by=a&stage=new&force=%zz           | the query cannot be read
400 POST /rollout/stage?by=a&stage=old | partner is missing: name one, or default for all
400 POST /rollout/stage?by=a&stage=old&partner=                        | partner must not be empty
400 POST /rollout/stage?by=a&stage=old&partner=8254c329a92             | 12 to 64 lower-case hex digits
400 POST /rollout/stage?by=a&stage=old&partner=<k>0                    | 12 to 64 lower-case hex digits
400 POST /rollout/stage?by=a&stage=old&partner=8254C329A928            | 12 to 64 lower-case hex digits
400 POST /rollout/stage?by=a&stage=old&partner=secret-demo-key         | 12 to 64 lower-case hex digits
400 POST /rollout/stage?by=a&stage=old&partner=Default                 | 12 to 64 lower-case hex digits
400 POST /rollout/stage?by=a&stage=old&partner=<twin:12> | the hashes of several partners begin with <twin:12>
404 POST /rollout/stage?by=a&stage=old&partner=<nobody:63>             | for a new partner give all 64 digits
400 POST /rollout/stop                                                 | by must be your name
400 POST /rollout/stop?preview=yes                                     | preview cannot be "yes"
400 POST /rollout/stop?preview=false                                   | by must be your name
400 POST /rollout/stop?preview=true&by=a%0Ab                           | printable characters
400 POST /rollout/begin?preview=true                                   | no key "preview"
400 POST /rollout/restored?preview=true                                | no key "preview"
400 POST /rollout/next?partner=<k>                                     | by must be your name
400 POST /rollout/next?by=a                                            | partner is missing
400 POST /rollout/next?by=a&partner=default                            | partner cannot be default here
400 POST /rollout/next?partner=<k>&by=a&stage=canary                   | percent is required with stage canary
400 POST /rollout/next?partner=<k>&by=a&percent=10                     | stage must be one of
404 POST /rollout/next?by=a&partner=<nobody:12>                        | give all 64 digits
400 POST /rollout/stop?by=a&by=b                                       | by is given more than once
400 POST /rollout/stop?by=a&forced=true | there is no key "forced": the keys are by, force, preview
400 POST /rollout/stage?partner=<k>&by=a&stage=new&force=verdict,      | separated by commas, but has ""
400 POST /rollout/stop?by=a&force=yes                                  | separated by commas, but has "yes"
404 POST /rollout/stage?stage=default&by=a&partner=default | no default was set: the default of the config applies
404 POST /rollout/stage?stage=default&by=a&partner=<k>                               | the partner has no stage of its own
400 POST /rollout/stage?stage=default&partner=<k>                                    | by must be your name
400 POST /rollout/reset?by=a                                           | partner is missing: name one
400 POST /rollout/reset?by=a&partner=default                           | partner is missing: name one, or all
400 POST /rollout/reset?partner=all                                    | by must be your name
400 POST /rollout/resume?by=                                           | by must not be empty
400 POST /rollout/resume?by=a&partner=default                          | no key "partner"
400 POST /rollout/restored?who=a                                       | no key "who"
400 POST /rollout/begin                                                | by must be your name
400 POST /rollout/begin?by=a&upstream=fresh                            | no key "upstream"
400 POST /rollout/moved?by=a | there is no upstream "" in the config: the upstreams are legacy, fresh
400 POST /rollout/moved?by=a&upstream=other                            | there is no upstream "other"
400 POST /rollout/moved?upstream=fresh                                 | by must be your name
400 GET  /rollout?partner=                                             | partner must not be empty
400 GET  /rollout?partner=default                                      | leave partner out
400 GET  /rollout?stage=new                                            | no key "stage"
400 GET  /rollout?partner=<twin:12>                                    | the hashes of several partners
400 GET  /rollout?partner=abc                                          | 12 to 64
400 GET  /rollout/bills?limit=                                         | limit must not be empty
400 GET  /rollout/bills?limit=0                                        | limit must be 1 to 10000
400 GET  /rollout/bills?limit=10001                                    | limit must be 1 to 10000
400 GET  /rollout/bills?limit=x                                        | cannot be "x"
400 GET  /rollout/bills?limit=1&limit=2                                | more than once
400 GET  /rollout/bills?by=a                                           | no key "by"
404 GET  /rollout?partner=<nobody:12>                                  | give all 64 digits
`

// An invalid call is refused and changes nothing.
func TestInvalidOperatorCallsAreRefused(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.seen("k", time.Hour)
	d.owns("twin", "legacy", 1, 0, 0)
	must(t, d.store.Seen(t.Context(), partner.ID(hash("twin")[:12]+hash("k")[12:]), noon))
	for row := range strings.Lines(strings.TrimSpace(invalidCalls)) {
		call, says, _ := strings.Cut(row, "|")
		var status int
		var method, target string
		if _, err := fmt.Sscan(call, &status, &method, &target); err != nil {
			t.Fatal(row, err)
		}
		d.denies(status, method, target, strings.TrimSpace(says))
	}
	d.denies(400, "POST", "/rollout/stop?by="+strings.Repeat("a", 101), "1 to 100 printable")
	for _, target := range []string{"POST /rollout", "GET /rollout/stop?by=a", "PUT /rollout/stage?by=a", "DELETE /audit", "HEAD /rollout/resume?by=a"} {
		method, path, _ := strings.Cut(target, " ")
		equal(t, d.ask(method, path).Code, 405, target)
	}
	for _, path := range []string{"/rollouts", "/rollout/", "/rollout/x", "/rollout/stage/x"} {
		equal(t, d.ask("POST", path).Code, 404, path)
	}
	lacks(t, d.ask("POST", "/rollout/stage?by=a&stage=old&partner=secret-demo-key").Body.String(), "secret", "what may be a key is repeated")
	if r, err := d.store.Rollout(t.Context()); err != nil || r.Revision != noon.Add(-time.Hour).UnixMilli() { // the begin's
		t.Errorf("%+v, %v", r, err)
	}
	if d.logs.Len() > 0 {
		t.Errorf("%s", &d.logs)
	}
}
