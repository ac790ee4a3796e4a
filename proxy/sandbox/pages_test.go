package sandbox_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// pageClient does not follow redirects, so that a test sees them.
var pageClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// A pageAnswer is the answer of a page.
type pageAnswer struct {
	status int
	header http.Header
	body   string
}

// visit opens a page or, with POST, submits its form. It checks what all pages have in common.
func visit(t *testing.T, method, address string, form url.Values) pageAnswer {
	t.Helper()
	return request(t, method, address, "application/x-www-form-urlencoded", form.Encode())
}

func request(t *testing.T, method, address, contentType, body string) pageAnswer {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	must(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := pageClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	p := pageAnswer{res.StatusCode, res.Header, string(b)}
	p.isSafe(t)
	return p
}

var (
	styleElement = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	// What a page must not have: scripts, and anything that is loaded.
	active = regexp.MustCompile(`(?i)<script|<iframe|<link|<img|<base|\son[a-z]+=|\ssrc=|\sstyle=|javascript:`)
)

// isSafe checks the headers that every page has, and that the page runs and loads nothing.
func (p pageAnswer) isSafe(t *testing.T) {
	t.Helper()
	policy := "default-src 'none'; style-src 'sha256-"
	if p.body != "" {
		style := styleElement.FindStringSubmatch(p.body)
		if style == nil {
			t.Fatalf("status %d: a page without a style: %s", p.status, p.body)
		}
		sum := sha256.Sum256([]byte(style[1]))
		policy += base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; frame-ancestors 'none'"
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		if got := p.header.Get(name); got != want && !(p.body == "" && strings.HasPrefix(got, want)) {
			t.Errorf("status %d: %s: %q, not %q", p.status, name, got, want)
		}
	}
	equal(t, active.FindString(styleElement.ReplaceAllString(p.body, "")), "", "a page has")
	if p.status != http.StatusSeeOther && p.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("status %d: content type %q", p.status, p.header.Get("Content-Type"))
	}
}

// says checks the status and the texts of a page.
func (p pageAnswer) says(t *testing.T, status int, texts ...string) {
	t.Helper()
	equal(t, p.status, status, "status")
	for _, text := range texts {
		has(t, p.body, text, p.status)
	}
}

// goes checks where an answer redirects to.
func (p pageAnswer) goes(t *testing.T, want string) {
	t.Helper()
	if got := p.header.Get("Location"); p.status != http.StatusSeeOther || got != want {
		t.Errorf("got %d %q, want 303 %q", p.status, got, want)
	}
}

func (p pageAnswer) form() bool { return strings.Contains(p.body, `<form method="post"`) }

