package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/store"
)

// A rolloutDesk is a console in front of a rollout. Its visitor may operate, and has a name.
type rolloutDesk struct {
	*Console
	t       testing.TB
	store   *store.Store
	visitor Visitor
}

func newRolloutDesk(t testing.TB) *rolloutDesk {
	t.Helper()
	s := proxytest.Open(t, "memory:")
	c := proxytest.Config(t, testConfig+"store: {url: 'sqlite:unused.db'}\nrollout: {old: old, new: new, copy: true, settle: 1h}\npartners: {"+partner.ShortOf("hana")+": {name: Hana <b>Clinic</b>}}\n")
	router, err := rollout.New(t.Context(), c, rollout.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	operator := operate.New(operate.Options{Config: configOf(c), Store: s, Rollout: router})
	console, err := New(Options{Config: configOf(c), Operator: operator})
	if err != nil {
		t.Fatal(err)
	}
	return &rolloutDesk{console, t, s, Visitor{Name: "anna", MayOperate: true}}
}

func (d *rolloutDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.Console.ServeHTTP(w, r.WithContext(WithVisitor(r.Context(), d.visitor)))
}

// seen records that a partner was first seen some time ago.
func (d *rolloutDesk) seen(key string, ago time.Duration) {
	d.t.Helper()
	if err := d.store.Seen(d.t.Context(), partner.Of(key), time.Now().Add(-ago)); err != nil {
		d.t.Fatal(err)
	}
}

// stage is the stage of a partner.
func (d *rolloutDesk) stage(key string) string {
	d.t.Helper()
	status, err := d.options.Operator.Status(d.t.Context(), operate.Page{PartnerRef: operate.PartnerRef{Partner: string(partner.Of(key))}})
	if err != nil {
		d.t.Fatal(err)
	}
	return status.Partners[0].String()
}

// shows expects a status and texts of a page.
func (d *rolloutDesk) shows(target string, status int, texts ...string) (body string) {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, target, nil)
	got, body := do(d, r)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			d.t.Errorf("%s does not show %s:\n%s", target, text, body)
		}
	}
	if got != status {
		d.t.Errorf("%s: %d, want %d", target, got, status)
	}
	return body
}

// sends posts a form, and expects a status and, for a redirect, where to.
func (d *rolloutDesk) sends(target string, form url.Values, status int, to string) (body string) {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Code != status || w.Header().Get("Location") != to {
		d.t.Errorf("POST %s %s: %d to %q, want %d to %q\n%s", target, form.Encode(), w.Code, w.Header().Get("Location"), status, to, w.Body)
	}
	return w.Body.String()
}

// Each stage has a column. A name of the config is text, whatever characters it has.
func TestBoardHasAColumnForEachStage(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	d.seen("other", time.Minute)
	short := partner.ShortOf("hana")
	body := d.shows("/partners", 200, "Hana &lt;b&gt;Clinic&lt;/b&gt;", short, partner.ShortOf("other"), `href="/partners/`+short+`/next"`, "settling period", `href="/partners/stop"`)
	if strings.Contains(body, "<b>") || strings.Contains(body, string(partner.Of("hana"))[:13]) {
		t.Error("the board has markup of a name, or more than 12 digits")
	}
	for _, stage := range rollout.Stages {
		if !strings.Contains(body, `id="stage-`+string(stage)+`"`) {
			t.Errorf("there is no column %s", stage)
		}
	}
	d.shows("/partners?stage=old", 200, short)
	d.shows("/partners?stage=nonsense", 400, "stage must be one of")
	for find, to := range map[string]string{"hana <B>clinic</b>": "/partners/" + short, partner.ShortOf("other"): "/partners/" + partner.ShortOf("other")} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/partners?"+url.Values{"partner": {find}}.Encode(), nil)
		w := httptest.NewRecorder()
		if d.ServeHTTP(w, r); w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
			t.Errorf("%s: %d %s", find, w.Code, w.Header().Get("Location"))
		}
	}
	if body := d.shows("/partners?partner=secret-key<script>", 200, "12 to 64 lower-case hex digits"); strings.Contains(body, "<script>") {
		t.Error("what was searched for is markup")
	}
}

