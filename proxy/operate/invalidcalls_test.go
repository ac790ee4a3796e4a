package operate_test

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
)

// An invalid call is refused and changes nothing.
func TestInvalidOperatorCallsAreRefused(t *testing.T) {
	t.Parallel()
	d := memoryDesk(t, separate)
	d.seen("k", time.Hour)
	d.owns("twin", "legacy", 1, 0, 0)
	twin := hash("twin")[:12] + hash("k")[12:]
	must(t, d.store.Seen(t.Context(), partner.ID(twin), noon))
	k := "partner=<k>"
	for _, row := range []struct {
		status             int
		path, query, wants string
	}{
		{400, "stage", "", "by must be your name"},
		{400, "stage", k + "&stage=new", "by must be your name"},
		{400, "stage", k + "&stage=new&by=", "by must not be empty"},
		{400, "stage", k + "&stage=new&by=a%0Ab", "printable characters"},
		{400, "stage", k + "&stage=new&by=%FF", "by must be UTF-8"},
		{400, "stage", k + "&stage=new&by=" + strings.Repeat("a", 101), "1 to 100 printable"},
		{400, "stage", k + "&by=a", `stage must be one of [old shadow canary new drained], but is ""`},
		{400, "stage", k + "&by=a&stage=", "stage must not be empty"},
		{400, "stage", k + "&by=a&stage=New", `but is "New"`},
		{400, "stage", k + "&by=a&stage=new&stage=old", "stage is given more than once"},
		{400, "stage", k + "&by=a&stage=new&" + k, "partner is given more than once"},
		{400, "stage", k + "&by=a&stage=new&forced=true", `there is no key "forced": the keys are by, force, partner, percent, preview, stage`},
		{400, "stage", k + "&by=a&stage=new&Stage=old", `there is no key "Stage"`},
		{400, "stage", k + "&by=a&stage=new&force=1", `force must name reasons: some of settling,verdict,`},
		{400, "stage", k + "&by=a&stage=new&force", "force must not be empty"},
		{400, "stage", k + "&by=a&stage=new&percent=10", "percent is required with stage canary, and not allowed with other stages"},
		{400, "stage", k + "&by=a&stage=canary", "percent is required with stage canary, and not allowed with other stages"},
		{400, "stage", k + "&by=a&stage=canary&percent=101", `percent must be 0 to 100, but is 101`},
		{400, "stage", k + "&by=a&stage=canary&percent=-1", `percent must be 0 to 100, but is -1`},
		{400, "stage", k + "&by=a&stage=canary&percent=1e1", `percent cannot be "1e1"`},
		{400, "stage", k + "&by=a&stage=new;force=true", "the query cannot be read"},
		{400, "stage", k + "&by=a&stage=new&force=%zz", "the query cannot be read"},
		{400, "stage", "by=a&stage=old", "partner is missing: name one, or default for all"},
		{400, "stage", "by=a&stage=old&partner=", "partner must not be empty"},
		{400, "stage", "by=a&stage=old&partner=" + hash("k")[:11], "12 to 64 lower-case hex digits"},
		{400, "stage", "by=a&stage=old&partner=<k>0", "12 to 64 lower-case hex digits"},
		{400, "stage", "by=a&stage=old&partner=" + strings.ToUpper(hash("k")), "12 to 64 lower-case hex digits"},
		{400, "stage", "by=a&stage=old&partner=secret-demo-key", "12 to 64 lower-case hex digits"},
		{400, "stage", "by=a&stage=old&partner=Default", "12 to 64 lower-case hex digits"},
		{400, "stage", "by=a&stage=old&partner=" + twin[:12], "the hashes of several partners begin with " + twin[:12]},
		{404, "stage", "by=a&stage=old&partner=" + hash("nobody")[:63], "for a new partner give all 64 digits"},
		{400, "stop", "", "by must be your name"},
		{400, "stop", "preview=yes", `preview cannot be "yes"`},
		{400, "stop", "preview=false", "by must be your name"},
		{400, "stop", "preview=true&by=a%0Ab", "printable characters"},
		{400, "begin", "preview=true", `no key "preview"`},
		{400, "restored", "preview=true", `no key "preview"`},
		{400, "next", k, "by must be your name"},
		{400, "next", "by=a", "partner is missing"},
		{400, "next", "by=a&partner=default", "partner cannot be default here"},
		{400, "next", k + "&by=a&stage=canary", "percent is required with stage canary"},
		{400, "next", k + "&by=a&percent=10", "stage must be one of"},
		{404, "next", "by=a&partner=<nobody:12>", "give all 64 digits"},
		{400, "stop", "by=a&by=b", "by is given more than once"},
		{400, "stop", "by=a&forced=true", `there is no key "forced": the keys are by, force, preview`},
		{400, "stage", k + "&by=a&stage=new&force=verdict,", `separated by commas, but has ""`},
		{400, "stop", "by=a&force=yes", `separated by commas, but has "yes"`},
		{404, "unset", "by=a&partner=default", "no default was set: the default of the config applies"},
		{404, "unset", "by=a&" + k, "the partner has no stage of its own"},
		{400, "unset", k, "by must be your name"},
		{400, "reset", "by=a", "partner is missing: name one"},
		{400, "reset", "by=a&partner=default", "partner is missing: name one, or all"},
		{400, "reset", "partner=all", "by must be your name"},
		{400, "resume", "by=", "by must not be empty"},
		{400, "resume", "by=a&partner=default", `no key "partner"`},
		{400, "restored", "who=a", `no key "who"`},
		{400, "begin", "", "by must be your name"},
		{400, "begin", "by=a&upstream=fresh", `no key "upstream"`},
		{400, "moved", "by=a", `there is no upstream "" in the config: the upstreams are legacy, fresh`},
		{400, "moved", "by=a&upstream=other", `there is no upstream "other"`},
		{400, "moved", "upstream=fresh", "by must be your name"},
	} {
		d.denies(row.status, "POST", "/rollout/"+row.path+"?"+row.query, row.wants)
	}
	for query, wants := range map[string]string{
		"?partner=": "partner must not be empty", "?partner=default": "leave partner out", "?stage=new": `no key "stage"`,
		"?partner=" + twin[:12]: "the hashes of several partners", "?partner=abc": "12 to 64", "/bills?limit=": "limit must not be empty",
		"/bills?limit=0": "limit must be 1 to 10000", "/bills?limit=10001": "limit must be 1 to 10000", "/bills?limit=x": `cannot be "x"`,
		"/bills?limit=1&limit=2": "more than once", "/bills?by=a": `no key "by"`,
	} {
		d.denies(400, "GET", "/rollout"+query, wants)
	}
	d.denies(404, "GET", "/rollout?partner=<nobody:12>", "give all 64 digits")
	for _, target := range []string{"POST /rollout", "GET /rollout/stop?by=a", "PUT /rollout/stage?by=a", "DELETE /audit", "HEAD /rollout/resume?by=a"} {
		method, path, _ := strings.Cut(target, " ")
		if w := d.ask(method, path); w.Code != 405 {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	for _, path := range []string{"/rollouts", "/rollout/", "/rollout/x", "/rollout/stage/x"} {
		if w := d.ask("POST", path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := d.ask("POST", "/rollout/stage?by=a&stage=old&partner=secret-demo-key"); strings.Contains(w.Body.String(), "secret") {
		t.Errorf("what may be a key is repeated: %s", w.Body)
	}
	if r, err := d.store.Rollout(t.Context()); err != nil || r.Revision != noon.Add(-time.Hour).UnixMilli() { // the begin's
		t.Errorf("%+v, %v", r, err)
	}
	if d.logs.Len() > 0 {
		t.Errorf("%s", &d.logs)
	}
}
