package console

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// hidden returns the values of the hidden fields of a page.
func hidden(body string) url.Values {
	form := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(body, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	return form
}

// starts starts a wave of partners, as a visitor does.
func (d *rolloutDesk) starts(name string, more url.Values, keys ...string) {
	d.t.Helper()
	list := ""
	for _, key := range keys {
		d.seen(key, 2*time.Hour)
		list += partner.ShortOf(key) + "\r\n"
	}
	form := url.Values{"name": {name}, "partners": {list}}
	for key, values := range more {
		form[key] = values
	}
	d.sends("/waves/new", hidden(d.sends("/waves/new", form, 200, "")), http.StatusSeeOther, "/waves/"+name+"?done=start")
}

// runs makes the steps of waves until a page shows a text.
func (d *rolloutDesk) runs(page, text string) {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Operator.RunWaves(ctx) }()
	defer func() { stop(); <-ended }()
	var body string
	proxytest.Eventually(d.t, func() bool {
		_, body = do(d, httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, page, nil))
		return strings.Contains(body, text)
	}, func() string { return fmt.Sprintf("%s has no %q: %s", page, text, body) })
}

// fail gives the reads of a partner a FAIL that is not about an exact field.
func (d *rolloutDesk) fail(key string) {
	for i := range 100 {
		d.Operator.Rollout.Counts().Add(partner.Of(key), "bill.read", evidence.Comparison{
			Class: evidence.Differs, Bill: fmt.Sprint("f", i), Succeeded: [2]bool{true, true}, States: true,
			Differences: []evidence.Difference{{Path: "memo", Kind: evidence.InOther}},
		})
	}
}

// A wave is seen before it is started, as it would be now, and the audit log has the visitor's name.
func TestWaveIsStarted(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.shows("/waves", 200, "There is no wave yet.", `<div id="waves" hx-get="/waves" hx-trigger="every 5s"`, `href="/waves/new"`, `<a href="/partners" aria-current="page">`)
	d.shows("/partners", 200, `<a href="/waves">Waves</a>`, `formaction="/waves/new">New wave with these`)
	for _, key := range []string{"hana", "other", "later"} {
		d.seen(key, 2*time.Hour)
	}
	d.shows("/waves/new?partner="+partner.ShortOf("hana")+"&partner="+partner.ShortOf("other"), 200,
		">"+partner.ShortOf("hana")+"\n"+partner.ShortOf("other")+"</textarea>", `placeholder="shadow,canary:10,canary:50,new"`, `placeholder="24h"`, `placeholder="20/h"`)
	form := url.Values{"name": {"autumn"}, "partners": {"hana <B>clinic</b>\r\n\r\n" + partner.ShortOf("other")}, "steps": {"shadow,canary:10,canary:50,new,drained"}}
	preview := d.sends("/waves/new", form, 200, "")
	for _, text := range []string{
		"2 partners. Their stages now:", "<code>old</code> → <code>shadow</code> → <code>canary 10 %</code> → <code>canary 50 %</code> → <code>new</code> → <code>drained</code>",
		"Start the wave", `name="steps" value="shadow,canary:10,canary:50,new,drained"`, "hana &lt;B&gt;clinic",
	} {
		has(t, preview, text, "the preview")
	}
	if body := d.shows("/waves", 200); strings.Contains(body, "autumn") {
		t.Fatal("a preview has started a wave")
	}
	seen := hidden(preview)
	at := "/partners/" + partner.ShortOf("other")
	d.sends(at+"/next", url.Values{"from": {"old"}, "to": {"shadow"}}, http.StatusSeeOther, at+"?done=next")
	changed := d.sends("/waves/new", seen, http.StatusConflict, "")
	has(t, changed, "Nothing was started: the partners or their stages have changed")
	d.sends("/waves/new", hidden(changed), http.StatusSeeOther, "/waves/autumn?done=start")
	if body := d.sends("/waves/new", hidden(changed), http.StatusConflict, ""); !strings.Contains(body, "is in wave autumn already") || strings.Contains(body, "Start the wave") {
		t.Errorf("a second click: %s", body)
	}
	d.shows("/waves", 200, `<a id="wave-autumn" href="/waves/autumn">autumn</a>`, `<span class="tag good">running</span>`, "anna", `data-label="Partners">2<`, "<code>new</code> → <code>drained</code>")
	d.shows("/waves/autumn?done=start", 200, "The wave was started.", partner.ShortOf("hana"), "Hana &lt;b&gt;Clinic", "<dt>Pace</dt><dd>20/h</dd>",
		"0 of 2", `href="/waves/autumn/pause"`, `href="/waves/autumn/stop"`, `href="/waves/autumn/rollback"`, "The wave has made no step yet.")
	d.shows("/partners/"+partner.ShortOf("hana"), 200, `<a href="/waves/autumn">autumn</a>`)
	lacks(t, d.shows("/partners/"+partner.ShortOf("later"), 200), "/waves/", "a partner that is in no wave has one")
	d.shows("/waves/nowhere", 404, "there is no wave")
	d.shows("/waves/autumn?after=x", 400, "after cannot be")
	d.shows("/waves/autumn/nonsense", 404)
}