// issue creates a bill and returns the address of its page.
func (r *rig) issue(q testCall) string {
	r.t.Helper()
	var reply struct {
		Data struct {
			ShortURL string `json:"shortUrl"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.must(q)), &reply); err != nil || reply.Data.ShortURL == "" {
		r.t.Fatalf("no short URL: %v", err)
	}
	return reply.Data.ShortURL
}

// signUp registers a merchant and returns the address of its sign-up page.
func (r *rig) signUp(redirect string) string {
	r.t.Helper()
	_, body := r.post("/auth/mapping", encode(map[string]string{
		"apiKey": demoKey, "memberId": "m", "merchantId": "s", "businessNumber": "1112233333",
		"callbackUrl": "https://partner.example.com/cb", "redirectUrl": redirect,
	}))
	var reply struct {
		Data struct {
			URL string `json:"url"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || reply.Data.URL == "" {
		r.t.Fatalf("no sign-up: %s", body)
	}
	return reply.Data.URL
}

// mapping returns the record of the merchant that signUp registers.
func (r *rig) mapping() map[string]string {
	r.t.Helper()
	_, body := r.post("/read/mapping", `{"apiKey":"demo-partner-key"}`)
	var reply struct{ Data []map[string]string }
	must(r.t, json.Unmarshal([]byte(body), &reply))
	for _, m := range reply.Data {
		if m["partnerMember"] == "m" {
			return m
		}
	}
	r.t.Fatalf("no registration: %s", body)
	return nil
}

var card = url.Values{"method": {"CARD_VAN"}, "months": {"0"}}

var business = url.Values{
	"company_name": {"한빛학원"}, "branch_name": {"강남점"}, "ceo_name": {"이가나"},
	"email": {"owner@example.com"}, "business_number": {"123-45-67890"},
}

// last returns the token of an address.
func last(address string) string { return address[strings.LastIndex(address, "/")+1:] }

// A page redirects to the partner's address if it is an absolute http or https URL, else to itself.
func TestPagesRedirectOnlyToWebAddresses(t *testing.T) {
	t.Parallel()
	const itself = ""
	for _, row := range []struct{ address, want string }{
		{"https://partner.example.com/done?bill=1#end", "https://partner.example.com/done?bill=1#end"},
		{"http://127.0.0.1:8099/done", "http://127.0.0.1:8099/done"},
		{"HTTPS://partner.example.com", "https://partner.example.com"},
		{"https://partner.example.com/완료?이름=홍 길동", "https://partner.example.com/%EC%99%84%EB%A3%8C?%EC%9D%B4%EB%A6%84=%ED%99%8D+%EA%B8%B8%EB%8F%99"},
		{"", itself},
		{"javascript:alert(1)", itself},
		{" javascript:alert(1)", itself},
		{"java\tscript:alert(1)", itself},
		{"javascript://partner.example.com/%0aalert(1)", itself},
		{"data:text/html,<script>alert(1)</script>", itself},
		{"file:///etc/passwd", itself},
		{"intent://partner.example.com/done", itself},
		{"//partner.example.com/done", itself},
		{"/done", itself},
		{"done", itself},
		{"https:partner.example.com", itself},
		{"https:///done", itself},
		{"https://:443/done", itself},
		{"https://partner.example.com/\r\nSet-Cookie: a=b", itself},
		{`https://partner.example.com\@elsewhere.example.com`, itself},
	} {
		t.Run(row.address, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			for page, form := range map[string]url.Values{
				r.issue(newCall("v2", "create").with("pageRedirectUrl", row.address)): card,
				r.signUp(row.address): business,
			} {
				want := row.want
				if want == itself {
					want = last(page)
				}
				// The query of the page does not matter.
				visit(t, http.MethodPost, page+"?redirectUrl=https://elsewhere.example.com&pageRedirectUrl=https://elsewhere.example.com", form).goes(t, want)
			}
		})
	}
}

// A page that redirects to itself stays below the path prefix of the service.
func TestPagesRedirectBelowAPathPrefix(t *testing.T) {
	t.Parallel()
	r := start(t)
	published := httptest.NewServer(http.StripPrefix("/partner", r.Service))
	defer published.Close()
	page := published.URL + "/partner/b/" + last(r.issue(newCall("v2", "create")))
	res, err := http.PostForm(page, card) // follows redirects
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Request.URL.String() != page {
		t.Errorf("status %d at %s", res.StatusCode, res.Request.URL)
	}
}

func TestUnknownPagesAreNotFound(t *testing.T) {
	t.Parallel()
	r := start(t)
	bill, signUp := last(r.issue(newCall("v2", "create"))), last(r.signUp(""))
	for _, path := range []string{
		"/b/", "/signup/", "/b/0000000000000000", "/signup/0000000000000000",
		"/b/" + bill + "/", "/b/" + bill + "/x", "/b//" + bill, "/b/" + strings.ToUpper(bill), "/b/%" + encodeHex(bill[0]) + bill[1:],
		"/signup/" + signUp + "/", "/signup/" + bill, "/b/" + signUp, "/b/" + bill[:15],
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			p := visit(t, method, r.url+path, card)
			p.says(t, http.StatusNotFound)
			if method == http.MethodGet {
				p.says(t, http.StatusNotFound, "페이지를 찾을 수 없습니다", "No such page")
			}
		}
	}
	equal(t, r.state(), "W", "something was paid")
}

