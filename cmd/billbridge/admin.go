package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// adminFlags name the gateway.
type adminFlags struct {
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" help:"The gateway's admin listener (${default})."`
	Token string `env:"BILLBRIDGE_ADMIN_TOKEN" placeholder:"TOKEN" help:"The gateway's admin token, if it has one. Prefer the environment variable: other users can see the arguments of a process."`
}

// An adminError is an error response of the admin listener.
type adminError struct {
	status int
	text   string // the body
}

func (e *adminError) Error() string {
	if e.status >= http.StatusInternalServerError {
		return fmt.Sprintf("the gateway failed (%d): %s", e.status, e.text)
	}
	return fmt.Sprintf("the gateway refused the request (%d): %s", e.status, e.text)
}

// get decodes the JSON at a path of the admin listener.
func (a *adminFlags) get(ctx context.Context, path string, into any) error {
	return a.call(ctx, http.MethodGet, path, nil, decodeInto(into))
}

// call sends a request to the admin listener. body and read may be nil.
func (a *adminFlags) call(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	base, err := url.Parse(a.Admin)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return usageError(fmt.Sprintf("--admin must be a URL such as http://127.0.0.1:9090, but is %q", a.Admin))
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.Admin, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if a.Token != "" {
		request.Header.Set("Authorization", "Bearer "+a.Token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // without the URL, whose query may have the full hash of a partner's key
		}
		return fmt.Errorf("cannot reach the gateway at %s: %w\nIs it running? Give the URL of its admin listener with --admin", base.Redacted(), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		text = bytes.TrimSpace(text)
		if response.StatusCode == http.StatusNotFound && bytes.Contains(text, []byte("404 page not found")) {
			return fmt.Errorf("the gateway at %s has no %s", a.Admin, missingSection(path))
		}
		return &adminError{response.StatusCode, string(text)}
	}
	if read == nil {
		return nil
	}
	return read(response.Body)
}

// decodeInto returns a function that decodes JSON into a value.
func decodeInto(into any) func(io.Reader) error {
	return func(body io.Reader) error { return json.NewDecoder(body).Decode(into) }
}

// missingSection explains why a gateway does not have a path.
func missingSection(path string) string {
	if strings.HasPrefix(path, "/rollout") {
		return "rollout: its config has no rollout section"
	}
	if strings.HasPrefix(path, "/store") {
		return "store: its config has no store section"
	}
	return "callbacks: its config has no store section"
}