// What is wrong is said at the form, which keeps all that was typed but lines that may be a key.
func TestFormOfAWaveKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	for says, form := range map[string]url.Values{
		"such as 20/h":                  {"name": {"a"}, "each": {"<i>20</i>"}},
		"name the partners of the wave": {"name": {"a"}, "stay": {"48h"}},
		"and not be new, but is":        {"name": {"new"}, "partners": {partner.ShortOf("hana")}},
		"no known partner":              {"name": {"a"}, "partners": {partner.ShortOf("nobody")}, "steps": {"new"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/waves/new", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, body := do(d, r)
		if status < 400 || status > 409 || !strings.Contains(body, says) || strings.Contains(body, "Start the wave") || strings.Contains(body, "<i>") {
			t.Errorf("%v: %d\n%s", form, status, body)
		}
		for key, typed := range form {
			value := html.EscapeString(typed[0])
			if !strings.Contains(body, `name="`+key+`" value="`+value+`"`) && !strings.Contains(body, ">"+value+"</textarea>") {
				t.Errorf("%s lost %s:\n%s", key, value, body)
			}
		}
	}
	form := url.Values{"name": {"autumn"}, "partners": {"Hana <b>Clinic</b>\nsecret-key-1\n" + partner.ShortOf("hana") + "\ndefault"}, "stay": {"5h"}}
	body := d.sends("/waves/new", form, http.StatusConflict, "")
	if strings.Contains(body, "secret-key") || !strings.Contains(body, "Lines that name no partner: 2, 4.") ||
		!strings.Contains(body, ">Hana &lt;b&gt;Clinic&lt;/b&gt;\n"+partner.ShortOf("hana")+"</textarea>") || !strings.Contains(body, `name="stay" value="5h"`) {
		t.Errorf("%s", body)
	}
	lacks(t, d.shows("/waves/new?partner=secret-key", 400, "The form cannot be read."), "secret-key", "the page repeats what may be a key")
}

// A wave is changed only in the state that the visitor has seen.
func TestChangeOfAWaveIsConfirmed(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.starts("autumn", nil, "hana")
	state := func(want string) {
		t.Helper()
		d.shows("/waves", 200, `>`+want+`</span>`)
	}
	for _, step := range []struct{ do, confirm, state string }{
		{"pause", "Pause now", "paused"}, {"resume", "Resume now", "running"}, {"rollback", "Roll back now", "rolling back"}, {"stop", "End now", "ended"},
	} {
		at := "/waves/autumn/" + step.do
		form := hidden(d.shows(at, 200, step.confirm))
		d.sends(at, url.Values{"seen": {"x"}}, http.StatusConflict, "")
		d.sends(at, form, http.StatusSeeOther, "/waves/autumn?done="+step.do)
		state(step.state)
		has(t, d.sends(at, form, http.StatusConflict, ""), "the state has changed in the meantime", step.do)
		state(step.state)
	}
	lacks(t, d.shows("/waves/autumn?done=stop", 200, "The wave was ended.", "Its partners can be in another wave"), "hx-get", "an ended wave is refreshed")
	at := "/waves/autumn/resume" // no button leads to it
	has(t, d.sends(at, hidden(d.shows(at, 200)), http.StatusConflict, ""), "the wave autumn is not paused")
	log, err := d.Operator.Audit(t.Context(), operate.AuditPage{By: "anna"})
	if err != nil || len(log) != 5 || slices.ContainsFunc(log, func(c operate.Change) bool { return c.Subject != "autumn" }) {
		t.Errorf("%+v %v", log, err)
	}
}

// A partner that went back waits for a person: the page says why in words, the overview leads there, and a person lets it go on.
func TestPartnerOfAWaveIsLetGoOn(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.Gateway = stubGateway{d.Config()}
	d.prove("hana")
	d.starts("autumn", url.Values{"steps": {"shadow,canary:10"}, "stay": {"1ms"}, "each": {"60/m"}}, "hana", "other")
	d.runs("/waves/autumn", "<code>canary 10 %</code></th><td class=\"n\">1 of 2")
	d.runs("/waves/autumn", "<code>shadow</code></th><td class=\"n\">1 of 2")
	body := d.shows("/waves/autumn", 200, "no read was compared yet", `<span class="good">after the last step</span>`, "<summary>Verdicts</summary>", "bill.read by shadow is PASS", "<code>shadow</code> → <code>canary 10 %</code>")
	if strings.Index(body, partner.ShortOf("other")) > strings.Index(body, partner.ShortOf("hana")) {
		t.Error("a partner that is done comes before one that waits")
	}
	d.fail("hana")
	d.runs("/waves/autumn", "and the wave takes the partner back.")
	d.runs("/waves/autumn", "the wave took the partner back")
	for page, texts := range map[string][]string{
		"/waves/autumn": {
			`<span class="tag bad">paused</span>`, "the wave took the partner back: a verdict is FAIL: bill.read by shadow is FAIL", `href="/waves/autumn/release?partner=` + partner.ShortOf("hana") + `"`,
			`href="/waves/autumn/resume"`, "until a person who may operate resumes the wave", "running → paused", "wave autumn",
		},
		"/": {`href="/waves/autumn">The wave autumn has paused: a verdict of `, `href="/waves/autumn">The wave autumn has partners that wait for a person: 1`},
	} {
		d.shows(page, 200, texts...)
	}
	for page, text := range map[string]string{"/": "의 판정이 FAIL이어서 파트너를 되돌립니다.", "/waves/autumn": "웨이브가 파트너를 되돌렸습니다: FAIL 판정이 있습니다"} {
		if _, body := get(t, d, page, "ko"); !strings.Contains(body, text) {
			t.Errorf("%s in Korean has no %s:\n%s", page, text, body)
		}
	}
	at := "/waves/autumn/release"
	form := hidden(d.shows(at+"?partner="+partner.ShortOf("hana"), 200, "the wave took the partner back", "Continue now"))
	d.shows(at+"?partner="+partner.ShortOf("other"), 200, "This partner does not wait for a person.")
	d.sends(at, form, http.StatusSeeOther, "/waves/autumn?done=release")
	has(t, d.sends(at, form, http.StatusConflict, ""), "the state has changed in the meantime", "a second click")
	d.Operator.Stop(t.Context(), operate.Switch{Decision: operate.Decision{Author: operate.Author{By: "anna"}}})
	resume := "/waves/autumn/resume"
	has(t, d.sends(resume, hidden(d.shows(resume, 200)), http.StatusConflict, ""), "Not resumed: the kill switch is on")
}

// A visitor who may only read sees waves, and can change nothing. Without tokens a name is needed.
func TestWavesNeedAVisitorWhoMayOperate(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.starts("autumn", nil, "hana")
	d.visitor = pages.Visitor{Name: "wall"}
	for _, page := range []string{"/waves", "/waves/autumn", "/waves/autumn/stop", "/waves/new"} {
		if body := d.shows(page, 200); strings.Contains(body, "<button") || strings.Contains(body, `class="button`) {
			t.Errorf("%s has a button", page)
		}
	}
	for _, target := range []string{"/waves/new", "/waves/autumn/stop", "/waves/autumn/release"} {
		d.sends(target, url.Values{"name": {"b"}, "partners": {partner.ShortOf("hana")}}, http.StatusForbidden, "")
	}
	d.visitor = pages.Visitor{MayOperate: true}
	form := hidden(d.shows("/waves/autumn/pause", 200, `name="by" required`))
	has(t, d.sends("/waves/autumn/pause", form, http.StatusConflict, ""), "by must")
	form.Set("by", "kim")
	d.sends("/waves/autumn/pause", form, http.StatusSeeOther, "/waves/autumn?done=pause")
	d.shows("/waves/autumn", 200, "· kim")
}

// The partners of a wave are in pages of 100.
func TestPartnersOfAWaveAreInPages(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	for i := range 103 {
		d.seen(fmt.Sprint("key", i), 2*time.Hour)
	}
	list := ""
	for i := range 103 {
		list += partner.ShortOf(fmt.Sprint("key", i)) + "\n"
	}
	form := hidden(d.sends("/waves/new", url.Values{"name": {"autumn"}, "partners": {list}}, 200, ""))
	d.sends("/waves/new", form, http.StatusSeeOther, "/waves/autumn?done=start")
	rows := func(page string) int {
		return strings.Count(d.shows(page, 200), `<th scope="row" data-label="Partner">`)
	}
	d.shows("/waves/autumn", 200, `href="/waves/autumn?after=100">Next page`, `<div id="wave" hx-get="/waves/autumn?after=" hx-trigger="every 5s"`)
	d.shows("/waves/autumn?after=100", 200, `<div id="wave" hx-get="/waves/autumn?after=100" hx-trigger="every 5s"`)
	if first, second := rows("/waves/autumn"), rows("/waves/autumn?after=100"); first != 100 || second != 3 {
		t.Errorf("the pages have %d and %d partners", first, second)
	}
}

// Every state of a wave has its words.
func TestStatesOfWavesHaveTexts(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	must(t, err)
	for _, state := range []store.WaveState{store.WaveRunning, store.WavePaused, store.WaveBack, store.WaveEnded} {
		if all.Texts["waves.state."+string(state)] == nil || all.Texts["waves.means."+string(state)] == nil {
			t.Errorf("no text for the state %s", state)
		}
	}
}
