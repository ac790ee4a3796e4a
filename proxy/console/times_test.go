package console

import (
	"strings"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/upstream"
)

// Without scripts, times are shown and read in the zone of the process. A name of a partner stays text.
func TestTimesAreInTheZoneOfTheProcess(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 0, 30, 0, 0, time.UTC)
	const seoul = `<time datetime="2026-11-22T00:30:00Z" title="2026-11-22T09:30:00+09:00">`
	config := proxytest.Config(t, testConfig)
	c := newConsole(t, Options{
		Config: configOf(config), Gateway: stubGateway{config, proxy.UpstreamStatus{Health: upstream.Health{Outage: &upstream.Outage{Since: at}}}},
	})
	c.zone = time.FixedZone("Asia/Seoul", 9*3600)
	f := finished("one")
	f.At = at
	c.Finished(f)
	for query, want := range map[string]bool{
		"": true, "?from=2026-11-22T09:30": true, "?from=2026-11-22T09:31": false, "?from=2026-11-22T00:31:00.000Z": false,
		"?to=2026-11-22T00:30:00.000Z": true, "?to=2026-11-22T09:29": false,
	} {
		if _, body := get(t, c, "/calls"+query, ""); strings.Contains(body, seoul) != want {
			t.Errorf("%s shows the call: %t", query, !want)
		}
	}
	_, body := get(t, c, "/calls?to=2026-11-22T00:30:00.000Z", "")
	has(t, body, `value="2026-11-22T09:30:00" data-at="2026-11-22T09:30:00&#43;09:00" type="datetime-local"`)
	for _, language := range pages.Languages {
		if _, body := get(t, c, "/", language); !strings.Contains(body, seoul) {
			t.Errorf("the breaker has no time in %s: %s", language, attentionsOn(body))
		}
	}
	text, err := c.t("en", "overview.stopped_here", "<b>")
	must(t, err)
	has(t, string(text), "&lt;b&gt;")
}
