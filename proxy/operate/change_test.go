package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"

	"github.com/google/go-cmp/cmp"
)

// copied is a rollout whose new backend gets a copy of the bills of the old one, so that shadow can compare reads.
var copied = strings.Replace(separate, "new: fresh", "new: fresh, copy: true", 1)

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
func TestNextGoesThroughTheStages(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, copied)
	want := []string{"shadow", "canary 10 %", "canary 25 %", "canary 50 %", "new", "drained"}
	equal(t, d.steps("k"), want)
	equal(t, operatorInMemory(t, separate).steps("k"), want[1:], "without a copy")
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

// A step that an operator has seen is made once: a second request for it is refused, since the partner is a stage further.
func TestNextIsMadeOnce(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, copied)
	target := "/rollout/next?force=<all>&by=anna&partner=<k>"
	d.change(target + "&stage=shadow")
	d.refuses(target+"&stage=shadow", "Not changed: the stage is shadow, so the next one is canary 10 % and not shadow.")
	d.refuses(target+"&stage=canary&percent=50", "so the next one is canary 10 % and not canary 50 %.")
	d.change(target + "&stage=canary&percent=10")
	equal(t, answers[operate.Status](d, "GET", "/rollout?partner=<k>").Partners[0].String(), "canary 10 %", "the stage")
}

// next has the preconditions of set.
func TestNextNeedsThePreconditions(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.change("/rollout/stage?force=<all>&by=anna&stage=canary&percent=50&partner=<k>")
	d.refuses("/rollout/next?by=anna&partner=<k>", "To change it anyway, give force=settling,verdict. Reasons:")
	d.seen("k", time.Hour)
	d.proves("k")
	if c := d.change("/rollout/next?by=anna&partner=<k>"); c.To != "new" || c.From != "canary" || *c.FromPercent != 50 || c.Forced {
		t.Errorf("%+v", c)
	}
}

// A preview says what would change and which reasons there are against it, needs no name, and changes nothing.
func TestPreviewChangesNothing(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate+"partners: {"+hash("k")[:12]+": {name: Hana Clinic}}\n")
	d.owns("k", "legacy", 0, 2, 0)
	d.change("/rollout/stage?force=<all>&by=anna&stage=canary&percent=50&partner=<k>")
	for backend := range evidence.Backend(2) {
		d.Router.Counts().Ended(partner.Of("k"), "bill.create", backend, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{"BILL_010 bill.tax", "BILL_010 bill.tax"}})
	}
	was, audit, logged := d.ask("GET", "/rollout").Body.String(), d.ask("GET", "/audit").Body.String(), d.logs.Len()
	fifty := 50
	for _, row := range []struct {
		target, to string
		want       operate.Change
		kinds      []rollout.ReasonKind
	}{
		{"next?partner=<k>", "new", operate.Change{}, []rollout.ReasonKind{rollout.Unsettled, rollout.Unproven, rollout.Uncarried}},
		{"next?by=ben&force=<all>&stage=new&partner=<k>", "new", operate.Change{By: "ben"}, []rollout.ReasonKind{rollout.Unsettled, rollout.Unproven, rollout.Uncarried}},
		{"stage?stage=drained&partner=<k>", "drained", operate.Change{}, []rollout.ReasonKind{rollout.Unsettled, rollout.Undrained, rollout.Unproven, rollout.Uncarried}},
		{"stage?stage=shadow&partner=<k>", "shadow", operate.Change{Warning: evidence.Say("list", "with bills: separate")}, []rollout.ReasonKind{rollout.Uncarried}},
		{"unset?partner=<k>", "old", operate.Change{}, []rollout.ReasonKind{rollout.Uncarried}},
	} {
		c := d.change("/rollout/" + row.target + "&preview=true")
		var kinds []rollout.ReasonKind
		for _, reason := range c.Reasons {
			kinds = append(kinds, reason.Kind)
			if reason.Text.Kind == "" || strings.Contains(reason.Text.String(), hash("k")[:13]) {
				t.Errorf("%s: the reason is %+v", row.target, reason)
			}
		}
		if !strings.HasPrefix(c.Warning.String(), row.want.Warning.String()) || (c.Warning.Kind == "") != (row.want.Warning.Kind == "") {
			t.Errorf("%s: the warning is %q", row.target, c.Warning)
		}
		c.Reasons, c.Warning = nil, evidence.Note{}
		want := operate.Change{Action: "stage", By: row.want.By, At: noon, Partner: hash("k")[:12], Name: "Hana Clinic", From: "canary", FromPercent: &fifty, To: row.to, Preview: true}
		if diff := cmp.Diff(want, c); diff != "" || !slices.Equal(kinds, row.kinds) {
			t.Errorf("%s: reasons %q, want %q, -want +got\n%s", row.target, kinds, row.kinds, diff)
		}
	}
	if c := d.change("/rollout/stage?preview=true&stage=canary&percent=25&partner=<k>"); c.Effect == nil || c.Effect.Percent != 25 {
		t.Errorf("the effect of a percentage is %+v", c.Effect)
	}
	c := d.change("/rollout/stop?preview=true")
	if len(c.Reasons) != 1 || c.Reasons[0].Kind != rollout.Uncarried || !strings.HasPrefix(c.Reasons[0].Text.String(), hash("k")[:12]+" (Hana Clinic): legacy cannot carry bill.create: BILL_010 bill.tax") || !c.Preview || c.Already {
		t.Errorf("stop: %+v", c)
	}
	d.refuses("/rollout/resume?preview=true", "Not changed: the rollout is not stopped.")
	equal(t, d.ask("GET", "/rollout").Body.String(), was, "the state is")
	if got := d.ask("GET", "/audit").Body.String(); got != audit || d.logs.Len() != logged {
		t.Errorf("the audit log is %s, was %s; the log %s", got, audit, &d.logs)
	}
}

