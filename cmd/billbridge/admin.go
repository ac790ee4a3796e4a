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

// adminFlags say which gateway is meant.
type adminFlags struct {
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL" help:"The gateway's admin listener (${default})."`
	Token string `env:"BILLBRIDGE_ADMIN_TOKEN" placeholder:"TOKEN" help:"Its token, if it has one. Better left to the environment: a list of processes shows this."`
}

// An adminError is an answer of the admin listener that is no success.
type adminError struct {
	status int
	text   string // the gateway's
}

func (e *adminError) Error() string {
	return fmt.Sprintf("the gateway refuses (%d): %s", e.status, e.text)
}

func (a *adminFlags) get(ctx context.Context, path string, into any) error {
	return a.call(ctx, http.MethodGet, path, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}

// call asks the admin listener. read may be nil.
func (a *adminFlags) call(ctx context.Context, method, path string, read func(io.Reader) error) error {
	return a.callWith(ctx, method, path, nil, read)
}

// callWith is call with a body, which may be nil.
func (a *adminFlags) callWith(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
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
			err = fmt.Errorf("%s: %w", base.Redacted(), failed.Err) // without the query, which may name a partner in full
		}
		return fmt.Errorf("no gateway answers: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		text = bytes.TrimSpace(text)
		if response.StatusCode == http.StatusNotFound && bytes.Contains(text, []byte("404 page not found")) {
			return fmt.Errorf("the gateway at %s has no %s", a.Admin, lacking(path))
		}
		return &adminError{response.StatusCode, string(text)}
	}
	if read == nil {
		return nil
	}
	return read(response.Body)
}

// lacking is what a gateway has not that knows no such page, and why.
func lacking(path string) string {
	if strings.HasPrefix(path, "/rollout") {
		return "rollout: its config has no such section"
	}
	if strings.HasPrefix(path, "/store") {
		return "store: its config names none"
	}
	return "callbacks: its config names no store"
}
