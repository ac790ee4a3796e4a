package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"billbridge/proxy/proxytest"

	"go.yaml.in/yaml/v4"
)

// everyKey is a config with every section. Its file names are those of a folder with a certificate.
const everyKey = `
partners: {cccccccccccc: {name: Nari Clinic}, 5f7b2ed74a97: {name: Hana Clinic, keys: [5f7b2ed74a9736a538a6fb5a5a1a76afdcdd0d177d7fc6e79c6b6843527d848d, 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae]}}
listen: 127.0.0.1:0
base_path: /partner
public_url: https://bridge.example.com
tls: {cert: front.crt, key: front.key}
admin: {listen: 127.0.0.1:0, token: a-token, tls: {cert: front.crt, key: front.key}, tokens: [{name: anna, token: a-token-of-anna, may: operate}]}
upstreams:
  new: {form: v2, url: https://new.example.com/partner, timeout: 10s, connections: 64, tls: {ca: ca.pem, client: {cert: front.crt, key: front.key}}}
  old: {form: legacy, url: https://old.example.com, timeout: 10s}
route: {default: new, pass: [/if/read/open, /cash-receipt/]}
cors: [https://shop.example.com]
limits: {body: 1MiB, depth: 32, reply: 4MiB, memory: 256MiB, trusted: [10.0.0.0/8], trusted_proxies: [10.9.0.1], partner: {in_flight: 64, rate: 0}}
drain: {delay: 0s}
ready: {store: required}
failures: {status: own, language: ko, mask_hosts: true}
log: {level: info}
store: {url: "sqlite:billbridge.db", failover: lossless, key: 1111111111111111111111111111111111111111111111111111111111111111}
callbacks: {public_url: https://bridge.example.com, listen: 127.0.0.1:0, success: documented, timeout: 15s, schedule: [0s, 5s], https_only: false, ports: [443], allow: [10.20.0.0/16], require_key: false, reconcile: {deliver: false}}
rollout: {old: old, new: new, bills: separate, default: old, settle: 15m, shadow: {ignore: [apprDt]}, verdict: {comparisons: 100, paid: 5, mismatch: 0.03}}
table: {file: billing.yaml, overlay: mine.yaml}
`

const pastedSecret = "s3cr3t-Tukan-0451-xyz"

// partOfSecret finds the secret, a part of it, and the secret in lower case.
var partOfSecret = regexp.MustCompile(`(?i)s3cr3|tukan|-0451`)

// wronglyPasted are the ways in which a secret gets to a place of the file, as YAML.
var wronglyPasted = []string{
	pastedSecret, `"` + pastedSecret + `"`, "!" + pastedSecret, "&" + pastedSecret, "*" + pastedSecret, "!!binary " + pastedSecret,
	"[" + pastedSecret + "]", "{" + pastedSecret + ": a}", "{token:" + pastedSecret + "}", "[a, !" + pastedSecret + " b]",
	`"https://user:` + pastedSecret + `@h.example.com/x"`, `"https://` + pastedSecret + `@h.example.com:99999"`, `"https://pass/` + pastedSecret + `@h.example.com?a"`,
	`"https://s3cr3t.tukan/0451@h.example.com?a"`,
	`"https://h.example.com/x?key=` + pastedSecret + `"`, `"https://h.example.com/x#` + pastedSecret + `"`, `"https://h.example.com/` + pastedSecret + `?a=b"`,
	`"postgres://user:` + pastedSecret + `@db.example.com/billbridge"`, `"postgres://db.example.com/x?password=` + pastedSecret + `"`,
	`"${env:` + pastedSecret + `}"`, `"${file:` + pastedSecret + `}"`, `"${` + pastedSecret + `}"`,
	`"` + pastedSecret + `@127.0.0.1:80"`, `"127.0.0.1:` + pastedSecret + `"`, `"sqlite:` + pastedSecret + `"`, `"10s ` + pastedSecret + `"`,
}

// scalars returns the keys and values of a tree.
func scalars(n *yaml.Node) (list []*yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		list = append(list, n)
	}
	for _, child := range n.Content {
		list = append(list, scalars(child)...)
	}
	return list
}

// folderOfEveryKey returns a folder with what everyKey names, and its nodes.
func folderOfEveryKey(t *testing.T) (string, *yaml.Node) {
	t.Helper()
	dir := folderWithCertificate(t)
	var table bytes.Buffer
	if run(t.Context(), []string{"map", "--format", "yaml"}, system{out: &table, err: &table, env: noEnvironment}) != exitOK {
		t.Fatal(table.String())
	}
	for name, data := range map[string]string{
		"billing.yaml": table.String(), "mine.yaml": "{}\n",
	} {
		proxytest.WriteFile(t, filepath.Join(dir, name), data)
	}
	root := new(yaml.Node)
	must(t, yaml.Load([]byte(everyKey), root))
	if code, out := checkConfig(t, filepath.Join(dir, "good.yaml"), everyKey); code != exitOK {
		t.Fatalf("the config of this test is invalid:\n%s", out)
	}
	return dir, root
}

