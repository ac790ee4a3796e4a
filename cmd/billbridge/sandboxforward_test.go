package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/sandbox"
)

// A controlDouble answers the requests of a forwarder: the first connects it, the second gets a reply, and the others wait.
type controlDouble struct {
	status  int
	reply   string
	polls   int
	waits   chan struct{}
	answers chan sandbox.ForwardAnswer
}

func (d *controlDouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == "/forwards/cb1":
		var a sandbox.ForwardAnswer
		_ = json.Unmarshal(body, &a)
		d.answers <- a
		_, _ = io.WriteString(w, "{}")
		return
	case r.Header.Get("Authorization") != "Bearer token-a" || !strings.HasPrefix(string(body), `{"forwarder":"`):
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch d.polls++; d.polls {
	case 1:
		_, _ = io.WriteString(w, "{}")
	case 2:
		w.WriteHeader(d.status)
		_, _ = io.WriteString(w, d.reply)
	default:
		close(d.waits)
		<-r.Context().Done()
	}
}

// startForward runs a forwarder until ctx ends.
func startForward(ctx context.Context, t *testing.T, d *controlDouble, to string, errs io.Writer) (ended chan error) {
	d.waits, d.answers = make(chan struct{}), make(chan sandbox.ForwardAnswer, 1)
	control := httptest.NewServer(d)
	t.Cleanup(control.Close)
	c := sandboxForward{ControlToken: "token-a"}
	var err error
	c.Control, err = url.Parse(control.URL)
	must(t, err)
	c.To, err = url.Parse(to)
	must(t, err)
	ended = make(chan error, 1)
	go func() { ended <- c.Run(ctx, system{out: io.Discard, err: errs}) }()
	return ended
}

// The program gets body and headers of the callback, and the sandbox the answer of the program. A redirect is an answer, and is not
// followed. A long answer is cut. The command ends with its context, also while its request waits.
func TestForwardSendsCallbackAndAnswer(t *testing.T) {
	t.Parallel()
	const callback = `{"id":"cb1","bill":"B1","header":{"Content-Type":["application/x"],"Webhook-Id":["cb_1"]},"body":"{\"a\":1}"}`
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		want   sandbox.ForwardAnswer
	}{
		"accepted": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }, sandbox.ForwardAnswer{Status: 200, Body: "yes"}},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, sandbox.ForwardAnswer{Status: 307}},
		"long": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", maxAnswer+1))
		}, sandbox.ForwardAnswer{Status: 200, Body: strings.Repeat("x", maxAnswer)}},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, sandbox.ForwardAnswer{Error: "EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got := []string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Webhook-Id"), string(body)}
				equal(t, strings.Join(got, " "), `POST /paid application/x cb_1 {"a":1}`, "the program")
				row.answer(w, r)
			}))
			t.Cleanup(program.Close)
			ctx, stop := context.WithCancel(t.Context())
			d := &controlDouble{status: http.StatusOK, reply: callback}
			ended := startForward(ctx, t, d, program.URL+"/paid", io.Discard)
			got := <-d.answers
			if got.Error != "" && row.want.Error != "" {
				got.Error = got.Error[len(got.Error)-len(row.want.Error):]
			}
			equal(t, got, row.want, "the sandbox")
			<-d.waits
			stop()
			began := time.Now()
			if err := <-ended; err != nil || time.Since(began) > 10*time.Second {
				t.Errorf("it ended after %s with %v", time.Since(began), err)
			}
		})
	}
}

// A connected forwarder ends when it is refused, such as after its partner was removed. It does not when the sandbox fails.
func TestForwardEndsWhenRefused(t *testing.T) {
	t.Parallel()
	refused := startForward(t.Context(), t, &controlDouble{status: http.StatusUnauthorized, reply: `{"error":"the token is wrong"}`}, "http://127.0.0.1:1", io.Discard)
	if err := <-refused; err == nil || err.Error() != "the sandbox refused the request: the token is wrong" {
		t.Errorf("refused: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	failed := startForward(ctx, t, &controlDouble{status: http.StatusBadGateway}, "http://127.0.0.1:1", write)
	text := make([]byte, 200)
	n, _ := read.Read(text)
	equal(t, string(text[:n]), "cannot reach the sandbox: Bad Gateway\nTrying again.\n", "failed")
	stop()
	must(t, <-failed)
}
