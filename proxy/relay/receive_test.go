package relay_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
	"billbridge/proxy/store"
	"billbridge/translate"
)

const (
	inV2 = `{"apiKey":"demo-key","billId":"A1B2C3D4E5F6G7H8I9J0","catId":"T1","apprPayType":0,"apprCardType":"1","apprDt":20261121123456,` +
		`"apprPrice":"1004","apprIssuer":"\uc2e0\ud55c","apprNum":"30001234","apprMonthly":"00","apprState":"F"}`
	inLegacy = `{"apikey":"demo-key","bill_id":"A1B2C3D4E5F6G7H8I9J0","appr_cat_id":"T1","appr_pay_type":"0","appr_card_type":"1","appr_dt":"20261121123456",` +
		`"appr_price":"1004","appr_issuer":"신한","appr_num":"30001234","appr_monthly":"00","appr_state":"F"}`
)

// The bodies of a payment's callback in the form of each backend, the stored body, and the answer to the upstream. Fields
// that the table does not have stay in the same form, whatever the spelling of the key.
func TestCallbacksAreTranslatedIntoThePartnersForm(t *testing.T) {
	t.Parallel()
	// The forms of the backend and of the partner, the body, the stored one, and as what it is passed on.
	words := strings.NewReplacer("V2", inV2, "OLD", inLegacy, "LEGACY", strings.Replace(inLegacy, "신한", `\uc2e0\ud55c`, 1), // texts keep their spelling
		"NEW", strings.Replace(inV2, `\uc2e0\ud55c`, "신한", 1))
	for _, row := range proxytest.RowsIn(`
v2 | legacy | V2 | LEGACY |
legacy | v2 | OLD | NEW |
v2 | v2 | V2 | V2 | in form
legacy | legacy | OLD | OLD | in form
v2 | legacy | OLD | OLD | in form
legacy | v2 | V2 | V2 | in form
v2 | v2 | OLD | NEW |
legacy | legacy | V2 | LEGACY |
v2 | legacy | {"apiKey":"demo-key","billId":"A1B2C3D4E5F6G7H8I9J0","apprSign":"x","new":1} | {"apikey":"demo-key","bill_id":"A1B2C3D4E5F6G7H8I9J0"} |
v2 | legacy | {"billId":17} | {"bill_id":"17"} |
v2 | legacy | {"apiKey":"demo-key"} | {"apikey":"demo-key"} |
v2 | v2 | {"apikey":"demo-key","member_id":"m","status":"PAUSED"} | {"apiKey":"demo-key","member_id":"m","status":"PAUSED"} |
`) {
		from, to, body, want, passed := translate.Form(row[0]), translate.Form(row[1]), words.Replace(row[2]), words.Replace(row[3]), row[4]
		unrelated := !strings.Contains(strings.ToLower(body), "bill") // it names no bill
		t.Run(strings.Join(row[:3], " "), func(t *testing.T) {
			t.Parallel()
			s, clock := clocked(t, setup{form: from})
			a := asked(to, "https://Partner.example.com:8443/paid?x=1")
			a.Bill, a.OfBill = "", false // any bill of the partner
			path := s.bind(a)
			w := s.post(path, body, "Content-Type", "text/html; charset=utf-8")
			if w.Code != 200 || w.Body.String() != documented[from] || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
			}
			c := s.only()
			if string(c.Body) != want || c.ContentType != "application/json; charset=utf-8" {
				t.Errorf("got %s\n%s\nwant\n%s", c.ContentType, c.Body, want)
			}
			if c.Host != "partner.example.com:8443" || c.URL != a.URL || c.Form != string(to) || c.Partner != partner.Of(key) || c.State != store.Waiting ||
				!c.Received.Equal(clock.now()) || !c.Next.Equal(clock.now()) || !regexp.MustCompile(`^cb_[0-9a-f]{32}$`).MatchString(c.ID) {
				t.Errorf("%+v", c)
			}
			if (c.Bill == "") != unrelated || unrelated && !strings.HasPrefix(c.Order, "merchant ") || !unrelated && c.Order != string(c.Partner)+" "+c.Bill {
				t.Errorf("bill %q order %q", c.Bill, c.Order)
			}
			s.counts("billbridge_callbacks_accepted_total", `{upstream="up"} 1`)
			if passed == "" {
				s.counts("billbridge_callbacks_passed_total")
			} else {
				s.counts("billbridge_callbacks_passed_total", fmt.Sprintf(`{as=%q,upstream="up"} 1`, passed))
			}
		})
	}
}