// check and serve print no secret, wherever in a config it was put by mistake.
func TestR35_SecretInTheWrongPlaceIsNotPrinted(t *testing.T) {
	t.Parallel()
	dir, root := folderOfEveryKey(t)
	checkEveryKey(t, root)
	valid, invalid := 0, 0
	for i, n := range scalars(root) {
		original := *n
		const place = "PLACE-OF-THE-SECRET"
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: place}
		text, err := yaml.Dump(root)
		must(t, err)
		*n = original
		// What an error shows does not depend on the look of a value, so one for each key is enough.
		pasted := wronglyPasted[i%len(wronglyPasted)]
		file := filepath.Join(dir, fmt.Sprintf("config-%d.yaml", i))
		code, out := checkConfig(t, file, strings.Replace(string(text), place, pasted, 1))
		if code == exitOK {
			valid++
			out += serveOnce(t, file)
			_ = os.Remove(filepath.Join(dir, pastedSecret)) // a store: a file that exists has a name that is no secret
		} else {
			invalid++
		}
		if partOfSecret.MatchString(out) {
			t.Errorf("%s, which is at %q, is printed:\n%s", pasted, original.Value, out)
		}
	}
	if valid < 1 || invalid < 100 {
		t.Errorf("%d configs were valid and %d invalid: this test does not try what it should", valid, invalid)
	}
}

// A value that is empty, or that a variable or file does not yield, opens nothing: it is an error, but for the keys below.
func TestR42_EmptyValuesAreRefused(t *testing.T) {
	t.Parallel()
	dir, root := folderOfEveryKey(t)
	proxytest.WriteFile(t, filepath.Join(dir, "empty"), "\n")
	harmless := map[string]bool{}
	for _, hash := range []string{"cccccccccccc", "5f7b2ed74a97"} { // a name is any text; it is shown as it is
		harmless["partners."+hash+".name ${env:BILLBRIDGE_NOT_SET}"] = true
		harmless["partners."+hash+".name ${file:empty}"] = true
	}
	file, seen := filepath.Join(dir, "config.yaml"), 0
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		for i := 1; i < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			walk(strings.TrimPrefix(path+"."+n.Content[i-1].Value, "."), n.Content[i])
		}
		for i := 0; i < len(n.Content) && n.Kind != yaml.MappingNode; i++ {
			walk(strings.TrimSuffix(path, "[]")+"[]", n.Content[i])
		}
		if n.Kind != yaml.ScalarNode {
			return
		}
		original := *n
		seen++
		// A variable and a file are read in one place, so one of them for each value is enough.
		for _, value := range []string{"", []string{"${env:BILLBRIDGE_NOT_SET}", "${file:empty}"}[seen%2]} {
			*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
			text, err := yaml.Dump(root)
			must(t, err)
			if code, _ := checkConfig(t, file, string(text)); (code == exitOK) != harmless[path+" "+value] {
				t.Errorf("%s: %q: exit code %d", path, value, code)
			}
		}
		*n = original
	}
	walk("", root.Content[0])
}

// checkEveryKey checks that a config has every key that config/README.md documents.
func checkEveryKey(t *testing.T, root *yaml.Node) {
	t.Helper()
	text := proxytest.ReadFile(t, filepath.Join(module, "config", "README.md"))
	keys := regexp.MustCompile("(?m)^\\| `([A-Za-z_.]+)`").FindAllStringSubmatch(string(text), -1)
	if len(keys) < 60 {
		t.Errorf("config/README.md has only %d keys", len(keys))
	}
	for _, key := range keys {
		at := root.Content[0]
		for part := range strings.SplitSeq(strings.NewReplacer("NAME", "new", "HASH", "5f7b2ed74a97").Replace(key[1]), ".") {
			i := slices.IndexFunc(at.Content, func(n *yaml.Node) bool { return n.Value == part })
			if i < 0 || i%2 != 0 {
				t.Errorf("the config of this test has no %s", key[1])
				break
			}
			at = at.Content[i+1]
		}
	}
}

func noEnvironment(string) (string, bool) { return "", false }

// checkConfig runs check for the text of a config, and returns the exit code and the output.
func checkConfig(t *testing.T, file, text string) (int, string) {
	t.Helper()
	proxytest.WriteFile(t, file, text)
	var out bytes.Buffer
	code := run(t.Context(), []string{"check", "--offline", "--config", file}, system{out: &out, err: &out, env: noEnvironment})
	return code, out.String()
}

// serveOnce starts a gateway, stops it when it serves, and returns its output.
func serveOnce(t *testing.T, file string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stopWhenServing{stop: stop}
	run(ctx, []string{"serve", "--config", file}, system{out: out, err: out, env: noEnvironment})
	return out.text.String()
}

// stopWhenServing is the output of a gateway. It is safe for concurrent use.
type stopWhenServing struct {
	stop context.CancelFunc
	mu   sync.Mutex
	text strings.Builder
}

func (w *stopWhenServing) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.Write(p); strings.Contains(w.text.String(), "Listening for partners") {
		w.stop()
	}
	return len(p), nil
}

// check warns if the claim that a standby is synchronous is not true now. It does not refuse it: for some seconds after a fail-over it is not.
func TestCheckWarnsAboutALosslessStoreWithoutAStandby(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "billbridge.yaml")
	text := fmt.Sprintf("upstreams: {up: {form: v2, url: \"http://127.0.0.1:9\"}}\nstore: {url: %q, failover: lossless}\n", proxytest.Postgres(t))
	proxytest.WriteFile(t, file, text)
	code, out, errs := runCommand(t, false, "check", "--config", file)
	equal(t, code, exitOK, out, errs)
	has(t, out+errs, "warning: store.failover is lossless, but PostgreSQL does not wait for a standby now")
}
