package console

import (
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

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A rolloutDesk is a console in front of a rollout. Its visitor may operate, and has a name.
type rolloutDesk struct {
	*Console
	t       testing.TB
	store   *store.Store
	visitor pages.Visitor
}

func newRolloutDesk(t testing.TB) *rolloutDesk {
	t.Helper()
	return newRolloutDeskWith(t, "shared")
}

func newRolloutDeskWith(t testing.TB, bills config.Bills) *rolloutDesk {
	t.Helper()
	s := proxytest.Open(t, "memory:")
	c := proxytest.Config(t, testConfig+"store: {url: 'sqlite:unused.db'}\nrollout: {old: old, new: new, bills: "+string(bills)+", settle: 1h}\npartners: {"+partner.ShortOf("hana")+": {name: Hana <b>Clinic</b>}}\n")
	router, err := rollout.New(t.Context(), c, rollout.Options{Store: s})
	must(t, err)
	operator := operate.New(operate.Options{Config: configOf(c), Store: s, Rollout: router})
	console, err := New(Options{Config: configOf(c), Operator: operator})
	must(t, err)
	return &rolloutDesk{console, t, s, pages.Visitor{Name: "anna", MayOperate: true}}
}

func (d *rolloutDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.Console.ServeHTTP(w, r.WithContext(pages.WithVisitor(r.Context(), d.visitor)))
}

// seen records that a partner was first seen some time ago.
func (d *rolloutDesk) seen(key string, ago time.Duration) {
	d.t.Helper()
	must(d.t, d.store.Seen(d.t.Context(), partner.Of(key), time.Now().Add(-ago)))
}

// stage is the stage of a partner.
func (d *rolloutDesk) stage(key string) string {
	d.t.Helper()
	status, err := d.Operator.Status(d.t.Context(), operate.Page{PartnerRef: operate.PartnerRef{Partner: string(partner.Of(key))}})
	must(d.t, err)
	return status.Partners[0].String()
}

// shows expects a status and texts of a page.
func (d *rolloutDesk) shows(target string, status int, texts ...string) (body string) {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, target, nil)
	got, body := do(d, r)
	for _, text := range texts {
		has(d.t, body, text, target)
	}
	equal(d.t, got, status, target)
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
	body := d.shows("/partners", 200, "Hana &lt;b&gt;Clinic&lt;/b&gt;", short, partner.ShortOf("other"), `href="/partners/`+short+`/next"`, `settling until <time`, `href="/partners/stop"`)
	if strings.Contains(body, "<b>") || strings.Contains(body, string(partner.Of("hana"))[:13]) {
		t.Error("the board has markup of a name, or more than 12 digits")
	}
	for _, stage := range rollout.Stages {
		has(t, body, `id="stage-`+string(stage)+`"`, stage)
	}
	for _, target := range []string{"/partners", "/partners/default/set", "/waves/new"} {
		lacks(t, newRolloutDeskWith(t, config.Separate).shows(target, 200), "shadow", target+" has the stage of shared bills")
	}
	lacks(t, d.shows("/partners?stage=shadow", 200, "All partners"), short, "the board shows a partner that the filter does not select")
	d.shows("/partners?stage=nonsense", 400, "stage must be one of")
	for find, to := range map[string]string{"hana <B>clinic</b>": "/partners/" + short, partner.ShortOf("other"): "/partners/" + partner.ShortOf("other")} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/partners?"+url.Values{"partner": {find}}.Encode(), nil)
		w := httptest.NewRecorder()
		if d.ServeHTTP(w, r); w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
			t.Errorf("%s: %d %s", find, w.Code, w.Header().Get("Location"))
		}
	}
	lacks(t, d.shows("/partners?partner=secret-key<script>", 200, "12 to 64 lower-case hex digits"), "<script>", "what was searched for is markup")
}

