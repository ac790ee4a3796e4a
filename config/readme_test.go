package config_test

import (
	"path/filepath"
	"testing"

	"billbridge/config"
	"billbridge/proxy/proxytest"

	"go.yaml.in/yaml/v4"
)

// fullConfig has every section, and in each what is required.
func fullConfig(t *testing.T) (file string, root map[string]any) {
	t.Helper()
	dir := t.TempDir()
	newPair(t, "gateway").write(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	const text = `
tls: {cert: cert.pem, key: key.pem}
admin: {tls: {cert: cert.pem, key: key.pem}}
upstreams:
  old: {form: legacy, url: https://old.example.com}
  new: {form: v2, url: https://new.example.com, tls: {client: {cert: cert.pem, key: key.pem}}}
route: {default: old}
store: {url: "sqlite:billbridge.db"}
callbacks: {public_url: https://bridge.example.com, reconcile: {}}
rollout: {old: old, new: new}
partners: {5f7b2ed74a97: {name: Hana Clinic}}
`
	must(t, yaml.Unmarshal([]byte(text), &root))
	return filepath.Join(dir, "billbridge.yaml"), root
}

// TestReadme: README.md has a row for each key, with the default and the way of a change that its field has in its tags.
func TestReadme(t *testing.T) {
	t.Parallel()
	want, lacking, unknown := config.Readme()
	if *update {
		proxytest.WriteFile(t, "README.md", want)
	}
	proxytest.Equal(t, string(proxytest.ReadFile(t, "README.md")), want)
	if len(lacking)+len(unknown) > 0 {
		t.Errorf("README.md has no row of %q, and rows of %q, which are no keys", lacking, unknown)
	}
}

// TestNeedsRestart: a reload is refused for a key with the tag restart, also in a section, and for such a section that is added.
func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *config.Config){
		"": func(c *config.Config) { c.Route.Pass = []string{"/x"} }, "listen": func(c *config.Config) { c.Listen = "127.0.0.1:1" },
		"admin.listen": func(c *config.Config) { c.Admin.Listen = "127.0.0.1:1" }, "tls": func(c *config.Config) { c.TLS = &config.KeyPair{} },
		"callbacks.listen": func(c *config.Config) { c.Callbacks = &config.Callbacks{Listen: "127.0.0.1:1"} },
	} {
		c, next := parse(t, oneUpstream), parse(t, oneUpstream)
		change(next)
		proxytest.Equal(t, c.NeedsRestart(next), want)
	}
}
