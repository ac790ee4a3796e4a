package config_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate/billing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const withCallbacks = oneUpstream + "store: {url: sqlite:billbridge.db}\ncallbacks: {public_url: https://bridge.example.com/from-upstreams/"

// TestStoreKeysAreReadInEitherForm: hex, base64, and from a file with a newline at its end.
func TestStoreKeysAreReadInEitherForm(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte{7}, 32)
	inHex, in64 := hex.EncodeToString(want), base64.StdEncoding.EncodeToString(want)
	file := filepath.Join(t.TempDir(), "store.key")
	proxytest.WriteFile(t, file, inHex+"\n")
	for _, text := range []string{"'${file:" + file + "}'", inHex, in64} {
		c := parse(t, oneUpstream+"store: {url: sqlite:store.db, key: "+text+"}\n")
		equal(t, cmp.Diff(want, c.Store.KeyBytes()), "")
		equal(t, parse(t, oneUpstream+"store: {url: sqlite:store.db, key: "+strings.Repeat("11", 32)+"}\n").NeedsRestart(c), "store.key")
	}
	if key := parse(t, oneUpstream).Store.KeyBytes(); key != nil {
		t.Errorf("without a key: %v", key)
	}
}

func TestCallbackKeys(t *testing.T) {
	t.Parallel()
	c := parse(t, withCallbacks+`, listen: "127.0.0.1:8090", success: any-2xx, timeout: 45s, schedule: [0s, 90s],
  https_only: true, ports: [], allow: [10.1.0.0/16, "fd00::/8"], require_key: true,
}`)
	got := *c.Callbacks
	want := config.Callbacks{
		Listen: "127.0.0.1:8090", Success: config.Any2xx, Timeout: config.Duration(45 * time.Second),
		Schedule: []config.DurationOrZero{0, config.DurationOrZero(90 * time.Second)}, Attempts: config.Attempts{Jitter: 0.1, AtOnce: 256, PerHost: 4}, HTTPSOnly: true, Ports: []int{},
		Allow:  []config.Network{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}, {Prefix: netip.MustParsePrefix("fd00::/8")}},
		Window: 25 * time.Hour, Retention: 9600 * time.Hour, KeepBodies: 168 * time.Hour, RequireKey: true,
	}
	same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	sameIP := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	equal(t, cmp.Diff(want, got, cmpopts.IgnoreFields(config.Callbacks{}, "PublicURL"), same, sameIP), "")
}

// The path of an SQLite file is relative to the folder of the config, and the URL of the store may be a secret.
func TestStoreURL(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"conf/billbridge.yaml": oneUpstream + "store: {url: sqlite:../data/billbridge.db}\n",
		"conf/secret.yaml":     oneUpstream + "store: {url: \"${file:url.txt}\"}\n",
		"conf/url.txt":         "postgres://bridge:word@db.example.com/bridge\n",
		"data/other":           "",
	})
	for file, want := range map[string]string{
		"billbridge.yaml": "sqlite:" + filepath.Join(dir, "data", "billbridge.db"),
		"secret.yaml":     "postgres://bridge:word@db.example.com/bridge",
	} {
		c, err := config.Load(filepath.Join(dir, "conf", file), lookup)
		must(t, err)
		equal(t, c.Store.URL.Reveal(), want, file)
		if c.Store.Position.Line != 2 || c.Store.Position.File != filepath.Join(dir, "conf", file) {
			t.Errorf("%s: the position is %v", file, c.Store.Position)
		}
	}
}

// With a store the table needs a callback, even if the config has no callbacks: the store may hold some.
func TestStoreNeedsACallbackInTheTable(t *testing.T) {
	t.Parallel()
	table, callbacks, found := strings.Cut(string(billing.Table().Data), "\ncallbacks:\n")
	_, rest, ends := strings.Cut(callbacks, "\n\n")
	if table += "\n" + rest; !found || !ends {
		t.Fatal("the table has no callbacks section that the test could remove")
	}
	dir := folder(t, map[string]string{"billing.yaml": table, "config.yaml": oneUpstream + "table: {file: billing.yaml}\nstore: {url: sqlite:s.db}\n"})
	_, err := config.Load(filepath.Join(dir, "config.yaml"), os.LookupEnv)
	if err == nil || !strings.Contains(err.Error(), "config.yaml:3:8: store: the table has no callback") {
		t.Errorf("got %v", err)
	}
}