func encodeHex(b byte) string {
	return strings.ToUpper(string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15]))
}

func TestPagesRefuseOtherMethods(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, page := range []string{r.issue(newCall("v2", "create")), r.signUp("")} {
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "PURGE"} {
			p := visit(t, method, page, nil)
			p.says(t, http.StatusMethodNotAllowed, "Method not allowed")
			equal(t, p.header.Get("Allow"), "GET, HEAD, POST", method)
		}
		get, head := visit(t, http.MethodGet, page, nil), visit(t, http.MethodHead, page, nil)
		if head.status != http.StatusOK || head.body != "" || get.body == "" {
			t.Errorf("HEAD: status %d, %d bytes", head.status, len(head.body))
		}
		for name := range get.header {
			if name != "Date" && get.header.Get(name) != head.header.Get(name) {
				t.Errorf("HEAD: %s: %q, not %q", name, head.header.Get(name), get.header.Get(name))
			}
		}
	}
	if calls := r.Calls(); calls["none"] != 0 {
		t.Errorf("pages count as calls: %v", calls)
	}
}

// A body that is not a form of a browser, or is too long, has no effect.
func TestPagesRefuseInvalidForms(t *testing.T) {
	t.Parallel()
	r := start(t)
	const form = "application/x-www-form-urlencoded"
	for page, good := range map[string]url.Values{r.issue(newCall("v2", "create")): card, r.signUp(""): business} {
		for _, row := range []struct {
			name, contentType, body string
			status                  int
		}{
			{"JSON", "application/json", `{"method":"CARD_VAN"}`, http.StatusUnsupportedMediaType},
			{"no content type", "", good.Encode(), http.StatusUnsupportedMediaType},
			{"a part of many", "multipart/form-data; boundary=x", "--x--", http.StatusUnsupportedMediaType},
			{"too long", form, good.Encode() + "&x=" + strings.Repeat("x", 64<<10), http.StatusRequestEntityTooLarge},
			{"bad escape", form, good.Encode() + "&x=%zz", http.StatusBadRequest},
			{"in the query only", form, "", http.StatusUnprocessableEntity},
		} {
			address := page
			if row.body == "" {
				address += "?" + good.Encode()
			}
			p := request(t, http.MethodPost, address, row.contentType, row.body)
			equal(t, p.status, row.status, row.name)
		}
	}
	if r.state() != "W" || r.mapping()["mappingStatus"] != "REQUESTED" {
		t.Error("something was done")
	}
	for page, good := range map[string]url.Values{r.issue(newCall("v2", "create").with("billId", "2")): card, r.signUp(""): business} {
		p := request(t, http.MethodPost, page+"?%zz", form+"; charset=UTF-8", good.Encode())
		p.goes(t, last(page))
	}
}

// If writing fails, nothing changes, and the visitor does not see the error.
func TestPagesHideErrorsOfTheDataFile(t *testing.T) {
	t.Parallel()
	s, err := sandbox.Open(filepath.Join(t.TempDir(), "data"), sandbox.Options{Transport: loopbackTransport{}, Clock: func() time.Time { return noon }})
	must(t, err)
	server := httptest.NewServer(s)
	defer server.Close()
	r := &rig{Service: s, t: t, url: server.URL}
	pages := map[string]url.Values{r.issue(newCall("v2", "create")): card, r.signUp(""): business}
	if err := s.Close(); err != nil { // all writes fail from now on
		t.Fatal(err)
	}
	for page, form := range pages {
		p := visit(t, http.MethodPost, page, form)
		p.says(t, http.StatusInternalServerError, "처리하지 못했습니다", "The request failed")
		for _, inside := range []string{"sql", "database", "data file"} {
			lacks(t, p.body, inside, "the page shows")
		}
		p = visit(t, http.MethodGet, page, nil)
		p.says(t, http.StatusOK)
		if !p.form() {
			t.Error("the page has no form")
		}
	}
}
