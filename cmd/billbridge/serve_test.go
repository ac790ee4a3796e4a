package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// After SIGTERM the gateway is not ready and accepts no call, but the call under way gets the upstream's answer, and the
// exit code is 0.
func TestSIGTERMAnswersCallsUnderWay(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		_, _ = io.WriteString(w, `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"k-1","billId":"A1"}}`)
	}))
	t.Cleanup(backend.Close)
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release) // before Close, which waits for the call
	text := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams: {new: {form: v2, url: " + backend.URL + "}}\n"
	gateway := serve(t, t.TempDir(), nil, text)
	gives(t, http.StatusOK, "before: ready")(httpCall(t, http.MethodGet, "http://"+gateway.operator+"/-/ready", ""))

	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	go func() {
		status, body := httpCall(t, http.MethodPost, "http://"+gateway.partners+"/if/bill/resend", `{"apikey":"k-1","bill_id":"A1"}`)
		answers <- answer{status, body}
	}()
	<-arrived
	must(t, gateway.cmd.Process.Signal(syscall.SIGTERM))
	works(t)(gateway.await("stderr", `"msg":"draining"`))
	gives(t, http.StatusServiceUnavailable, "draining: ready")(httpCall(t, http.MethodGet, "http://"+gateway.operator+"/-/ready", ""))
	release()
	if got, want := <-answers, (answer{200, `{"code":"0000","msg":"성공하였습니다."}`}); got != want {
		t.Errorf("the call under way got %v, want %v", got, want)
	}
	gateway.ends(t)
	fails(t, "", "the gateway still accepts connections")(http.Get("http://" + gateway.partners + "/"))
}

// httpCall makes one call. It can run in another goroutine: it does not end the test.
func httpCall(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	text, err := io.ReadAll(reply.Body)
	_ = reply.Body.Close()
	must(t, err)
	return reply.StatusCode, strings.TrimSpace(string(text))
}
