package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
	"billbridge/translate"
)

// holds expects a refusal in a form, with nothing stored and one count of its reason.
func (s *testRelay) holds(w *httptest.ResponseRecorder, form translate.Form, status int, upstream, reason string) {
	s.t.Helper()
	if w.Code != status || w.Header().Get("Content-Type") != "application/json; charset=utf-8" || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
		s.t.Errorf("%s: %d %v", reason, w.Code, w.Header())
	}
	want := `{"code":"ERROR","message":"`
	if form == "legacy" {
		want = `{"code":"ERROR","msg":"`
	}
	if !strings.HasPrefix(w.Body.String(), want) {
		s.t.Errorf("%s: %s", reason, w.Body)
	}
	s.counts(refused, fmt.Sprintf(`{reason=%q,upstream=%q} 1`, reason, upstream))
	s.counts("billbridge_callbacks_accepted_total")
}

// The key and the bill in the body must be those of the address. Otherwise the callback is counted for an alert and not stored: a
// caller that found an address cannot deliver the payment of another partner or bill.
func TestCallbacksForAnotherAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, reason string }{
		{"another key", notice("legacy", "stolen", bill), "another_partner"},
		{"another key alone", `{"apikey":"stolen"}`, "another_partner"},
		{"the key of which is the hash", notice("legacy", hash(key), bill), "another_partner"},
		{"the key in other letters", notice("legacy", "Demo-Key", bill), "another_partner"},
		{"a number as the key", `{"apikey":1}`, "another_partner"},
		{"another key in the other form", notice("v2", "stolen", bill), "another_partner"},
		{"two keys", `{"apikey":"demo-key","apiKey":"stolen"}`, "another_partner"},
		{"two keys the other way", `{"apikey":"stolen","apiKey":"demo-key"}`, "another_partner"},
		{"another bill", notice("legacy", key, "another"), "another_bill"},
		{"another bill alone", `{"bill_id":"another"}`, "another_bill"},
		{"another bill in the other form", notice("v2", key, "another"), "another_bill"},
		{"two bills", `{"bill_id":"` + bill + `","billId":"another"}`, "another_bill"},
		{"another key and bill", notice("legacy", "stolen", "another"), "another_partner"},
	} {
		for _, form := range forms {
			s := newTestRelay(t, setup{form: "legacy"})
			path := s.bind(asked(form, "https://partner.example.com/"))
			w := s.post(path, c.body)
			s.holds(w, "legacy", 404, "up", c.reason)
			equal(t, len(s.stored()), 0, c.name)
			s.accept(path, notice("legacy", key, bill)) // the right one still passes
		}
	}
}

// The address of a registration accepts any bill of its partner, but not two in one callback.
func TestAddressOfARegistration(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	a := asked("v2", "https://partner.example.com/")
	a.Operation, a.OfBill, a.Bill = "mapping.register", false, ""
	path := s.bind(a)
	for i, id := range []string{"one", "two", bill} {
		s.accept(path, notice("legacy", key, id))
		if got := s.stored(); len(got) != i+1 || got[i].Bill != id || got[i].Order != hash(key)+" "+id {
			t.Errorf("%+v", got)
		}
	}
	answers(t, s.post(path, `{"apikey":"demo-key","bill_id":"one","billId":"two"}`), 404)
	answers(t, s.post(path, notice("legacy", "stolen", "one")), 404)
	s.counts(refused, `{reason="another_bill",upstream="up"} 1`, `{reason="another_partner",upstream="up"} 1`)
}