// Above 50 partners the page is a table that is sorted by each column and filtered, in pages of 100.
func TestManyPartnersAreATable(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	for i := range 50 {
		d.seen(fmt.Sprint("key", i), 2*time.Hour)
	}
	if body := d.shows("/partners", 200, `class="board"`); strings.Count(body, `<li class="panel">`) != 50 || strings.Contains(body, "<table") {
		t.Errorf("50 partners are %d cards", strings.Count(body, `<li class="panel">`))
	}
	d.seen("hana", time.Minute)
	body := d.shows("/partners", 200, `<th scope="col" aria-sort="ascending"><a href="/partners?sort=-name">`, `<a href="/partners?sort=-calls">`, "1 to 51 of 51 partners (51 in all)",
		`<th scope="row" data-label="Partner"><a class="partner" href="/partners/`+partner.ShortOf("hana")+`"><span class="partner-name">Hana &lt;b&gt;Clinic&lt;/b&gt;</span>`)
	if strings.Contains(body, `class="board"`) || strings.Count(body, `type="checkbox"`) != 51 {
		t.Errorf("51 partners have %d boxes, or are a board", strings.Count(body, `type="checkbox"`))
	}
	for _, key := range []string{"hana", "key7"} {
		d.sends("/partners/"+partner.ShortOf(key)+"/next", url.Values{"from": {"old"}, "to": {"shadow"}}, http.StatusSeeOther, "/partners/"+partner.ShortOf(key)+"?done=next")
	}
	waiting := d.shows("/partners?ready=false&sort=-name", 200, "1 to 2 of 2 partners (51 in all)", `aria-sort="descending"><a href="/partners?ready=false&amp;sort=name">`,
		"<summary>a PASS</summary>", "no read was compared yet in stage shadow", `<span class="tag warn">INCONCLUSIVE</span> for canary 10 %`, `<option value="false" selected>`)
	if first := strings.Index(waiting, partner.ShortOf("key7")); first < 0 || first > strings.Index(waiting, partner.ShortOf("hana")) {
		t.Error("the table is not sorted by name, the last first")
	}
	d.shows("/partners?verdict=PASS", 200, "No partner.", `<option selected>PASS</option>`)
	d.shows("/partners?sort=nonsense", 400, "sort must be one of", `href="/partners/stop"`)
	d.shows("/partners?after=x", 400, "after cannot be")
	for i := range 60 {
		d.seen(fmt.Sprint("more", i), 2*time.Hour)
	}
	d.shows("/partners?sort=-stage", 200, `href="/partners?after=100&amp;sort=-stage">Next page`, "1 to 100 of 111 partners")
	lacks(t, d.shows("/partners?after=100&sort=-stage", 200, "101 to 111 of 111 partners", `href="/partners?sort=stage"`), "Next page", "the last page has a next one")
	d.visitor = pages.Visitor{Name: "wall"}
	if body := d.shows("/partners", 200, "<table"); strings.Contains(body, "checkbox") || strings.Contains(body, "/partners/next") {
		t.Error("a visitor who may only read can choose partners")
	}
}

// prove gives the reads of a partner a PASS.
func (d *rolloutDesk) prove(key string) {
	for i := range 100 {
		d.Operator.Rollout.Counts().Add(partner.Of(key), "bill.read", evidence.Comparison{Class: evidence.Same, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, true}, States: true, Paid: i < 5})
	}
}

// A PASS says for which stage it is: that of reads allows canary, and says nothing about later stages.
func TestPassSaysForWhichStage(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	d.prove("hana")
	at, pass := "/partners/"+partner.ShortOf("hana"), `<span class="tag good">PASS</span>`
	for _, row := range []struct{ to, of, card, evidence string }{
		{"shadow", "old", "no verdict needed for shadow", pass + " for canary</span>"},
		{"canary 10 %", "shadow", pass + " for canary 10 %", pass + " for canary</span>"},
		{"canary 25 %", "canary 10 %", "no verdict needed for canary 25 %", pass + " for canary</span>"},
	} {
		d.shows("/partners", 200, row.card)
		d.shows(at, 200, row.card, row.evidence)
		d.sends(at+"/next", url.Values{"from": {row.of}, "to": {row.to}}, http.StatusSeeOther, at+"?done=next")
	}
	d.sends(at+"/set", url.Values{"stage": {"drained"}, "from": {"canary 25 %"}, "to": {"drained"}, "force": {"verdict"}}, http.StatusSeeOther, at+"?done=set")
	lacks(t, d.shows(at, 200, "This is the last stage."), at+"/next", "the last stage has a next one")
}