// With many partners the board has some of each stage, and a stage has pages.
func TestStageHasPages(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	for i := range 70 {
		d.seen(fmt.Sprint("key", i), 2*time.Hour)
	}
	if body := d.shows("/partners", 200, `href="/partners?stage=old">All 70 partners`); strings.Count(body, `<li class="panel">`) != 20 {
		t.Errorf("%d cards", strings.Count(body, `<li class="panel">`))
	}
	body := d.shows("/partners?stage=old", 200)
	_, rest, _ := strings.Cut(body, `class="button second" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	second := d.shows(strings.ReplaceAll(next, "&amp;", "&"), 200)
	if first, last := strings.Count(body, `<li class="panel">`), strings.Count(second, `<li class="panel">`); first != 60 || last != 10 || strings.Contains(second, "button second") {
		t.Errorf("pages of %d and %d", first, last)
	}
}

// A change is made only as the visitor has seen it, and against reasons only if the visitor says so. The audit log has the visitor's name.
func TestMoveIsConfirmed(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", time.Minute)
	at := "/partners/" + partner.ShortOf("hana")
	free := url.Values{"from": {"old"}, "to": {"shadow"}}
	d.shows(at+"/next", 200, "<code>old</code> → <code>shadow</code>", "Nothing blocks this change.", "Move to this stage")
	if d.stage("hana") != "old" {
		t.Fatal("a GET has changed the stage")
	}
	d.sends(at+"/next", free, http.StatusSeeOther, at+"?done=next")
	free.Set("force", "true")
	if body := d.sends(at+"/next", free, http.StatusConflict, ""); !strings.Contains(body, "the state is another than on the page before") || d.stage("hana") != "shadow" {
		t.Errorf("the same step again: %s %s", d.stage("hana"), body)
	}
	d.shows(at+"/next", 200, "<code>shadow</code> → <code>canary 10 %</code>", "the settling period is 1h", "wait until the settling period is over", `name="force" value="settling" required`, `name="force" value="verdict" required`)
	blocked := url.Values{"from": {"shadow"}, "to": {"canary 10 %"}}
	if body := d.sends(at+"/next", blocked, http.StatusConflict, ""); !strings.Contains(body, "Nothing was changed: there are reasons against it.") {
		t.Errorf("against reasons: %s", body)
	}
	if got := d.stage("hana"); got != "shadow" {
		t.Errorf("the stage is %s", got)
	}
	blocked["force"] = []string{"true", "settling"} // each reason must be confirmed
	if body := d.sends(at+"/next", blocked, http.StatusConflict, ""); !strings.Contains(body, "Nothing was changed: there are reasons against it.") {
		t.Errorf("against a reason that was not confirmed: %s", body)
	}
	blocked["force"] = []string{"settling", "verdict"}
	d.sends(at+"/next", blocked, http.StatusSeeOther, at+"?done=next")
	d.sends(at+"/set", url.Values{"stage": {"canary"}, "percent": {"5"}, "from": {"canary 10 %"}, "to": {"canary 5 %"}, "force": {"settling", "verdict"}}, http.StatusSeeOther, at+"?done=set")
	d.shows(at+"/set?stage=canary&percent=500", 200, "percent must be 0 to 100")
	d.shows(at+"/set?stage=new&percent=10", 200, "<code>canary 5 %</code> → <code>new</code>")
	d.sends(at+"/unset", url.Values{"from": {"canary 5 %"}, "to": {"old"}}, http.StatusSeeOther, at+"?done=unset")
	d.shows(at+"?done=unset", 200, "The partner follows the default stage.", "canary</code> 10 %", "forced", "anna")
	d.sends("/partners/default/set", url.Values{"stage": {"shadow"}, "from": {"old"}, "to": {"shadow"}}, http.StatusSeeOther, "/partners?done=set")
	if got := d.stage("nobody"); got != "shadow" {
		t.Errorf("the default is %s", got)
	}
	d.shows("/partners/"+partner.ShortOf("nobody"), 404, "no known partner")
}

// The kill switch is confirmed, ends, and is not turned on twice.
func TestKillSwitchIsConfirmed(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.shows("/partners/resume", 200, "the rollout is not stopped")
	d.shows("/partners/stop", 200, "Stop now", "Nothing blocks this change.")
	d.sends("/partners/stop", url.Values{}, http.StatusSeeOther, "/partners?done=stop")
	d.shows("/partners", 200, "The kill switch is on", "anna", `href="/partners/resume"`)
	if body := d.shows("/partners/stop", 200, "Already stopped:"); strings.Contains(body, "Stop now") {
		t.Error("the page stops what is stopped")
	}
	d.sends("/partners/stop", url.Values{}, 200, "")
	d.sends("/partners/resume", url.Values{}, http.StatusSeeOther, "/partners?done=resume")
	if body := d.shows("/partners", 200); strings.Contains(body, "The kill switch is on") {
		t.Error("the rollout is still stopped")
	}
}

// Without tokens the visitor gives a name, without which nothing is changed.
func TestChangeWithoutTokensNeedsAName(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.visitor = Visitor{MayOperate: true}
	d.shows("/partners/stop", 200, `name="by" required`)
	if body := d.sends("/partners/stop", url.Values{}, http.StatusConflict, ""); !strings.Contains(body, "by must") {
		t.Errorf("%s", body)
	}
	d.sends("/partners/stop", url.Values{"by": {" kim "}}, http.StatusSeeOther, "/partners?done=stop")
	d.shows("/partners", 200, "· kim")
}

// A visitor that may only read sees everything and has no button. TestChangesNeedAVisitorWhoMayOperate has the changes.
func TestReadVisitorHasNoButtons(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	d.visitor = Visitor{Name: "wall"}
	at := "/partners/" + partner.ShortOf("hana")
	for _, path := range []string{"/partners", at, at + "/next", at + "/set?stage=new", "/partners/stop"} {
		body := d.shows(path, 200)
		if strings.Contains(body, `method="post"`) || path == "/partners" && (strings.Contains(body, "/stop") || strings.Contains(body, "/next")) || path == at && strings.Contains(body, at+"/next") {
			t.Errorf("%s has a button", path)
		}
	}
}

// The kill switch can be found and used while the store is down.
func TestKillSwitchWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	d.shows("/partners", 500, "store: closed", `href="/partners/stop"`)
	if body := d.shows("/partners/stop", 200, "the store cannot be read", "Stop now"); strings.Contains(body, "Nothing blocks") {
		t.Error("the page says that nothing blocks the stop, which is not known")
	}
	if body := d.sends("/partners/stop", url.Values{}, 200, ""); !strings.Contains(body, "Stopped on this gateway only.") {
		t.Errorf("%s", body)
	}
}

// Every kind of reason has a text that says what to do about it, and every stage and change has its words.
func TestReasonsHaveTexts(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	// The pages do not begin a rollout and assign no bill.
	kinds := slices.DeleteFunc(slices.Clone(rollout.ReasonKinds), func(k rollout.ReasonKind) bool { return k == rollout.AtNew || k == rollout.NotAtBoth })
	for _, kind := range kinds {
		if all["reason.clear."+string(kind)] == nil {
			t.Errorf("no text for reasons of kind %s", kind)
		}
	}
	for key := range all {
		if kind, ok := strings.CutPrefix(key, "reason.clear."); ok && !slices.Contains(kinds, rollout.ReasonKind(kind)) {
			t.Errorf("a text for reasons of kind %s, which does not exist", kind)
		}
	}
}
