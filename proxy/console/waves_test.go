package console

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

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
	_, preview := post(t, d, "/waves/new", url.Values{"name": {"autumn"}, "partners": {list}}.Encode())
	gives(t, http.StatusSeeOther)(post(t, d, "/waves/new", hidden(preview).Encode()))
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
