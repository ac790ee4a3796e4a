package console_test

import (
	"bytes"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/sandbox"
)

var links = regexp.MustCompile(`(?:href|hx-get)="(/[^"]*)"`)

// No page that can be reached by links shows a key, a phone, a name, a hash or the token of a callback address, also where a caller has put
// one into the field of a bill id.
func TestR35_PagesShowNoSecrets(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	s.fill()
	s.post("/rollout/waves?by=test&name=autumn&partners=" + partner.ShortOf(clinicKey))
	secrets := []string{clinicKey, academyKey, customerPhone, customerName, callbackToken, phoneAsBill, sandbox.Hash("BILL-0-v2-0123456789", customerPhone, "20000")}
	seen, calls := map[string]bool{}, 0
	var queue []string
	for _, one := range pages {
		queue = append(queue, one.path(s))
	}
	for len(queue) > 0 && len(seen) < 2000 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] || strings.HasPrefix(path, "/static/") {
			continue
		}
		seen[path] = true
		if strings.HasPrefix(path, "/calls/") {
			calls++
		}
		reply, err := s.client.Get(s.admin + path)
		must(t, err)
		var body bytes.Buffer
		_, err = body.ReadFrom(reply.Body)
		_ = reply.Body.Close()
		if err != nil || reply.StatusCode != http.StatusOK && !strings.HasPrefix(path, "/nowhere") && !strings.Contains(path, "nobody") {
			t.Errorf("%s: %d %v", path, reply.StatusCode, err)
		}
		text := html.UnescapeString(body.String())
		for _, secret := range secrets {
			for _, spelling := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(strconv.QuoteToASCII(secret), `"`)} {
				if at := strings.Index(text, spelling); at >= 0 {
					t.Errorf("%s shows %q: %s", path, secret, text[max(0, at-200):min(len(text), at+100)])
					break
				}
			}
		}
		for _, link := range links.FindAllStringSubmatch(body.String(), -1) {
			queue = append(queue, html.UnescapeString(link[1]))
		}
	}
	reply, err := s.client.PostForm(s.admin+"/waves/new", url.Values{"name": {"winter"}, "partners": {clinicKey + "\n" + clinicName}})
	must(t, err)
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || reply.StatusCode != http.StatusConflict || bytes.Contains(text, []byte(clinicKey)) || !bytes.Contains(text, []byte(clinicName)) || !seen["/waves/autumn"] {
		t.Errorf("the form of a wave with a key in it: %d %v\n%s", reply.StatusCode, err, text)
	}
	if len(seen) < 40 || calls < 10 {
		t.Errorf("only %d pages were read, of which %d are of calls", len(seen), calls)
	}
	t.Logf("%d pages", len(seen))
}