// Without reasons a preview has an empty list, so that a program need not tell it from a change.
func TestPreviewWithoutReasons(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, copied)
	for _, target := range []string{"stop", "next?partner=<k>"} {
		w := d.ask("POST", "/rollout/"+target+map[bool]string{true: "&", false: "?"}[strings.Contains(target, "?")]+"preview=true")
		has(t, w.Body.String(), `"preview":true,"reasons":[]`, target)
	}
	d.change("/rollout/stop?by=ben")
	if c := d.change("/rollout/stop?preview=true"); !c.Already || c.By != "ben" || !c.Preview {
		t.Errorf("a stop of a stopped rollout: %+v", c)
	}
	if c := d.change("/rollout/resume?preview=true"); !c.Preview || c.Action != "resume" {
		t.Errorf("%+v", c)
	}
	if s := answers[operate.Status](d, "GET", "/rollout"); s.Stopped == nil {
		t.Error("the preview of a resume has resumed the rollout")
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
		"POST /rollout/stage?stage=new&by=anna&partner=<k>", "POST /rollout/unset?by=anna&partner=<k>", "POST /rollout/next?by=anna&partner=<k>",
		"POST /rollout/reset?by=anna&partner=<k>", "GET /rollout", "GET /rollout?partner=<k>",
		"GET /rollout?partner=%ED%95%98%EB%82%98+%EC%9D%98%EC%9B%90", "GET /rollout?partner=" + operate.Named("하나 의원"), "GET /audit", "GET /audit?partner=<k>",
		"GET /rollout/report", "GET /rollout/bills", "GET /rollout/bill?bill=legacy0&partner=<k>", "POST /rollout/assign?bill=legacy0&to=new&force=<all>&by=anna&partner=<k>",
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

// A change overrides only the reasons that the operator has named, and the audit log has their names.
func TestForceNamesTheReasons(t *testing.T) {
	t.Parallel()
	d := operatorInMemory(t, separate)
	d.seen("k", time.Minute)
	d.owns("k", "legacy", 0, 1, 0)
	d.owns("k", "fresh", 0, 1, 0)
	set := "/rollout/stage?by=a&partner=<k>&stage=drained"
	for _, force := range []string{"", "&force=false", "&force=true", "&force=settling,verdict", "&force=settling,open_bills,calls"} {
		d.refuses(set+force, "To change it anyway, give force=settling,open_bills,verdict. Reasons:\n")
	}
	d.refuses("/rollout/stage?by=a&stage=old&force=true&partner=<k>", "there are none: leave it out")
	want := []rollout.ReasonKind{rollout.Unsettled, rollout.Undrained, rollout.Unproven}
	if c := d.change(set + "&force=calls,verdict,settling,open_bills"); !c.Forced || !slices.Equal(c.Overridden, want) {
		t.Errorf("%+v", c)
	}
	d.compares("k", 1, evidence.Differs, evidence.Difference{Path: "apprPrice", Kind: evidence.InMoney})
	d.ends("k", "bill.create", evidence.New, 1, evidence.End{Code: "0000", Succeeded: true, Unsupported: [2]string{"BILL_010", ""}})
	for _, row := range []struct {
		target string
		reason rollout.ReasonKind
	}{
		{"stop?by=a", rollout.Uncarried},
		{"unset?by=a&partner=<k>", rollout.Uncarried},
		{"assign?by=a&to=new&bill=fresh0&partner=<k>", rollout.NotAtBoth},
	} {
		target, reason := row.target, row.reason
		d.refuses("/rollout/"+target+"&force=true", "give force="+string(reason)+". Reasons:\n")
		d.change("/rollout/" + target + "&force=" + string(reason))
		if log := answers[[]operate.Change](d, "GET", "/audit"); !log[0].Forced || !slices.Equal(log[0].Overridden, []rollout.ReasonKind{reason}) {
			t.Errorf("%s: %+v", target, log[0])
		}
	}
	d.refuses("/rollout/reset?by=a&partner=all&force=true", "give force=verdict. Reasons:\n")
	d.change("/rollout/reset?by=a&partner=all&force=verdict")
	log := answers[[]operate.Change](d, "GET", "/audit")
	if !slices.Equal(log[0].Overridden, []rollout.ReasonKind{rollout.Unproven}) || !slices.Equal(log[len(log)-2].Overridden, want) || log[0].Subject != "" {
		t.Errorf("%+v", log)
	}
}
