package upstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// A handshake resumes the last session, but not one of another client certificate: a resumed session shows none.
func TestSessionsAreResumed(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, shows := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, client certificate %t", tls.VersionName(version), shows), func(t *testing.T) {
				t.Parallel()
				ca := proxytest.NewCertificate(t, "ca", nil)
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(ca.Cert)
				back := proxytest.NewCertificate(t, "back", &ca)
				pair, err := tls.X509KeyPair(back.Cert, back.Key)
				proxytest.Must(t, err)
				var mu sync.Mutex
				var got []string // of each connection: who came, and whether it was resumed
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					who := "nobody"
					if len(r.TLS.PeerCertificates) > 0 {
						who = r.TLS.PeerCertificates[0].Subject.CommonName
					}
					mu.Lock()
					defer mu.Unlock()
					got = append(got, fmt.Sprint(who, " ", r.TLS.DidResume))
					_, _ = w.Write([]byte("{}"))
				}))
				s.TLS = &tls.Config{
					Certificates: []tls.Certificate{pair}, ClientCAs: roots, MinVersion: version, MaxVersion: version,
				}
				c := &config.Upstream{
					Name: "up", Connections: 4, PartnerConnections: 4, Timeout: config.Duration(time.Minute), Wait: time.Minute,
					TLS: &config.UpstreamTLS{Roots: roots},
				}
				dir, who := t.TempDir(), []string{"nobody", "nobody"}
				write := func(name string, at time.Time) {
					us := proxytest.NewCertificate(t, name, &ca)
					for file, data := range map[string][]byte{c.TLS.Client.Cert: us.Cert, c.TLS.Client.Key: us.Key} {
						proxytest.WriteFile(t, file, data)
						proxytest.Must(t, os.Chtimes(file, at, at))
					}
				}
				if shows {
					s.TLS.ClientAuth, who = tls.RequireAndVerifyClientCert, []string{"before", "after"}
					c.TLS.Client = &config.KeyPair{Cert: filepath.Join(dir, "us.crt"), Key: filepath.Join(dir, "us.key")}
					write(who[0], time.Now().Add(-time.Hour))
				}
				s.StartTLS()
				t.Cleanup(s.Close)
				address, err := url.Parse(s.URL)
				proxytest.Must(t, err)
				c.Address.URL = address
				u := New(c, "test", NewMetrics(nil), slog.New(slog.DiscardHandler), nil)
				t.Cleanup(u.CloseIdle)
				for i := range 4 {
					if i == 2 && shows {
						write(who[1], time.Now())
					}
					u.pool.CloseIdle() // no connection is there before it is needed
					r := &Request{Head: u.Head("/bill"), Body: []byte("{}"), Reply: new(bytes.Buffer), Limit: 100}
					if _, failed := u.Do(t.Context(), r); failed != nil {
						t.Fatal(failed)
					}
				}
				want := []string{who[0] + " false", who[0] + " true", who[1] + " " + fmt.Sprint(!shows), who[1] + " true"}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

// A session begins with a key exchange that holds against quantum computers, also after the server has refused to resume
// one, as after a restart. One that is resumed does not repeat it.
func TestSessionsBeginWithTheWholeKeyExchange(t *testing.T) {
	t.Parallel()
	made, roots := proxytest.NewCertificate(t, "back", nil), x509.NewCertPool()
	roots.AppendCertsFromPEM(made.Cert)
	pair, err := tls.X509KeyPair(made.Cert, made.Key)
	proxytest.Must(t, err)
	got := ""
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = fmt.Sprint(r.TLS.DidResume, " ", r.TLS.CurveID)
		_, _ = w.Write([]byte("{}"))
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.TLS.SetSessionTicketKeys([][32]byte{{1}})
	s.StartTLS()
	t.Cleanup(s.Close)
	address, err := url.Parse(s.URL)
	proxytest.Must(t, err)
	u := New(&config.Upstream{
		Name: "up", Connections: 4, PartnerConnections: 4, Timeout: config.Duration(time.Minute), Wait: time.Minute,
		Address: config.Address{URL: address}, TLS: &config.UpstreamTLS{Roots: roots},
	}, "test", NewMetrics(nil), slog.New(slog.DiscardHandler), nil)
	t.Cleanup(u.CloseIdle)
	for i, want := range []string{
		"false X25519MLKEM768", "true X25519", "true X25519", "false X25519", "false X25519MLKEM768", "true X25519",
	} {
		if i == 3 {
			s.TLS.SetSessionTicketKeys([][32]byte{{2}})
		}
		u.pool.CloseIdle()
		r := &Request{Head: u.Head("/bill"), Body: []byte("{}"), Reply: new(bytes.Buffer), Limit: 100}
		if _, failed := u.Do(t.Context(), r); failed != nil {
			t.Fatal(failed)
		}
		if got != want {
			t.Errorf("handshake %d: resumed, key exchange: %s, want %s", i, got, want)
		}
	}
}
