package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/relay"
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
	for reason, bodies := range map[string][]string{
		"another_partner": {
			notice("legacy", "stolen", bill),
			`{"apikey":"stolen"}`,
			notice("legacy", hash(key), bill),
			notice("legacy", "Demo-Key", bill),
			`{"apikey":1}`,
			notice("v2", "stolen", bill),
			`{"apikey":"demo-key","apiKey":"stolen"}`,
			`{"apikey":"stolen","apiKey":"demo-key"}`,
			notice("legacy", "stolen", "another"),
		},
		"another_bill": {
			notice("legacy", key, "another"),
			`{"bill_id":"another"}`,
			notice("v2", key, "another"),
			`{"bill_id":"` + bill + `","billId":"another"}`,
		},
	} {
		for _, body := range bodies {
			for _, form := range forms {
				s := newTestRelay(t, setup{form: "legacy"})
				path := s.path(form)
				w := s.post(path, body)
				s.holds(w, "legacy", 404, "up", reason)
				equal(t, len(s.stored()), 0, body)
				s.accept(path, notice("legacy", key, bill)) // the right one still passes
			}
		}
	}
}

// The address of a registration accepts any bill of its partner, but not two in one callback.
func TestAddressOfARegistration(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	path := s.registered("s")
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
		path := s.registered("s")
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
			w := s.post(s.path(form), body)
			s.holds(w, "legacy", 400, "up", "ambiguous")
			equal(t, len(s.stored()), 0, body)
		}
	}
}

// A call to a random path gets no information, causes no query of the store, and is counted.
func TestInvalidPathsAreRefused(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{form: "legacy"})
	path := s.path("v2")
	id := strings.TrimPrefix(path, "/callback/")
	for target, status := range map[string]int{
		path: 200, path + "?apikey=stolen&x=%zz": 200, "/any/prefix" + path: 200, "/callback/x" + path: 200, "/%2f" + path: 200,
		path + "/": 404, strings.ToUpper(path): 404, "/callback/" + strings.ToUpper(id): 404, "/callback%2F" + id: 404, "/callback/%" + fmt.Sprintf("%02x", id[0]) + id[1:]: 404,
		"/callback/" + id + "%2F": 404, "/callback/" + id + "%00": 404, "/callback/" + id + ";x": 404, "/callback/" + id[1:]: 404, "/callback/": 404, "/": 404, "/callback//" + id: 404,
		"/callbacks/" + id: 404, "/xcallback/" + id: 404, "/callback/g" + id[1:]: 404, path + "0": 404, path + "/callback/": 404,
	} {
		answers(t, s.post(target, inLegacy), status)
		equal(t, relay.Owns(httptest.NewRequest("POST", target, nil).URL.EscapedPath()), status == 200, target)
	}
	s.only()
	s.counts(refused, `{reason="path",upstream="none"} 17`)
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

// The method and the answer are those of the table; no other method is accepted.
func TestMethodOfTheTable(t *testing.T) {
	t.Parallel()
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	proxytest.WriteFile(t, overlay, "callbacks: {callback.payment: {method: PUT, answer: {v2: '{\"code\":\"0000\",\"ok\":1}'}}}")
	for right, of := range map[string]setup{"POST": {}, "PUT": {top: fmt.Sprintf("table: {overlay: %q}", overlay)}} {
		for method := range strings.FieldsSeq("GET HEAD DELETE OPTIONS post X POST PUT") {
			s := newTestRelay(t, of)
			w := s.send(httptest.NewRequest(method, s.path("v2"), strings.NewReader(inV2)))
			if method != right {
				s.holds(w, "v2", 405, "none", "method")
				equal(t, w.Header().Get("Allow"), right)
				equal(t, len(s.stored()), 0)
				continue
			}
			answers(t, w, 200, map[string]string{"POST": `{"code":"0000"}`, "PUT": `{"code":"0000","ok":1}`}[method])
			s.carry(func(r *http.Request) (*http.Response, error) {
				equal(t, r.Method, method)
				return reply(200, `{"code":"0000"}`), nil
			})
			s.round()
			equal(t, s.only().State, store.Delivered)
		}
	}
}