// A callback of a registration may have a bill id that a database refuses. It is delivered unchanged, so that the payment is not
// lost.
func TestInvalidBillIDsAreDelivered(t *testing.T) {
	t.Parallel()
	proxytest.Each(t, func(t *testing.T, url string) {
		s := newTestRelay(t, setup{form: "legacy", store: url})
		a := asked("v2", "https://partner.example.com/")
		a.Operation, a.OfBill, a.Bill = "mapping.register", false, ""
		path := s.bind(a)
		long := ""
		for i := 0; len(long) < 100_000; i++ {
			long += hash(strconv.Itoa(i)) // nothing that could be compressed
		}
		for i, c := range []struct{ name, kept string }{
			{`a\u0000b`, "a\ufffdb"}, {long, long[:1000]}, {"x" + strings.Repeat("한", 400), "x" + strings.Repeat("한", 333)},
		} {
			s.accept(path, `{"apikey":"demo-key","bill_id":"`+c.name+`"}`)
			all := s.stored()
			if len(all) != i+1 || all[i].Bill != c.kept || string(all[i].Body) != `{"apiKey":"demo-key","billId":"`+c.name+`"}` {
				t.Errorf("%d callbacks, the last of the bill %.60q, %.60q", len(all), all[len(all)-1].Bill, all[len(all)-1].Body)
			}
		}
		equal(t, s.logs.String(), "")
	})
}

