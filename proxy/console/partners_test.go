package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/evidence"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/pages"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"
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
	router, err := routing.New(t.Context(), c, routing.Options{Store: s})
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

// prove gives the reads of a partner a PASS.
func (d *rolloutDesk) prove(key string) {
	for i := range 100 {
		d.Operator.Rollout.Counts().Add(partner.Of(key), "bill.read", evidence.Comparison{Class: evidence.Same, Bill: fmt.Sprint(i), Succeeded: [2]bool{true, true}, States: true, Paid: i < 5})
	}
}

// The page of a partner shows the codes at both backends, and the calls that the new one cannot carry.
func TestPageOfAPartnerShowsItsCalls(t *testing.T) {
	t.Parallel()
	d := newRolloutDesk(t)
	d.seen("hana", 2*time.Hour)
	for range 3 {
		d.Operator.Rollout.Counts().Ended(partner.Of("hana"), "bill.create", evidence.Old, evidence.End{
			Code: "0000", Succeeded: true, Creates: true, Unsupported: [2]string{"", "VALIDATION_001 bill.tax"},
		})
	}
	d.Operator.Rollout.Counts().Ended(partner.Of("hana"), "bill.create", evidence.New, evidence.End{Code: "BILL_001"})
	d.shows("/partners/"+partner.ShortOf("hana"), 200, "bill.create: VALIDATION_001 bill.tax (3, ",
		`<code>0000</code></td><td data-label="Old backend" class="n">3</td>`, `<code>BILL_001</code></td><td data-label="Old backend" class="n">0</td>`)
}

// With a rollout the name of a partner is a link to its page; the links of a page that is refreshed have ids, so that the focus stays.
func TestNameOfAPartnerIsALink(t *testing.T) {
	t.Parallel()
	d, short := newRolloutDesk(t), partner.ShortOf("hana")
	d.Finished(&proxy.Finished{Subject: proxy.Subject{Partner: partner.ID(short), Operation: "bill.read"}, Succeeded: true})
	link := `<a class="partner" href="/partners/` + short + `"`
	body := d.shows("/calls", 200, link+` id="partner-`)
	_, rest, _ := strings.Cut(body, `href="/calls/`)
	key, _, _ := strings.Cut(rest, `"`)
	d.shows("/calls/"+key, 200, link, `href="/calls?partner=`+short+`"`)
	without := newConsole(t, Options{})
	without.Finished(&proxy.Finished{Subject: proxy.Subject{Partner: partner.ID(short), Operation: "bill.read"}, Succeeded: true})
	if _, body := get(t, without, "/calls", ""); strings.Contains(body, "/partners") || !strings.Contains(body, `<span class="partner">`) {
		t.Errorf("without a rollout there is a link to the page of a partner: %s", body)
	}
}

// Every kind of reason has a text that says what to do about it, and every stage and change has its words.
func TestReasonsHaveTexts(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	must(t, err)
	// The pages do not begin a rollout and assign no bill.
	kinds := slices.DeleteFunc(slices.Clone(moves.ReasonKinds), func(k moves.ReasonKind) bool { return k == moves.AtNew || k == moves.NotAtBoth })
	for _, kind := range kinds {
		if all.Texts["reason.clear."+string(kind)] == nil {
			t.Errorf("no text for reasons of kind %s", kind)
		}
		against := kind != moves.FromStore && kind != moves.Newer // a move
		if against && all.Texts["reason.short."+string(kind)] == nil {
			t.Errorf("no short text for reasons of kind %s", kind)
		}
	}
	for key := range all.Texts {
		if kind, ok := strings.CutPrefix(key, "reason.clear."); ok && !slices.Contains(kinds, moves.ReasonKind(kind)) {
			t.Errorf("a text for reasons of kind %s, which does not exist", kind)
		}
	}
}
