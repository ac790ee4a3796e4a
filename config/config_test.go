package config_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(text)}, lookup)
	must(t, err)
	if err := inEditor(configSchema(t), []byte(text)); err != nil {
		t.Errorf("the schema refuses a config that Parse accepts: %v", err)
	}
	return c
}

const oneUpstream = "upstreams: {new: {form: v2, url: https://new.example.com}}\n"

// folder returns a new folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		proxytest.WriteFile(t, path, text)
	}
	return dir
}

// The example of the contract is accepted. It has own|always-200 as the value of failures.status, which is replaced by each of them.
func TestContractExample(t *testing.T) {
	t.Parallel()
	text := proxytest.ReadFile(t, "testdata/good/contract.yaml")
	for _, status := range []config.Status{config.Own, config.Always200} {
		dir := folder(t, map[string]string{
			"billbridge.yaml": strings.Replace(string(text), "own|always-200", string(status), 1),
			"billing.yaml":    string(billing.Table().Data),
			"mine.yaml":       "bounds: enforce\n",
		})
		c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), lookup)
		must(t, err)
		if overlaid, err := c.Table.YAML(); err != nil || !strings.Contains(string(overlaid), "bounds: enforce") {
			t.Errorf("the overlay is not in the table: %v", err)
		}
	}
}

func wantUpstreams(t *testing.T, upstreams config.Upstreams, want ...string) {
	t.Helper()
	var got []string
	for _, u := range upstreams {
		got = append(got, strings.Join([]string{u.Name, string(u.Form), u.Address.String(), u.Timeout.String(), strconv.Itoa(u.Connections)}, " "))
	}
	equal(t, cmp.Diff(want, got), "")
}

// A section with one key keeps the defaults of its other keys.
func TestSectionKeepsTheOtherDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, oneUpstream+"limits: {body: 512KiB}\ndrain: {delay: 90s}\nfailures: {mask_hosts: false}\n")
	got := []any{c.Limits, c.Drain.Delay.String(), c.Timeouts, c.Failures}
	want := []any{config.Limits{Body: 512 << 10, Depth: 32, Reply: 4 << 20, Reads: 10, InFlight: 10_000, Partner: config.PartnerLimit{InFlight: 64, Burst: 1}, Connections: 10_000, AddressConnections: 1000, Memory: 256 << 20}, "1m30s", config.Timeouts{Header: 5 * time.Second, Body: 30 * time.Second, Write: 30 * time.Second, Idle: 2 * time.Minute}, config.Failures{Status: config.Own, Language: config.Korean}}
	equal(t, got, want)
}

// Upstreams keep the order of the file. It decides which upstream takes an operation that the default lacks.
func TestUpstreamsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c := parse(t, `
upstreams:
  zulu:  {form: v2,     url: https://zulu.example.com, timeout: 30s}
  alpha: {form: legacy, url: https://alpha.example.com/, timeout: 1500ms}
  m-i_6: {form: v2,     url: "http://127.0.0.1:8081/a/b//", connections: 8}
route: {default: alpha}
`)
	wantUpstreams(t, c.Upstreams,
		"zulu v2 https://zulu.example.com 30s 256", "alpha legacy https://alpha.example.com 1.5s 256", "m-i_6 v2 http://127.0.0.1:8081/a/b 40s 8")
	equal(t, c.Upstreams.LongestCall(), 42*time.Second)
	if u := c.Upstreams.Find("alpha"); u != &c.Upstreams[1] {
		t.Errorf("found %v", u)
	}
	if u := c.Upstreams.Find("Alpha"); u != nil {
		t.Errorf("found %v by an unknown name", u)
	}
}

// Origins are as browsers write them.
func TestOrigins(t *testing.T) {
	t.Parallel()
	c := parse(t, oneUpstream+"cors: [https://shop.example.com, 'http://127.0.0.1:3000', 'https://xn--s39aj90b0nb2xw6xh.kr:8443', 'http://[::1]:3000', http://localhost]\n")
	equal(t, c.CORS, []config.Origin{"https://shop.example.com", "http://127.0.0.1:3000", "https://xn--s39aj90b0nb2xw6xh.kr:8443", "http://[::1]:3000", "http://localhost"})
}

