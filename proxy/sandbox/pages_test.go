package sandbox_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"billbridge/proxy/proxytest"
)

// pageClient does not follow redirects, so that a test sees them.
var pageClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// A pageAnswer is the answer of a page.
type pageAnswer struct {
	status int
	header http.Header
	body   string
}

// visit opens a page or, with POST, submits its form. It checks what all pages have in common. The body is that in
// both languages, unless the form had an effect.
func visit(t *testing.T, method, address string, form url.Values) pageAnswer {
	t.Helper()
	const sent = "application/x-www-form-urlencoded"
	p := request(t, method, address, sent, form.Encode())
	if method != http.MethodPost || p.status >= 400 {
		separator := map[bool]string{true: "&", false: "?"}[strings.Contains(address, "?")]
		p.body += request(t, method, address+separator+"lang=en", sent, form.Encode()).body
	}
	return p
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

var card = url.Values{"method": {"CARD_VAN"}}

// last returns the token of an address.
func last(address string) string { return address[strings.LastIndex(address, "/")+1:] }

// A page redirects to the partner's address if it is an absolute http or https URL, else to itself.
func TestPagesRedirectOnlyToWebAddresses(t *testing.T) {
	t.Parallel()
	for _, row := range proxytest.Rows(t, "testdata/rows/redirects.txt") {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			address, err := strconv.Unquote(`"` + row[0] + `"`)
			must(t, err)
			r := start(t)
			for _, page := range []string{r.issue(newCall("v2", "create").with("pageRedirectUrl", address)), r.signUp(address)} {
				// The query of the page does not matter.
				visit(t, http.MethodPost, page+"?redirectUrl=https://elsewhere.example.com&pageRedirectUrl=https://elsewhere.example.com", card).goes(t, cmp.Or(row[1], last(page)))
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
	equal(t, fmt.Sprint(res.StatusCode, " ", res.Request.URL), "200 "+page)
}

func TestUnknownPagesAreNotFound(t *testing.T) {
	t.Parallel()
	r := start(t)
	bill, signUp := last(r.issue(newCall("v2", "create"))), last(r.signUp(""))
	for _, path := range []string{
		"/b/", "/signup/", "/b/0000000000000000", "/b/" + bill + "/", "/b//" + bill, "/b/" + strings.ToUpper(bill), "/b/" + fmt.Sprintf("%%%X", bill[0]) + bill[1:],
		"/signup/" + bill, "/b/" + signUp, "/b/" + bill[:15],
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			visit(t, method, r.url+path, card).says(t, http.StatusNotFound, "페이지를 찾을 수 없습니다", "No such page")
		}
	}
	equal(t, r.state(), "W", "something was paid")
}

func TestPagesRefuseOtherMethods(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, page := range []string{r.issue(newCall("v2", "create")), r.signUp("")} {
		for _, method := range []string{http.MethodPut, http.MethodOptions, "PURGE"} {
			p := visit(t, method, page, nil)
			p.says(t, http.StatusMethodNotAllowed, "Method not allowed")
			equal(t, p.header.Get("Allow"), "GET, HEAD, POST", method)
		}
		get, head := visit(t, http.MethodGet, page, nil), visit(t, http.MethodHead, page, nil)
		equal(t, fmt.Sprint(head.status, head.body, head.header.Get("Content-Length")), fmt.Sprint("200", get.header.Get("Content-Length")), "HEAD")
	}
	equal(t, r.Calls()["none"], 0, "pages count as calls")
}

// A body that is not a form of a browser, or is too long, has no effect.
func TestPagesRefuseInvalidForms(t *testing.T) {
	t.Parallel()
	r := start(t)
	const form = "application/x-www-form-urlencoded"
	good := card.Encode()
	for _, page := range []string{r.issue(newCall("v2", "create")), r.signUp("")} {
		for _, row := range []struct {
			contentType, body string
			status            int
		}{
			{"application/json", `{"method":"CARD_VAN"}`, 415},
			{"", good, 415},
			{"multipart/form-data; boundary=x", "--x--", 415},
			{form, good + "&x=" + strings.Repeat("x", 64<<10), 413},
			{form, good + "&x=%zz", 400},
		} {
			equal(t, request(t, http.MethodPost, page, row.contentType, row.body).status, row.status, row.contentType)
		}
	}
	page := r.issue(newCall("v2", "create").with("billId", "2"))
	for _, query := range []string{good, "method=BARTER"} { // the query is no form
		equal(t, request(t, http.MethodPost, page+"?"+good, form, strings.TrimPrefix(query, good)).status, 400, query)
	}
	if r.state() != "W" || r.mapping()["mappingStatus"] != "REQUESTED" {
		t.Error("something was done")
	}
	request(t, http.MethodPost, page+"?%zz", form+"; charset=UTF-8", good).goes(t, last(page))
}

// If writing fails, nothing changes, and the visitor does not see the error.
func TestPagesHideErrorsOfTheDataFile(t *testing.T) {
	t.Parallel()
	r := open(t, filepath.Join(t.TempDir(), "data"), sandbox.Options{})
	bill, signUp := r.issue(newCall("v2", "create")), r.signUp("")
	must(t, r.Close()) // all writes fail from now on
	for _, page := range []string{r.url + "/b/" + last(bill), r.url + "/signup/" + last(signUp)} {
		p := visit(t, http.MethodPost, page, card)
		p.says(t, http.StatusInternalServerError, "처리하지 못했습니다", "The request failed")
		lacks(t, p.body, "file", "the page shows")
		equal(t, visit(t, http.MethodGet, page, nil).form(), true, "the form")
	}
}

// The sign-up is completed with a button. The page says what the business is registered with.
func TestSignUpPage(t *testing.T) {
	t.Parallel()
	r := start(t)
	page := r.signUp("")
	p := visit(t, http.MethodGet, page, nil)
	p.says(t, http.StatusOK, `<html lang="ko">`, "사업장 등록", "Business sign-up", "No money moves.", "등록하기", "Sign up")
	equal(t, p.form(), true, "the form")
	equal(t, r.mapping()["mappingStatus"], "REQUESTED")
	for range 2 { // once more changes nothing
		visit(t, http.MethodPost, page, nil).goes(t, last(page))
		want := map[string]string{
			"partnerMember": "m", "partnerMerchant": "s", "companyNm": "데모상사", "branchNm": "신규점", "businessNumber": "1112233333", "ceoName": "김가입",
			"email": "signup@example.com", "mappingStatus": "COMPLETED", "regDt": "2026-03-02T12:34:56", "updDt": "2026-03-02T12:34:56",
		}
		equal(t, r.mapping(), want)
	}
	p = visit(t, http.MethodGet, page, nil)
	p.says(t, http.StatusOK, "등록 완료", "The sign-up is completed", "데모상사", "신규점")
	equal(t, p.form(), false, "the form")
}
