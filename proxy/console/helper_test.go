package console

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/proxytest"
)

// testConfig is the config of a gateway with two upstreams.
const testConfig = `
upstreams:
  old: {form: legacy, url: "http://127.0.0.1:1"}
  new: {form: v2, url: "http://127.0.0.1:2"}
route: {default: old}
`

func configOf(c *config.Config) func() *config.Config { return func() *config.Config { return c } }

// newConsole returns a console with these options. If they have no config, it is testConfig.
func newConsole(t *testing.T, o Options) *Console {
	t.Helper()
	if o.Config == nil {
		o.Config = configOf(proxytest.Config(t, testConfig))
	}
	if o.Gateway == nil {
		o.Gateway = stubGateway{config: o.Config()}
	}
	c, err := New(o)
	must(t, err)
	return c
}

// A stubGateway has the upstreams of a config. The first one has a status, those of the others are closed breakers.
type stubGateway struct {
	config *config.Config
	first  proxy.UpstreamStatus
}

func (g stubGateway) Upstreams() (list []proxy.UpstreamStatus) {
	status := g.first
	for i := range g.config.Upstreams {
		status.Upstream, status.Breaker = &g.config.Upstreams[i], cmp.Or(status.Breaker, "closed")
		list, status = append(list, status), proxy.UpstreamStatus{}
	}
	return list
}

// get requests a page, in a language of languages or "" for the default.
func get(t *testing.T, h http.Handler, target, language string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	r.Header.Set("Accept-Language", language)
	return do(h, r)
}

// post sends a form.
func post(t *testing.T, h http.Handler, target, form string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return do(h, r)
}

func do(h http.Handler, r *http.Request) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

var (
	must, works = proxytest.Must, proxytest.Works
	has, lacks  = proxytest.Has, proxytest.Lacks
	gives       = proxytest.Gives
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