// JSON that the table does not recognise is delivered unchanged, so that no notice of a payment is lost. It is recognised as JSON
// whatever its content type.
func TestUnrecognisedJSONPasses(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"array": `[{"apikey":"another"}]`, "a string": `"x"`, "neither key nor bill": `{ "state" : "F" }`,
		"empty names": `{"apikey":"","bill_id":null,"apiKey":[],"billId":{}}`,
	} {
		for _, form := range forms {
			for _, label := range []string{"", "application/json", "Text/Plain; charset=EUC-KR", formMedia} {
				s := newTestRelay(t, setup{form: "legacy"})
				path := s.path(form)
				if w := s.post(path, body, "Content-Type", label); w.Code != 200 || w.Body.String() != documented["legacy"] {
					t.Errorf("%s: %d %s", name, w.Code, w.Body)
				}
				if c := s.only(); string(c.Body) != body || c.ContentType != "application/json; charset=utf-8" || c.Bill != bill || c.Order != hash(key)+" "+bill {
					t.Errorf("%s: %+v %q", name, c, c.Body)
				}
				s.counts("billbridge_callbacks_passed_total", `{as="unrecognised",upstream="up"} 1`)
			}
		}
	}
}

const formMedia = "application/x-www-form-urlencoded"

// Pages and other texts are refused: they could be anything.
func TestOnlyJSONAndFormsAreDelivered(t *testing.T) {
	t.Parallel()
	for label, bodies := range map[string][]string{
		"":                                {"", "paid", "apikey=demo-key", "\xb0\xe1\xc1\xa6", "\x00\x00"},
		"application/json":                {"", "paid", `{"apikey":"demo-k`, "apikey=demo-key"},
		"text/html; charset=utf-8":        {"<html>\r\n</html>", "apikey=demo-key"},
		"text/plain":                      {"paid"},
		"application/xml":                 {"<paid/>"},
		"multipart/form-data; boundary=x": {"--x\r\nContent-Disposition: form-data; name=\"apikey\"\r\n\r\ndemo-key\r\n--x--\r\n"},
		formMedia:                         {""},
		formMedia + "x":                   {"apikey=demo-key"},
		"text/plain, " + formMedia:        {"apikey=demo-key"},
		"text/plain;" + formMedia:         {"apikey=demo-key"},
		"한글":                              {"apikey=demo-key"},
		"text/plain\r\nX: " + formMedia:   {"apikey=demo-key"},
	} {
		for _, body := range bodies {
			s := newTestRelay(t, setup{form: "legacy"})
			w := s.post(s.path("v2"), body, "Content-Type", label)
			s.holds(w, "legacy", http.StatusUnsupportedMediaType, "up", "type")
		}
	}
}

// A form is delivered byte for byte, with its own type. Nothing is read from it.
func TestFormCallbacks(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"bill_id=" + bill + "&apikey=demo-key&appr_price=1004", "billId=another&x=1&x=2&x=%ff", "apikey=%zz"} {
		for _, form := range forms {
			s := newTestRelay(t, setup{form: "legacy"})
			s.accept(s.path(form), body, "Content-Type", "Application/X-www-form-urlencoded ;charset=EUC-KR")
			if got := s.only(); string(got.Body) != body || got.ContentType != formMedia+"; charset=EUC-KR" || got.Bill != bill {
				t.Errorf("%s: %+v %q", body, got, got.Body)
			}
			s.counts("billbridge_callbacks_passed_total", `{as="unrecognised",upstream="up"} 1`)
			s.carry(func(r *http.Request) (*http.Response, error) {
				if sent, err := io.ReadAll(r.Body); string(sent) != body || r.Header.Get("Content-Type") != formMedia+"; charset=EUC-KR" {
					t.Errorf("%s is delivered as %s, %v, %v", body, sent, r.Header, err)
				}
				return reply(200, ""), nil
			})
			s.round()
		}
	}
}

