package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"billbridge/proxy/sandbox"
)

type sandboxForward struct {
	Control      string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"The control address of the sandbox (${default})."`
	ControlToken string `env:"BILLBRIDGE_SANDBOX_TOKEN" placeholder:"TOKEN" help:"The control token of the partner or of the sandbox. Prefer the environment variable: other users can see the arguments of a process."`
	Partner      string `placeholder:"KEY" help:"The API key of the partner whose callbacks are forwarded. If omitted, the partner of the control token."`
	To           string `required:"" placeholder:"URL" help:"Send callbacks to this URL."`
}

const (
	forwardRetry  = time.Second      // between two requests if the sandbox cannot be reached
	sandboxWait   = 30 * time.Second // for a reply of the sandbox, which waits for a callback
	maxForwarded  = 8 << 20          // bytes of a reply of the sandbox
	maxAnswer     = 64 << 10         // bytes of an answer, as the sandbox reads of one
	shownOfAnswer = 200
)

// Run forwards until ctx ends.
func (c *sandboxForward) Run(ctx context.Context, s system) error {
	for flag, value := range map[string]string{"control": c.Control, "to": c.To} {
		if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usageError("--" + flag + " must be an http or https URL, but is " + withoutSecrets(value))
		}
	}
	ctx, stop := context.WithCancel(ctx)
	var forwards sync.WaitGroup
	defer forwards.Wait()
	defer stop()
	connect := map[string]string{"partner": c.Partner, "forwarder": rand.Text()}
	for known, connected := false, false; ; {
		var next sandbox.Forwarded
		err := c.call(ctx, "/forwards", connect, &next)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (errors.Is(err, errRefused) || !known):
			return err
		case err != nil && connected:
			printf(s.err, "%v\nTrying again.\n", linesOf(err))
		case err == nil && !connected:
			printf(s.out, "Forwarding callbacks to %s\n", c.To)
		}
		known, connected = true, err == nil
		switch {
		case err != nil:
			select {
			case <-time.After(forwardRetry):
			case <-ctx.Done():
			}
		case next.ID != "":
			forwards.Go(func() { c.forward(ctx, s, next) })
		}
	}
}

// forward sends a callback to the developer's program, and the answer to the sandbox.
func (c *sandboxForward) forward(ctx context.Context, s system, next sandbox.Forwarded) {
	answer, err := c.send(ctx, next)
	shown := fmt.Sprint(answer.Status, " ", answer.Body[:min(len(answer.Body), shownOfAnswer)])
	if err != nil {
		answer.Error = err.Error()
		shown = answer.Error
	}
	body := struct {
		Partner string `json:"partner"`
		sandbox.ForwardAnswer
	}{c.Partner, answer}
	if err := c.call(ctx, "/forwards/"+next.ID, body, nil); err != nil {
		shown += " (" + err.Error() + ")"
	}
	printf(s.out, "%s  %s  %s\n", time.Now().Format(time.RFC3339), next.Bill, strings.Join(strings.Fields(shown), " "))
}

func (c *sandboxForward) send(ctx context.Context, next sandbox.Forwarded) (answer sandbox.ForwardAnswer, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(next.TimeoutMS)*time.Millisecond)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.To, strings.NewReader(next.Body))
	if err != nil {
		return answer, err
	}
	request.Header = next.Header
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return sandbox.ForwardAnswer{Status: response.StatusCode, Body: string(body)}, err
}

var (
	errRefused   = errors.New("the sandbox refused the request")
	errNoSandbox = errors.New("cannot reach the sandbox")
)

// call calls the control API. into may be nil.
func (c *sandboxForward) call(ctx context.Context, path string, body, into any) error {
	ctx, stop := context.WithTimeout(ctx, sandboxWait)
	defer stop()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	address := strings.TrimSuffix(c.Control, "/") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if c.ControlToken != "" {
		request.Header.Set("Authorization", "Bearer "+c.ControlToken)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoSandbox, err)
	}
	defer func() { _ = response.Body.Close() }()
	reply := json.NewDecoder(io.LimitReader(response.Body, maxForwarded))
	if response.StatusCode != http.StatusOK {
		refused := struct{ Error string }{response.Status}
		_ = reply.Decode(&refused)
		kind := errRefused
		if response.StatusCode >= http.StatusInternalServerError {
			kind = errNoSandbox
		}
		return fmt.Errorf("%w: %s", kind, refused.Error)
	}
	if into == nil {
		return nil
	}
	return reply.Decode(into)
}
