package console

import (
	"errors"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
)

const fullConfig = `
base_path: /partner
admin:
  token: secret-canary-1
  tokens: [{name: anna, token: secret-canary-2, may: operate}, {name: wall, token: secret-canary-3, may: read}]
upstreams:
  old: {form: legacy, url: "http://127.0.0.1:1/base"}
  new: {form: v2, url: "http://127.0.0.1:2"}
route: {default: old, pass: [/if/read/open, /cash-receipt/]}
limits: {trusted: [10.0.0.0/8]}
store: {url: "postgres://user:secret-canary-4@db.example.com/b", key: "` + "0000000000000000000000000000000000000000000000000000000000000451" + `"}
rollout: {old: old, new: new}
callbacks: {public_url: "https://bridge.example.com", allow: [10.20.0.0/16]}
partners:
  5f7b2ed74a97: {name: Hana Clinic}
`

// The page has every key of config/README.md that has a value without a section of its own, and no secret.
func TestConfigShowsEveryValueAndNoSecret(t *testing.T) {
	t.Parallel()
	c := proxytest.Config(t, fullConfig)
	_, body := get(t, newConsole(t, Options{Config: func() *config.Config { return c }}), "/config", "")
	shown := map[string]string{}
	for _, m := range regexp.MustCompile(`<dt><code>([^<]*)</code></dt><dd>(.*?)</dd>`).FindAllStringSubmatch(body, -1) {
		shown[m[1]] = m[2]
	}
	for key, want := range map[string]string{
		"base_path": "<code>/partner</code>", "admin.token": `<span class="tag">secret</span>`, "admin.tokens[0].name": "<code>anna</code>",
		"admin.tokens[1].token": `<span class="tag">secret</span>`, "admin.tokens[1].may": "<code>read</code>", "store.url": `<span class="tag">secret</span>`,
		"upstreams.old.url": "<code>http://127.0.0.1:1/base</code>",
		"rollout.settle":    "<code>15m</code>", "limits.body": "<code>1MiB</code>", "callbacks.allow": "<code>[10.20.0.0/16]</code>",
		"callbacks.schedule": "<code>[0s, 5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h, 24h]</code>", "route.pass": "<code>[/if/read/open, /cash-receipt/]</code>",
		"partners.5f7b2ed74a97": "<code>Hana Clinic</code>", "tls": `<span class="soft">not set</span>`, "rollout.verdict.paid": "<code>5</code>",
		"drain.delay": "<code>2s</code>",
	} {
		equal(t, shown[key], want, key)
	}
	readme := proxytest.ReadFile(t, "../../config/README.md")
	rows := 0
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(string(readme), -1) {
		rows++
		key, parent := m[1], m[1][:max(strings.LastIndex(m[1], "."), 0)]
		found := shown[key] != "" || shown[parent] != "" // a section that is not set
		for one := range shown {
			found = found || strings.HasPrefix(one, key+".") || strings.HasPrefix(one, key+"[")
		}
		if !found {
			t.Errorf("%s is not shown", key)
		}
	}
	if rows < 50 {
		t.Errorf("%d keys in the README: too few were found", rows)
	}
	for _, secret := range []string{"canary", "0451", "user", "db.example.com"} {
		lacks(t, body, secret, "the page")
	}
}

// A secret looks the same whatever it is: the page does not show its length.
func TestConfigDoesNotShowTheLengthOfASecret(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, token := range []string{"short", strings.Repeat("a long token ", 20)} {
		c := proxytest.Config(t, testConfig+"admin: {token: \""+token+"\"}\n")
		_, body := get(t, newConsole(t, Options{Config: func() *config.Config { return c }, Now: func() time.Time { return time.Unix(0, 0) }}), "/config", "")
		pages = append(pages, body)
	}
	if pages[0] != pages[1] || !strings.Contains(pages[0], `<span class="tag">secret</span>`) {
		t.Error("the pages differ, or show no secret")
	}
}

// A reload that fails is shown with the place of each mistake, until one succeeds. The result of a reload by signal is shown, too.
func TestConfigShowsTheLastReload(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var result error
	var c *Console
	c = newConsole(t, Options{Now: func() time.Time { return now }, Reload: func(string) error {
		c.Reloaded(result)
		return result
	}})
	page := func() string {
		_, body := get(t, c, "/config", "")
		return body
	}
	if body := page(); !strings.Contains(body, "2026-11-21T") || strings.Contains(body, `class="problem"`) {
		t.Errorf("after the start:\n%s", body)
	}
	result = translate.Problems{{File: "billbridge.yaml", Line: 7, Column: 3, Text: "unknown key " + hostile}, {File: "overlay.yaml", Line: 1, Column: 2, Text: "second"}}
	for _, body := range []string{second(post(t, c, "/config/reload", "")), page()} {
		if !strings.Contains(body, "<code>billbridge.yaml:7:3</code> unknown key &#34;") || !strings.Contains(body, "<code>overlay.yaml:1:2</code> second") || strings.Contains(body, "<script>alert") {
			t.Errorf("after a reload that failed:\n%s", body)
		}
	}
	c.Reloaded(errors.New("listen has changed: restart to change it"))
	has(t, page(), "restart to change it", "after a reload by signal that failed")
	result = nil
	gives(t, http.StatusSeeOther, "a reload")(post(t, c, "/config/reload", ""))
	if body := second(get(t, c, "/config?done=reload", "")); !strings.Contains(body, `class="success"`) || strings.Contains(body, `class="problem"`) {
		t.Errorf("after a reload:\n%s", body)
	}
	c.Reload = nil
	lacks(t, page(), `action="/config/reload"`, "there is a button although the config cannot be read again")
	gives(t, http.StatusNotFound, "a reload that is not possible")(post(t, c, "/config/reload", ""))
}

func second[A, B any](_ A, b B) B { return b }

// Every key of the config is shown once.
func TestConfigKeysAreShownOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range configSections(proxytest.Config(t, fullConfig)) {
		for _, k := range s.Keys {
			if seen[k.Key] {
				t.Errorf("%s is shown twice", k.Key)
			}
			seen[k.Key] = true
		}
	}
	if len(seen) < reflect.TypeFor[config.Config]().NumField() {
		t.Errorf("%d keys", len(seen))
	}
}
