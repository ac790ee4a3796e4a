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

	"billbridge/proxy/evidence"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
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
		return strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), text)
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
