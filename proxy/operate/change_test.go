package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
)

// shared is a rollout whose backends see the same bills, so that shadow can compare reads.
var shared = strings.Replace(separate, "new: fresh", "new: fresh, bills: shared", 1)

// steps makes the next step of a partner until there is none, and returns the stages.
func (d *testOperator) steps(key string) (all []string) {
	d.t.Helper()
	for {
		w := d.ask("POST", "/rollout/next?force=<all>&preview=true&partner="+hash(key))
		if w.Code != 200 {
			d.refuses("/rollout/next?force=<all>&by=anna&partner="+hash(key), "which is the last one")
			return all
		}
		d.later.Add(int64(time.Second))
		c := d.change("/rollout/next?force=<all>&by=anna&partner=" + hash(key))
		all = append(all, operate.InWords(c.To, c.ToPercent))
	}
}

// next goes through all stages in their order, and in canary through its percentages. From a percentage in between it goes to the next one.
// With separate bills there is no stage shadow.
func TestNextGoesThroughTheStages(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, shared)
	want := []string{"shadow", "canary 10 %", "canary 25 %", "canary 50 %", "new", "drained"}
	equal(t, d.steps("k"), want)
	equal(t, operatorInMemory(t, separate).steps("k"), want[1:], "separate bills")
	operatorInMemory(t, separate).denies(400, "POST", "/rollout/stage?force=<all>&by=anna&stage=shadow&partner=<k>", "with bills: separate there is no stage shadow: stage must be one of [old canary new drained]")
	for percent, first := range map[int]string{0: "canary 10 %", 9: "canary 10 %", 10: "canary 25 %", 49: "canary 50 %", 50: "new", 100: "new"} {
		d.change(fmt.Sprintf("/rollout/stage?force=<all>&by=anna&stage=canary&percent=%d&partner=%s", percent, hash("k")))
		if got := d.steps("k"); got[0] != first || got[len(got)-1] != "drained" {
			t.Errorf("after %d %%: %q", percent, got)
		}
	}
	d.change("/rollout/stage?force=<all>&by=anna&stage=canary&percent=25&partner=default")
	if got := d.steps("by default"); !slices.Equal(got, want[3:]) {
		t.Errorf("from the default: %q", got)
	}
}

// A stop can be previewed while the store is unreachable, as the stop itself.
func TestPreviewOfAStopNeedsNoStore(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	d := newTestOperator(t, s, separate)
	must(t, s.Close())
	if c := d.change("/rollout/stop?preview=true"); !strings.HasPrefix(c.Warning.String(), "the store cannot be read") {
		t.Errorf("%+v", c)
	}
}

// Every answer that names a partner has its name beside it.
func TestAnswersHaveNamesOfPartners(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate+"partners: {"+hash("k")[:14]+": {name: 하나 의원}}\n")
	d.seen("k", time.Hour)
	d.owns("k", "legacy", 0, 1, 0)
	d.proves("k")
	const name = `"name":"하나 의원"`
	for _, target := range []string{
		"POST /rollout/stage?stage=new&by=anna&partner=<k>", "POST /rollout/stage?stage=default&by=anna&partner=<k>", "POST /rollout/next?by=anna&partner=<k>",
		"POST /rollout/reset?by=anna&partner=<k>", "GET /rollout", "GET /rollout?partner=<k>",
		"GET /rollout?partner=%ED%95%98%EB%82%98+%EC%9D%98%EC%9B%90", "GET /rollout?partner=" + operate.Named("하나 의원"), "GET /audit", "GET /audit?partner=<k>",
		"GET /rollout/report", "GET /rollout/bills", "POST /rollout/read?bill=legacy0&partner=<k>", "POST /rollout/assign?bill=legacy0&to=new&force=<all>&by=anna&partner=<k>",
	} {
		method, path, _ := strings.Cut(target, " ")
		w := d.ask(method, path)
		if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, name) {
			t.Errorf("%s: %d %s", target, w.Code, text)
		}
	}
	d.proves("k")
	var out strings.Builder
	if err := answers[operate.Report](d, "GET", "/rollout/report").Write(&out, "text"); err != nil || !strings.Contains(out.String(), filled("\n<k:12> (하나 의원)  bill.create  read back")) {
		t.Errorf("%v\n%s", err, &out)
	}
}
