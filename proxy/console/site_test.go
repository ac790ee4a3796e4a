package console_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/server"
)

// patience bounds every wait on a slow machine.
const patience = 2 * time.Minute

// The partners of a site, and their names in the config. The second one refuses its callbacks.
const (
	clinicKey, clinicName   = "demo-partner-key", "Hana Clinic"
	academyKey, academyName = "academy-key-0001", "한빛학원"
)

// What calls, replies and callbacks of a site have, and no page may show.
const (
	customerPhone = "01012345678"
	customerName  = "홍길동"
	callbackToken = "canary/token+18"
	phoneAsBill   = "01044448217"
)

// A site is a gateway as it runs in a process, with a rollout, callbacks, a store and a sandbox as both backends.
type site struct {
	t        testing.TB
	service  *sandbox.Service
	server   *server.Server
	admin    string // the address of the console
	partners string // the address for partners
	receiver string // the address for callbacks
	client   *http.Client
	stop     func() // waits for the end
}

// startSite starts a site. admin are further keys of the section admin, more are further sections.
func startSite(t testing.TB, admin string, more ...string) *site {
	t.Helper()
	s := &site{t: t, client: &http.Client{Timeout: patience}}
	s.service = sandbox.New(sandbox.Options{Partners: []sandbox.Partner{{Key: clinicKey, Name: clinicName}, {Key: academyKey, Name: academyName}}})
	t.Cleanup(func() { _ = s.service.Close() })
	backends := [2]*httptest.Server{httptest.NewServer(s.service), httptest.NewServer(s.service)}
	receiver := httptest.NewServer(http.HandlerFunc(receive))
	t.Cleanup(func() { backends[0].Close(); backends[1].Close(); receiver.Close() })
	s.receiver = receiver.URL
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.partners = "http://" + listener.Addr().String()
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0%s}
upstreams:
  old: {form: legacy, url: %q, timeout: 5s}
  new: {form: v2, url: %q, timeout: 5s}
route: {default: old}
rollout: {old: old, new: new, bills: shared}
store: {url: "sqlite:%s"}
callbacks: {public_url: %q, allow: [127.0.0.0/8], ports: [], schedule: [0s]}
partners:
  %s: {name: %q}
  %s: {name: %q}
