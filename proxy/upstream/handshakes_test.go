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
				u := New(c, "test", NewMetrics(nil), slog.New(slog.DiscardHandler))
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