// The base path has no slash at its end.
func TestBasePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"/": "", "/partner": "/partner", "/partner/": "/partner", "/a/b": "/a/b", "//": ""} {
		equal(t, parse(t, oneUpstream+"base_path: "+text).BasePath, want, text)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{"1": 1, "4096": 4096, "512KiB": 512 << 10, "2MiB": 2 << 20, "1GiB": 1 << 30, "1 MiB": 1 << 20} {
		got := parse(t, oneUpstream+"limits: {body: "+text+"}\n").Limits.Body
		equal(t, got, want, text)
		equal(t, parse(t, oneUpstream+"limits: {body: "+got.String()+"}\n").Limits.Body, want, text, got)
	}
}

// A relative path starts at the folder of the config file, not at the working directory. An absolute path is not changed.
func TestPathsStartAtTheFolderOfTheConfig(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"tables/billing.yaml": string(billing.Table().Data),
		"secrets/token.txt":   "  a token from a file\n",
		"conf/billbridge.yaml": oneUpstream + "table: {file: ../tables/billing.yaml}\n" +
			"admin: {listen: 192.0.2.1:9090, token: \"${file:../secrets/token.txt}\"}\n" +
			"tls: {cert: cert.pem, key: ../secrets/key.pem}\n",
	})
	newPair(t, "one").write(t, filepath.Join(dir, "conf", "cert.pem"), filepath.Join(dir, "secrets", "key.pem"))
	c, err := config.Load(filepath.Join(dir, "conf", "billbridge.yaml"), lookup)
	must(t, err)
	got := []string{c.TableFiles.File, c.TableFiles.Overlay, c.Admin.Token.Reveal(), c.TLS.Cert, c.TLS.Key}
	want := []string{
		filepath.Join(dir, "tables", "billing.yaml"), "", "a token from a file",
		filepath.Join(dir, "conf", "cert.pem"), filepath.Join(dir, "secrets", "key.pem"),
	}
	equal(t, got, want)
	absolute := parse(t, oneUpstream+"table: {file: "+want[0]+"}\n")
	equal(t, absolute.TableFiles.File, want[0], "an absolute path")
}

// A token can be a value or a reference. On loopback it can be missing.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ admin, want string }{
		{`{listen: "[::1]:9090"}`, ""},
		{`{listen: "localhost:9090"}`, ""},
		{`{token: "${env:BILLBRIDGE_ADMIN_TOKEN}"}`, "a token of the tests"},
		{`{listen: ":9090", token: "${env:BILLBRIDGE_ADMIN_TOKEN}"}`, "a token of the tests"},
		{`{listen: "192.0.2.1:9090", token: a-token-spelled-out}`, "a-token-spelled-out"},
		{`{token: 1234567890}`, "1234567890"},
		{`{token: "costs $5 {or} more"}`, "costs $5 {or} more"},
	} {
		equal(t, parse(t, oneUpstream+"admin: "+c.admin+"\n").Admin.Token.Reveal(), c.want, c.admin)
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "localhost": true, "LocalHost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "192.0.2.1": false, "localhost.example.com": false, "127.0.0.1.example.com": false,
	} {
		equal(t, config.Loopback(host), want, host)
	}
}

// A table without an operation to read bills, or with two, is accepted if no bill is read.
func TestReadOperationIsNotNeeded(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"no-state", "second-reader"} {
		c := parse(t, oneUpstream+"table: {overlay: testdata/bad/files/"+overlay+".yaml}\n")
		if _, err := billing.ReadOperation(c.Table); err == nil {
			t.Errorf("%s: the table has exactly one operation to read bills", overlay)
		}
	}
}

// equal reports a value that is not the wanted one.
func equal[T any](t *testing.T, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}

var must = proxytest.Must