// What is no content coding, such as a charset, is ignored over JSON. A coding may hide what the body says.
func TestContentCodingsAreRefused(t *testing.T) {
	t.Parallel()
	codings := strings.Fields("gzip x-gzip DEFLATE br zstd compress x-compress dcb dcz exi pack200-gzip aes128gcm")
	for _, lines := range slices.Concat([][]string{{"identity, gzip"}, {"identity", "gzip"}, {"", "gzip"}, {"utf-8,\tgzip"}}, slices.Collect(slices.Chunk(codings, 1))) {
		s := newTestRelay(t, setup{form: "legacy"})
		r := httptest.NewRequest("POST", s.path("v2"), strings.NewReader(inLegacy))
		r.Header["Content-Encoding"] = lines
		s.holds(s.send(r), "legacy", 415, "up", "coding")
		s.counts(ignored)
	}
	for _, body := range []string{"", "paid", "bill_id=" + bill, inLegacy + inLegacy, "\ufeff" + inLegacy, compressed(t, "gzip", inLegacy)} {
		s := newTestRelay(t, setup{form: "legacy"})
		s.holds(s.post(s.path("v2"), body, "Content-Encoding", "utf-8"), "legacy", 415, "up", "coding")
		s.counts(ignored)
	}
	for _, coding := range []string{"UTF-8", "utf-8", "text", "x", "identity, utf-8", "utf8;q=1"} {
		s := newTestRelay(t, setup{form: "legacy"})
		s.accept(s.path("v2"), inLegacy, "Content-Encoding", coding)
		equal(t, s.only().Bill, bill)
		s.counts(ignored, counted)
	}
	s := newTestRelay(t, setup{})
	path := s.path("v2")
	s.accept(path, "1", "Content-Encoding", "Identity")
	s.accept(path, "2", "Content-Encoding", "")
	s.counts(ignored)
}

// Bodies are limited by the bytes received, whatever the headers say.
func TestR34_CallbackBodiesAreCapped(t *testing.T) {
	t.Parallel()
	for size, status := range map[int]int{1024: 200, 1025: 413, 1 << 20: 413} {
		for _, announced := range []bool{true, false} {
			s := newTestRelay(t, setup{form: "legacy", top: "limits: {body: 1KiB}"})
			server := httptest.NewServer(s)
			defer server.Close()
			path := s.path("v2")
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
}

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
		path := s.path("v2")
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
	file := filepath.Join(t.TempDir(), "store.db")
	nothing, closes := func(*testRelay, func()) {}, func(s *testRelay, _ func()) { _ = s.store.Close() }
	for name, c := range map[string]struct {
		of             setup
		before, within func(s *testRelay, leave func())
		form           translate.Form // of the answer, if it is that of a store that fails
		upstream       string
	}{
		"closed":         {setup{form: "legacy"}, closes, nothing, "v2", "none"}, // whose form is not known
		"closed between": {setup{form: "legacy"}, nothing, closes, "legacy", "up"},
		"file deleted":   {setup{store: "sqlite:" + file}, nothing, func(*testRelay, func()) { _ = os.Remove(file) }, "v2", "up"},
		"upstream gone":  {setup{}, nothing, func(_ *testRelay, leave func()) { leave() }, "", ""},
		"upstream not in the config": {setup{}, func(s *testRelay, _ func()) {
			s.Use(proxytest.Config(t, "upstreams: {another: {form: v2, url: \"http://127.0.0.2:9\"}}\nstore: {url: sqlite:unused.db}\ncallbacks: {public_url: \"https://bridge.example.com\"}\n"))
		}, nothing, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestRelay(t, c.of)
			path := s.path("v2")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			c.before(s, leave)
			body := io.MultiReader(strings.NewReader(inV2), during(func() { c.within(s, leave) }))
			w := s.send(httptest.NewRequestWithContext(ctx, "POST", path, body))
			if equal(t, w.Code == 200, false); c.upstream == "" {
				return
			}
			s.holds(w, c.form, 503, c.upstream, "store")
			for _, w := range []*httptest.ResponseRecorder{w, s.post(path, inV2)} { // and a repetition
				equal(t, fmt.Sprint(w.Code, w.Header().Get("Retry-After")), "50360")
			}
			got := s.logs.String()
			has(t, got, `"level":"ERROR"`)
			lacks(t, got, bill)
			lacks(t, got, key)
		})
	}
}

// during is an empty reader that calls a function when it is read.
type during func()

func (d during) Read([]byte) (int, error) { d(); return 0, io.EOF }
