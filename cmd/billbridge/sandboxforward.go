package main

import (
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
	Control      *url.URL `default:"http://127.0.0.1:8082" placeholder:"URL" help:"The control address of the sandbox (${default})."`
	ControlToken string   `env:"BILLBRIDGE_SANDBOX_TOKEN" placeholder:"TOKEN" help:"The control token of the partner or of the sandbox. Prefer the environment variable: other users can see the arguments of a process."`
	Partner      string   `placeholder:"KEY" help:"The API key of the partner whose callbacks are forwarded. If omitted, the partner of the control token."`
	To           *url.URL `required:"" placeholder:"URL" help:"Send callbacks to this URL."`
}

const (
	forwardRetry   = 5 * time.Second  // until the next request if the sandbox cannot be reached
	forwardTimeout = 30 * time.Second // of a request; the sandbox takes time to wait for a callback
	maxForwarded   = 8 << 20          // bytes of a reply
	maxAnswer      = 64 << 10         // bytes of an answer to a callback: the sandbox reads no more
	shownAnswer    = 200              // bytes of it that are printed
)

var errRefused = errors.New("the sandbox refused the request")

// Run forwards until ctx ends.
func (c *sandboxForward) Run(ctx context.Context, s system) error {
	if c.To.Host == "" {
		return usageError("--to must be a URL such as http://127.0.0.1:3000/paid")
	}
	ctx, stop := context.WithCancel(ctx)
	var forwards sync.WaitGroup
	defer forwards.Wait()
	defer stop()
	self := map[string]string{"partner": c.Partner, "forwarder": rand.Text()}
	if err := c.call(ctx, "forwards", self, &struct{}{}); err != nil {
		return err
	}
	printf(s.out, "Forwarding callbacks to %s\n", c.To.String())
	for ctx.Err() == nil {
		var next sandbox.Forwarded
		err := c.call(ctx, "forwards", self, &next)
		switch {
		case errors.Is(err, errRefused):
			return err
		case next.ID != "":
			forwards.Go(func() { c.forward(ctx, s, next) })
		case err != nil && ctx.Err() == nil:
			printf(s.err, "%v\nTrying again.\n", linesOf(err))
			select {
			case <-time.After(forwardRetry):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// forward sends a callback to the developer's program, and the answer to the sandbox.
func (c *sandboxForward) forward(ctx context.Context, s system, next sandbox.Forwarded) {
	var answer sandbox.ForwardAnswer
	status, body, err := c.post(ctx, c.To, next.Header, next.Body)
	answer.Status, answer.Body = status, string(body[:min(len(body), maxAnswer)])
	shown := fmt.Sprint(status, " ", answer.Body[:min(len(body), shownAnswer)])
	if err != nil {
		answer.Error = err.Error()
		shown = answer.Error
	}
	if err := c.call(ctx, "forwards/"+next.ID, answer, &struct{}{}); err != nil {
		shown += " (" + err.Error() + ")"
	}
	printf(s.out, "%s  %s  %s\n", time.Now().Format(time.RFC3339), next.Bill, strings.Join(strings.Fields(shown), " "))
}

// call calls the control API.
func (c *sandboxForward) call(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	header := http.Header{"Authorization": {"Bearer " + c.ControlToken}}
	status, reply, err := c.post(ctx, c.Control.JoinPath(path), header, string(text))
	if status >= http.StatusInternalServerError {
		err = errors.New(http.StatusText(status))
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot reach the sandbox: %w", err)
	case status != http.StatusOK:
		refused := struct{ Error string }{http.StatusText(status)}
		_ = json.Unmarshal(reply, &refused)
		return fmt.Errorf("%w: %s", errRefused, refused.Error)
	}
	return json.Unmarshal(reply, out)
}

// post makes a request. It does not follow redirects, as the sandbox does not.
func (*sandboxForward) post(
	ctx context.Context, to *url.URL, header http.Header, body string,
) (status int, reply []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header = header
	client := http.Client{
		Timeout:       forwardTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	reply, err = io.ReadAll(io.LimitReader(response.Body, maxForwarded))
	return response.StatusCode, reply, err
}