// A callback that two readers could read differently is refused, as a request is, and is never delivered.
func TestR01_CallbacksThatCanBeReadTwoWaysAreNotDelivered(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"apikey":"demo-key","apikey":"demo-key"}`, `{"bill_id":"1","b\u0069ll_id":"2"}`, `{"x":{"y":1,"y":2}}`,
		"{\"apikey\":\"demo-key\",\"appr_issuer\":\"\xbd\xc5\xc7\xd1\"}", // JSON by its grammar, in EUC-KR
		strings.Repeat("[", 33) + strings.Repeat("]", 33),
		`{"apikey":"demo-key","appr_state":"F","Appr_State":"W"}`,
		`{"apiKey":"demo-key","apprState":"F","APPRSTATE":"W"}`, `{"apiKey":"demo-key","ApprState":"F"}`,
		`{"APIKEY":"demo-key"}`, `{"APIKE\u0059":"demo-key"}`, "\ufeff" + `{"apiKey":"demo-key"}`,
	} {
		for _, form := range forms {
			s := newTestRelay(t, setup{form: "legacy"})
			w := s.post(s.bind(asked(form, "https://partner.example.com/")), body)
			s.holds(w, "legacy", 400, "up", "ambiguous")
			equal(t, len(s.stored()), 0, body)
		}
	}
}

// A call to a random path gets no information, causes no query of the store, and is counted.
func TestInvalidPathsAreRefused(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	path := s.bind(asked("v2", "https://partner.example.com/"))
	id := strings.TrimPrefix(path, "/callback/")
	for target, status := range map[string]int{
		path: 200, path + "?apikey=stolen&x=%zz": 200, "/any/prefix" + path: 200, "/callback/x" + path: 200, "/%2f" + path: 200,
		path + "/": 404, strings.ToUpper(path): 404, "/callback/" + strings.ToUpper(id): 404, "/callback%2F" + id: 404, "/callback/%" + fmt.Sprintf("%02x", id[0]) + id[1:]: 404,
		"/callback/" + id + "%2F": 404, "/callback/" + id + "%00": 404, "/callback/" + id + ";x": 404, "/callback/" + id[1:]: 404, "/callback/": 404, "/": 404, "/callback//" + id: 404,
	} {
		answers(t, s.post(target, inLegacy), status)
	}
	s.only()
	s.counts(refused, `{reason="path",upstream="none"} 12`)
	equal(t, s.logs.String(), "")
}

// For a day after the store was restored or lacks writes, an unknown address may be a lost one: the backend is asked to come again, and the
// log says so once.
func TestUnknownAddressAfterALossIsNotFinal(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	must(t, s.store.Change(t.Context(), store.Change{Action: store.Restored, By: "test", At: time.Now()}))
	const path = "/callback/00112233445566778899aabbccddeeff"
	s.holds(s.post(path, inLegacy), "v2", 503, "none", "lost_address")
	answers(t, s.post(path, inLegacy), 503)
	equal(t, strings.Count(s.logs.String(), "callbacks came to addresses that the store does not have"), 1,
		"log lines")
	answers(t, s.post("/callback/not-an-address", inLegacy), 404)
	later := newTestRelay(t, setup{form: "legacy"})
	must(t, later.store.Change(t.Context(), store.Change{Action: store.Restored, By: "test", At: time.Now().Add(-25 * time.Hour)}))
	later.holds(later.post(path, inLegacy), "v2", 404, "none", "unknown_address")
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post", "X"} {
		s := newTestRelay(t, setup{})
		w := s.send(httptest.NewRequest(method, s.bind(asked("v2", "https://partner.example.com/")), strings.NewReader(inV2)))
		if s.holds(w, "v2", 405, "none", "method"); w.Header().Get("Allow") != "POST" || len(s.stored()) != 0 {
			t.Errorf("%s: %v", method, w.Header())
		}
	}
}

// The method is that of the table.
func TestMethodOfTheTable(t *testing.T) {
	t.Parallel()
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	proxytest.WriteFile(t, overlay, "callbacks: {callback.payment: {method: PUT, answer: {v2: '{\"code\":\"0000\",\"ok\":1}'}}}")
	s := newTestRelay(t, setup{top: fmt.Sprintf("table: {overlay: %q}", overlay)})
	path := s.bind(asked("v2", "https://partner.example.com/"))
	if w := s.post(path, inV2); w.Code != 405 || w.Header().Get("Allow") != "PUT" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
	if w := s.send(httptest.NewRequest("PUT", path, strings.NewReader(inV2))); w.Code != 200 || w.Body.String() != `{"code":"0000","ok":1}` {
		t.Errorf("PUT: %d %s", w.Code, w.Body)
	}
	method := ""
	s.Carry(carrier(func(r *http.Request) (*http.Response, error) {
		method = r.Method
		return reply(200, `{"code":"0000"}`), nil
	}))
	if s.round(); method != "PUT" || s.only().State != "delivered" {
		t.Errorf("%q %+v", method, s.only())
	}
}

func TestContentCodingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{{"gzip"}, {"br"}, {"identity, gzip"}, {"x"}, {"identity", "gzip"}, {"", "gzip"}} {
		s := newTestRelay(t, setup{form: "legacy"})
		r := httptest.NewRequest("POST", s.bind(asked("v2", "https://partner.example.com/")), strings.NewReader(inLegacy))
		r.Header["Content-Encoding"] = lines
		s.holds(s.send(r), "legacy", 415, "up", "coding")
	}
	s := newTestRelay(t, setup{})
	path := s.bind(asked("v2", "https://partner.example.com/"))
	s.accept(path, "1", "Content-Encoding", "Identity")
	s.accept(path, "2", "Content-Encoding", "")
}

// Bodies are limited by the bytes received, whatever the headers say.
func TestR34_CallbackBodiesAreCapped(t *testing.T) {
	t.Parallel()
	for size, status := range map[int]int{1024: 200, 1025: 413, 1 << 20: 413} {
		for _, announced := range []bool{true, false} {
			s := newTestRelay(t, setup{form: "legacy", top: "limits: {body: 1KiB}"})
			server := httptest.NewServer(s)
			defer server.Close()
			path := s.bind(asked("v2", "https://partner.example.com/"))
			var body io.Reader = strings.NewReader(`"` + strings.Repeat("x", size-2) + `"`)
			if !announced {
				body = io.MultiReader(body) // whose length the client does not know: it comes in chunks
			}
			res, err := server.Client().Post(server.URL+path, "text/plain", body)
			if err != nil {
				if size == 1<<20 { // the answer may be lost behind what was not read
					continue
				}
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != status || status != 200 && !res.Close || strings.Contains(string(answer), "xx") {
				t.Errorf("%d bytes, announced %v: %d close %v %s", size, announced, res.StatusCode, res.Close, answer)
			}
			equal(t, len(s.stored()) == 1, status == 200, size)
			if status != 200 {
				s.counts(refused, `{reason="too_large",upstream="up"} 1`)
			}
			lacks(t, s.logs.String(), "xx", "the body is logged")
		}
	}
	s := newTestRelay(t, setup{top: "limits: {body: 1KiB}"})
	r := httptest.NewRequest("POST", s.bind(asked("v2", "https://partner.example.com/")), endless{})
	s.holds(s.send(r), "v2", 413, "up", "too_large")
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, strings.Repeat("[", len(p))), nil }

// An incomplete body is not stored.
func TestIncompleteBodiesAreRefused(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"shorter than announced":  "Content-Length: 100\r\n\r\n" + inLegacy[:50],
		"without the last chunk":  "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"in the middle of one":    "Transfer-Encoding: chunked\r\n\r\n10\r\nhello",
		"a chunk that is no size": "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
	} {
		s := newTestRelay(t, setup{form: "legacy"})
		server := httptest.NewServer(s)
		path := s.bind(asked("v2", "https://partner.example.com/"))
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		must(t, err)
		if _, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s", path, sent); err == nil {
			err = conn.(*net.TCPConn).CloseWrite()
		}
		must(t, err)
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		server.Close() // waits for the request
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) || len(s.stored()) != 0 {
			t.Errorf("%s: %s", name, answer)
		}
		s.counts(refused, `{reason="broken",upstream="up"} 1`)
	}
}

// While the store is unreachable, the upstream gets an answer that makes it try again.
func TestR30_OnlyStoredCallbacksAreAcknowledged(t *testing.T) {
	t.Parallel()
	faulty := func(t *testing.T, s *testRelay, w *httptest.ResponseRecorder, form translate.Form, upstream string) {
		t.Helper()
		if s.holds(w, form, 503, upstream, "store"); w.Header().Get("Retry-After") != "60" {
			t.Errorf("%v", w.Header())
		}
		if got := s.logs.String(); !strings.Contains(got, `"level":"ERROR"`) || strings.Contains(got, bill) || strings.Contains(got, key) {
			t.Error(got)
		}
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		s := newTestRelay(t, setup{form: "legacy"})
		path := s.bind(asked("v2", "https://partner.example.com/"))
		_ = s.store.Close()
		faulty(t, s, s.post(path, inLegacy), "v2", "none") // whose form is not known
	})
	t.Run("closed between", func(t *testing.T) {
		t.Parallel()
		s := newTestRelay(t, setup{form: "legacy"})
		path := s.bind(asked("v2", "https://partner.example.com/"))
		body := io.MultiReader(strings.NewReader(inLegacy), during(func() { _ = s.store.Close() }))
		faulty(t, s, s.send(httptest.NewRequest("POST", path, body)), "legacy", "up")
	})
	t.Run("file deleted", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "store.db")
		s := newTestRelay(t, setup{store: "sqlite:" + file})
		path := s.bind(asked("legacy", "https://partner.example.com/"))
		s.accept(path, inV2)
		body := io.MultiReader(strings.NewReader(notice("v2", key, bill)), during(func() { _ = os.Remove(file) }))
		answers(t, s.send(httptest.NewRequest("POST", path, body)), 503)
		if w := s.post(path, inV2); w.Code != 503 || w.Header().Get("Retry-After") != "60" {
			t.Errorf("a repetition: %d %s", w.Code, w.Body)
		}
	})
	t.Run("upstream gone", func(t *testing.T) {
		t.Parallel()
		s := newTestRelay(t, setup{})
		path := s.bind(asked("v2", "https://partner.example.com/"))
		ctx, cancel := context.WithCancel(t.Context())
		body := io.MultiReader(strings.NewReader(inV2), during(cancel))
		if w := s.send(httptest.NewRequestWithContext(ctx, "POST", path, body)); w.Code == 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("upstream not in the config", func(t *testing.T) {
		t.Parallel()
		s := newTestRelay(t, setup{})
		path := s.bind(asked("v2", "https://partner.example.com/"))
		s.Use(proxytest.Config(t, "upstreams: {another: {form: v2, url: \"http://127.0.0.2:9\"}}\nstore: {url: sqlite:unused.db}\ncallbacks: {public_url: \"https://bridge.example.com\"}\n"))
		if w := s.post(path, inV2); w.Code != 503 || len(s.stored()) != 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// during is an empty reader that calls a function when it is read.
type during func()

func (d during) Read([]byte) (int, error) { d(); return 0, io.EOF }

// An acknowledged callback is on the disk: another process that opens the file finds it.
func TestR30_AcknowledgedIsOnTheDisk(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	s := newTestRelay(t, setup{store: url})
	s.accept(s.bind(asked("legacy", "https://partner.example.com/")), inV2)
	want := s.only()
	if err := s.store.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if got := newTestRelay(t, setup{store: url}).only(); got.ID != want.ID || string(got.Body) != string(want.Body) {
		t.Errorf("%+v", got)
	}
}