// A callback without the partner's key is accepted and counted, because its address is a secret. A config can refuse it.
func TestCallbacksWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, label string }{
		{`{"billId":"` + bill + `","apprState":"F"}`, "application/json"},
		{`{"apiKey":"","billId":"` + bill + `"}`, "application/json"},
		{`{"state":"F"}`, "application/json"},
		{"billId=" + bill, formMedia},
	} {
		s := newTestRelay(t, setup{})
		path := s.path("legacy")
		s.accept(path, c.body, "Content-Type", c.label)
		s.accept(path, c.body, "Content-Type", c.label) // again is not twice
		s.counts("billbridge_callbacks_accepted_total", `{upstream="up"} 1`)

		s = newTestRelay(t, setup{callbacks: ", require_key: true"})
		w := s.post(s.path("legacy"), c.body, "Content-Type", c.label)
		s.holds(w, "v2", http.StatusForbidden, "up", "no_key")
	}
	s := newTestRelay(t, setup{callbacks: ", require_key: true"})
	path := s.path("legacy")
	s.accept(path, inV2)
	s.counts("billbridge_callbacks_refused_total")
}

var header = regexp.MustCompile(`^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$`)

// The content type is cleaned: it becomes a header of the request to the partner.
func TestR22_ContentTypeIsCleaned(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                                   "",
		"text/plain":                         "",
		formMedia:                            formMedia,
		formMedia + " ; Charset=\"utf-8\"":   formMedia + "; charset=utf-8",
		formMedia + "\r\nX-Evil: 1":          "",
		formMedia + "\nX-Evil: 1":            "",
		formMedia + "\x00":                   "",
		formMedia + "; charset":              formMedia,
		formMedia + "; a=\"b\r\nX-Evil: 1\"": formMedia,
		formMedia + "; a=\"b\x00c\"":         formMedia + "; a*=utf-8''b%00c",
		formMedia + "; a*=utf-8''%0d%0aX-Evil%3a%201":      formMedia + "; a*=utf-8''%0D%0AX-Evil%3A%201",
		formMedia + "; a*0*=utf-8''%0d%0a; a*1=\"X-Evil\"": formMedia + "; a*=utf-8''%0D%0AX-Evil",
		formMedia + "; a=\"\xff\"":                         formMedia + "; a*=utf-8''%FF",
		formMedia + "; *=utf-8''x":                         formMedia, // can be read and not be written again
		formMedia + "; *0=x":                               formMedia,
		"한글":                                               "",
		"/":                                                "",
	} {
		equal(t, relay.FormType(given), want, given)
	}
}

func FuzzR22_ContentType(f *testing.F) {
	for _, seed := range []string{"", "; a=\"\r\n\"", "; *=utf-8''x", "; a*0=x; a*1*=%0d", "; b=c;", "; x=\"\\\"\"", "; a*=utf-8''%"} {
		f.Add(formMedia + seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		if got := relay.FormType(given); got != "" && !header.MatchString(got) {
			t.Errorf("%q becomes %q", given, got)
		}
	})
}

// An upstream that missed our answer sends again; the partner gets the callback once.
func TestRepeatedCallbackIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	s, clock := clocked(t, setup{form: "legacy"})
	attempts := 0
	s.carry(func(*http.Request) (*http.Response, error) { attempts++; return reply(200, documented["v2"]), nil })
	path, other := s.path("v2"), s.path("v2")
	again := func(path, body string, stored, repeated int) {
		t.Helper()
		w := s.post(path, body)
		if w.Code != 200 || w.Body.String() != documented["legacy"] {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		equal(t, len(s.stored()), stored)
		if want := fmt.Sprintf("billbridge_callbacks_repeated_total{upstream=\"up\"} %d\n", repeated); repeated > 0 && s.scrape("billbridge_callbacks_repeated") != want {
			t.Error(s.scrape("billbridge_callbacks_repeated"), "want", want)
		}
		for s.round() > 0 {
		}
		equal(t, attempts, stored, "attempts")
	}
	body := notice("legacy", key, bill, `,"appr_price":"1004"`)
	again(path, body, 1, 0)
	again(path, body, 1, 1)
	again(path, `{ "appr_price":"1004", "bill_id":"`+bill+`","\u0061pikey":"`+key+"\"}\n", 1, 2) // the members in another order
	again(path, notice("legacy", key, bill, `,"appr_price":"1005"`), 2, 2)
	again(path, notice("legacy", key, bill, `,"appr_price":1004`), 3, 2)
	again(path, body, 3, 3)  // the first again, but not the last
	again(other, body, 4, 3) // an address of its own
	again(path, body, 4, 4)
	clock.add(25*time.Hour - time.Millisecond)
	again(path, body, 4, 5)
	clock.add(time.Millisecond) // the first was received one window ago
	again(path, body, 5, 5)
	again(path, body, 5, 6)
	s.counts("billbridge_callbacks_accepted_total", `{upstream="up"} 5`)
}