`, admin, backends[0].URL, backends[1].URL, filepath.Join(t.TempDir(), "bridge.db"), s.partners,
		partner.Of(clinicKey).Short(), clinicName, partner.Of(academyKey).Short(), academyName) + strings.Join(more, "\n")
	load := func() (*config.Config, error) {
		return proxytest.ParseConfig(text)
	}
	s.server, err = server.Listen(t.Context(), proxytest.Config(t, text), load, map[string]net.Listener{"listen": listener}, server.Build{Version: "1.2.3"}, slog.New(slog.DiscardHandler))
	must(t, err)
	s.admin = "http://" + s.server.AdminAddress()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.server.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		s.client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

// receive takes the callbacks of partners: those of the academy fail.
func receive(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/academy") {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, `{"code":"0000","msg":"SUCCESS","message":"SUCCESS"}`)
}

// send makes one call of a partner in the legacy or the v2 form, and returns the status of the answer.
func (s *site) send(form, op, key, bill string) (status int) {
	s.t.Helper()
	hash := sandbox.Hash(bill, customerPhone, "20000")
	callback := s.receiver + "/clinic?token=" + url.QueryEscape(callbackToken)
	if key == academyKey {
		callback = strings.Replace(callback, "/clinic", "/academy", 1)
	}
	path, body := "/bill", fmt.Sprintf(`{"apiKey":%q,"member":"m","merchant":"s","bill":{"billId":%q,"sendType":"TALK","price":20000,"phone":%q,"memberName":%q,"hash":%q,"callbackUrl":%q}}`, key, bill, customerPhone, customerName, hash, callback)
	if form == "legacy" {
		path, body = "/if/bill/send", fmt.Sprintf(`{"apikey":%q,"member":"m","merchant":"s","bill":{"bill_id":%q,"price":"20000","phone":%q,"member_nm":%q,"hash":%q,"callbackURL":%q}}`, key, bill, customerPhone, customerName, hash, callback)
	}
	if op != "create" {
		path, body = "/bill/"+op, fmt.Sprintf(`{"apiKey":%q,"member":"m","merchant":"s","bill":{"billId":%q,"price":20000,"hash":%q}}`, key, bill, hash)
		if form == "legacy" {
			path, body = "/if/bill/"+op, fmt.Sprintf(`{"apikey":%q,"member":"m","merchant":"s","bill_id":%q,"price":"20000","hash":%q}`, key, bill, hash)
		}
	}
	reply, err := s.client.Post(s.partners+path, "application/json", strings.NewReader(body))
	must(s.t, err)
	defer reply.Body.Close()
	_, _ = io.Copy(io.Discard, reply.Body)
	return reply.StatusCode
}

// fill makes calls of every outcome, and callbacks that are delivered and that failed.
func (s *site) fill() {
	s.t.Helper()
	s.post("/rollout/begin?by=test")
	for i, key := range []string{clinicKey, academyKey} {
		for _, form := range []string{"legacy", "v2"} {
			bill := fmt.Sprintf("BILL-%d-%s-0123456789", i, form)[:20] // as long as an id may be
			for _, op := range []string{"create", "read"} {
				if status := s.send(form, op, key, bill); status != http.StatusOK {
					s.t.Fatalf("%s of %s: %d", op, bill, status)
				}
			}
			must(s.t, s.service.Pay(key, bill))
		}
	}
	s.send("legacy", "read", clinicKey, "NO-SUCH-BILL")
	s.send("legacy", "read", clinicKey, phoneAsBill)
	s.service.Fault(sandbox.Fault{Drop: true})
	if status := s.send("v2", "resend", clinicKey, "BILL-0-v2-0123456789"); status != http.StatusBadGateway {
		s.t.Fatalf("a write without an answer: %d", status)
	}
	s.await("/callbacks/counts?at_most=10", `"failed":{"number":2}`)
	s.await("/calls?outcome=unknown", `href="/calls/`) // a call ends after its answer
}

// post makes a change by the admin API.
func (s *site) post(path string) {
	s.t.Helper()
	reply, err := s.client.Post(s.admin+path, "", nil)
	must(s.t, err)
	defer reply.Body.Close()
	if text, _ := io.ReadAll(reply.Body); reply.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, reply.StatusCode, text)
	}
}

// get returns the text at an address of the admin listener.
func (s *site) get(path string) string {
	s.t.Helper()
	reply, err := s.client.Get(s.admin + path)
	must(s.t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	must(s.t, err)
	return string(text)
}

// await waits until the text at an address has a part.
func (s *site) await(path, part string) {
	s.t.Helper()
	var text string
	proxytest.Eventually(s.t, func() bool {
		text = s.get(path)
		return strings.Contains(text, part)
	}, func() string { return fmt.Sprintf("%s has no %q: %s", path, part, text) })
}

// linkOn returns the first address on a page that begins with a prefix and has more after it.
func (s *site) linkOn(page, prefix string) string {
	s.t.Helper()
	found := regexp.MustCompile(`href="(` + regexp.QuoteMeta(prefix) + `[^"?]+)"`).FindStringSubmatch(s.get(page))
	if found == nil {
		s.t.Fatalf("%s has no link to %s…", page, prefix)
	}
	path, err := url.PathUnescape(found[1])
	must(s.t, err)
	return path
}

func TestMain(m *testing.M) {
	code := proxytest.Tests{M: m}.Run()
	if err := browser.End(); err != nil {
		fmt.Fprintln(os.Stderr, "ending the browser:", err)
		code = 1
	}
	os.Exit(code)
}

var must, works = proxytest.Must, proxytest.Works

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