// The partners that were chosen are moved one stage each, as they were seen. One that changed meanwhile is not moved, nor is one that has a
// reason against it. The audit log has each change.
func TestChosenPartnersAreMoved(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	form := url.Values{}
	for _, key := range []string{"hana", "free", "blocked", "changed", "drained"} {
		d.seen(key, 2*time.Hour)
		form.Add("partner", partner.ShortOf(key))
	}
	set := func(key, from, to string) {
		t.Helper()
		at := "/partners/" + partner.ShortOf(key)
		d.sends(at+"/set", url.Values{"stage": {to}, "from": {from}, "to": {to}, "force": {"verdict"}}, http.StatusSeeOther, at+"?done=set")
	}
	set("blocked", "old", "shadow")
	set("drained", "old", "drained")
	preview := d.shows("/partners/next?"+form.Encode(), 200, "3 of 5 partners can be moved.", "Nothing blocks it.", "no read was compared yet in stage shadow",
		`href="/partners/`+partner.ShortOf("blocked")+`/next"`, "the stage is drained, which is the last one", "Move 3 partners", "<code>shadow</code> → <code>canary 10 %</code>")
	if d.stage("hana") != "old" {
		t.Fatal("a GET has changed a stage")
	}
	for _, field := range regexp.MustCompile(`name="(from|to)" value="([^"]*)"`).FindAllStringSubmatch(preview, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	set("changed", "old", "shadow")
	row := func(body, key string) string {
		_, rest, _ := strings.Cut(body, `href="/partners/`+partner.ShortOf(key)+`"`)
		text, _, _ := strings.Cut(rest, "</tr>")
		return text
	}
	shows := func(body string, want map[string]string) {
		t.Helper()
		for key, text := range want {
			if got := row(body, key); !strings.Contains(got, text) || strings.Contains(got, "not moved") == (text == ">moved<") {
				t.Errorf("%s: %s, want %s", key, got, text)
			}
		}
	}
	body := d.sends("/partners/next", form, 200, "")
	shows(body, map[string]string{
		"hana": ">moved<", "free": ">moved<", "blocked": "no read was compared yet", "changed": "The state has changed in the meantime.", "drained": "which is the last one",
	})
	if strings.Contains(row(body, "blocked"), "The state has changed in the meantime") || !strings.Contains(body, "2 of 5 partners were moved.") {
		t.Errorf("%s", body)
	}
	d.prove("blocked") // its reason is gone, but it was not seen without
	shows(d.sends("/partners/next", form, 200, ""), map[string]string{
		"hana": "The state has changed in the meantime.", "free": "The state has changed in the meantime", "blocked": "The state has changed in the meantime", "changed": "The state has changed in the meantime",
	})
	for key, stage := range map[string]string{"hana": "shadow", "free": "shadow", "blocked": "shadow", "changed": "shadow", "drained": "drained"} {
		equal(t, d.stage(key), stage, key)
	}
	log, err := d.Operator.Audit(t.Context(), operate.AuditPage{PartnerRef: operate.PartnerRef{Partner: partner.ShortOf("free")}})
	if err != nil || len(log) != 1 || log[0].By != "anna" || log[0].From != "" || log[0].To != "shadow" || log[0].Forced {
		t.Errorf("the audit log has %+v, %v", log, err)
	}
	d.shows("/partners/next", 200, "No partner was chosen.")
	lacks(t, d.shows("/partners/next?partner=secret-key", 400, "The form cannot be read."), "secret-key", "the page repeats what may be a key")
	form["from"], form["to"] = nil, nil
	shows(d.sends("/partners/next", form, 200, ""), map[string]string{"hana": "The state has changed in the meantime"})
	d.sends("/partners/next", url.Values{"partner": slices.Repeat([]string{partner.ShortOf("hana")}, 101)}, http.StatusBadRequest, "")
	d.visitor = pages.Visitor{Name: "wall"}
	d.sends("/partners/next", form, http.StatusForbidden, "")
	lacks(t, d.shows("/partners/next?partner="+partner.ShortOf("blocked"), 200, "Nothing blocks it."), `method="post"`, "a visitor who may only read can move partners")
}

// The page of a partner leads to its calls and bills.
func TestPartnerLeadsToItsCallsAndBills(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	short := partner.ShortOf("hana")
	body := d.shows("/partners/"+short, 200, `href="/calls?partner=`+short+`"`, `href="/bills?partner=`+short+`"`)
	lacks(t, body, "/deliveries", "a gateway without callbacks has a link to them")
}

// With a rollout the name of a partner is a link to its page; the links of a page that is refreshed have ids, so that the focus stays.
func TestNameOfAPartnerIsALink(t *testing.T) {
	t.Parallel()
	d, short := newRolloutDesk(t), partner.ShortOf("hana")
	d.Finished(&proxy.Finished{Partner: partner.ID(short), Operation: "bill.read", Succeeded: true})
	link := `<a class="partner" href="/partners/` + short + `"`
	body := d.shows("/calls", 200, link+` id="partner-`)
	_, rest, _ := strings.Cut(body, `href="/calls/`)
	key, _, _ := strings.Cut(rest, `"`)
	d.shows("/calls/"+key, 200, link, `href="/calls?partner=`+short+`"`)
	without := newConsole(t, Options{})
	without.Finished(&proxy.Finished{Partner: partner.ID(short), Operation: "bill.read", Succeeded: true})
	if _, body := get(t, without, "/calls", ""); strings.Contains(body, "/partners") || !strings.Contains(body, `<span class="partner">`) {
		t.Errorf("without a rollout there is a link to the page of a partner: %s", body)
	}
}

// A change is made only as the visitor has seen it, and against reasons only if the visitor says so. The audit log has the visitor's name.
func TestMoveIsConfirmed(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", time.Minute)
	d.prove("else")
	d.Operator.Rollout.Counts().Add(partner.Of("else"), "bill.read", evidence.Comparison{
		Class: evidence.Differs, Bill: "B", Succeeded: [2]bool{true, true}, Differences: []evidence.Difference{{Path: "apprPrice", Kind: evidence.InMoney}},
	})
	at := "/partners/" + partner.ShortOf("hana")
	free := url.Values{"from": {"old"}, "to": {"shadow"}}
	d.shows(at+"/next", 200, "<code>old</code> → <code>shadow</code>", "Nothing blocks this change.", "Move to this stage")
	if d.stage("hana") != "old" {
		t.Fatal("a GET has changed the stage")
	}
	d.sends(at+"/next", free, http.StatusSeeOther, at+"?done=next")
	free.Set("force", "true")
	if body := d.sends(at+"/next", free, http.StatusConflict, ""); !strings.Contains(body, "the state has changed in the meantime") || d.stage("hana") != "shadow" {
		t.Errorf("the same step again: %s %s", d.stage("hana"), body)
	}
	d.shows(at+"/next", 200, "<code>shadow</code> → <code>canary 10 %</code>", `name="force" value="money_elsewhere" required`, `name="force" value="verdict" required`)
	blocked := url.Values{"from": {"shadow"}, "to": {"canary 10 %"}}
	has(t, d.sends(at+"/next", blocked, http.StatusConflict, ""), "Nothing was changed: there are reasons against it.", "against reasons")
	equal(t, d.stage("hana"), "shadow", "the stage")
	blocked["force"] = []string{"true", "money_elsewhere"} // each reason must be confirmed
	has(t, d.sends(at+"/next", blocked, http.StatusConflict, ""), "Nothing was changed: there are reasons against it.", "against a reason that was not confirmed")
	blocked["force"] = []string{"money_elsewhere", "verdict"}
	d.sends(at+"/next", blocked, http.StatusSeeOther, at+"?done=next")
	d.sends(at+"/set", url.Values{"stage": {"canary"}, "percent": {"5"}, "from": {"canary 10 %"}, "to": {"canary 5 %"}}, http.StatusSeeOther, at+"?done=set")
	d.shows(at+"/set?stage=canary&percent=500", 200, "percent must be 0 to 100")
	d.shows(at+"/set?stage=new&percent=10", 200, "<code>canary 5 %</code> → <code>new</code>")
	d.sends(at+"/unset", url.Values{"from": {"canary 5 %"}, "to": {"old"}}, http.StatusSeeOther, at+"?done=unset")
	d.shows(at+"?done=unset", 200, "The partner follows the default stage.", "canary</code> 10 %", "forced", "anna")
	d.sends("/partners/default/set", url.Values{"stage": {"shadow"}, "from": {"old"}, "to": {"shadow"}}, http.StatusSeeOther, "/partners?done=set")
	equal(t, d.stage("nobody"), "shadow", "the default")
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
	lacks(t, d.shows("/partners/stop", 200, "Already stopped:"), "Stop now", "the page stops what is stopped")
	d.sends("/partners/stop", url.Values{}, 200, "")
	d.sends("/partners/resume", url.Values{}, http.StatusSeeOther, "/partners?done=resume")
	lacks(t, d.shows("/partners", 200), "The kill switch is on", "the rollout is still stopped")
}

// Without tokens the visitor gives a name, without which nothing is changed.
func TestChangeWithoutTokensNeedsAName(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.visitor = pages.Visitor{MayOperate: true}
	d.shows("/partners/stop", 200, `name="by" required`)
	has(t, d.sends("/partners/stop", url.Values{}, http.StatusConflict, ""), "by must")
	d.sends("/partners/stop", url.Values{"by": {" kim "}}, http.StatusSeeOther, "/partners?done=stop")
	d.shows("/partners", 200, "· kim")
}

// A visitor that may only read sees everything and has no button. TestChangesNeedAVisitorWhoMayOperate has the changes.
func TestReadVisitorHasNoButtons(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	d.visitor = pages.Visitor{Name: "wall"}
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
	must(t, d.store.Close())
	d.shows("/partners", 500, "store: closed", `href="/partners/stop"`)
	lacks(t, d.shows("/partners/stop", 200, "the store cannot be read", "Stop now"), "Nothing blocks", "the page says that nothing blocks the stop, which is not known")
	has(t, d.sends("/partners/stop", url.Values{}, 200, ""), "Stopped on this gateway only.")
}

// Every kind of reason has a text that says what to do about it, and every stage and change has its words.
func TestReasonsHaveTexts(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	must(t, err)
	// The pages do not begin a rollout and assign no bill.
	kinds := slices.DeleteFunc(slices.Clone(rollout.ReasonKinds), func(k rollout.ReasonKind) bool { return k == rollout.AtNew || k == rollout.NotAtBoth })
	for _, kind := range kinds {
		if all.Texts["reason.clear."+string(kind)] == nil {
			t.Errorf("no text for reasons of kind %s", kind)
		}
		against := kind != rollout.FromStore && kind != rollout.Newer // a move
		if against && all.Texts["reason.short."+string(kind)] == nil {
			t.Errorf("no short text for reasons of kind %s", kind)
		}
	}
	for key := range all.Texts {
		if kind, ok := strings.CutPrefix(key, "reason.clear."); ok && !slices.Contains(kinds, rollout.ReasonKind(kind)) {
			t.Errorf("a text for reasons of kind %s, which does not exist", kind)
		}
	}
}
