package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// An apiError is an error that the admin API has answered with.
type apiError struct {
	status int
	text   string // of the API, in English
}

func (e *apiError) Error() string { return e.text }

// problemOf returns the text of an error of the API that is about what the visitor asked for: 400, 409, and the statuses of also.
func problemOf(err error, also ...int) (text string, ok bool) {
	api := (*apiError)(nil)
	if !errors.As(err, &api) || !slices.Contains(append(also, http.StatusBadRequest, http.StatusConflict), api.status) {
		return "", false
	}
	return api.text, true
}

// call calls a handler of the admin API in this process, and decodes its answer into answer, unless that is nil. target is path and
// query as in the API. An answer other than 200 is an *apiError.
func (c *Console) call(r *http.Request, api http.Handler, method, target string, body []byte, answer any) error {
	reply, err := c.answerOf(r, api, method, target, body)
	switch {
	case err != nil:
		return err
	case reply.status != http.StatusOK:
		return &apiError{reply.status, strings.TrimSpace(reply.body.String())}
	case answer == nil:
		return nil
	}
	if err := json.NewDecoder(&reply.body).Decode(answer); err != nil && err != io.EOF {
		return fmt.Errorf("%s %s: %w", method, target, err)
	}
	return nil
}

// callText returns the text with which a handler of the admin API answers, whatever its status, or "".
func (c *Console) callText(r *http.Request, api http.Handler, target string) string {
	reply, err := c.answerOf(r, api, http.MethodGet, target, nil)
	if err != nil {
		return ""
	}
	return reply.body.String()
}

func (c *Console) answerOf(r *http.Request, api http.Handler, method, target string, body []byte) (*recorder, error) {
	if api == nil {
		return nil, &apiError{http.StatusNotFound, "this gateway has no such section: its config has no rollout or no store"}
	}
	request, err := http.NewRequestWithContext(r.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.RemoteAddr = r.RemoteAddr
	reply := &recorder{header: http.Header{}, status: http.StatusOK}
	api.ServeHTTP(reply, request)
	return reply, nil
}

// A recorder is a ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header            { return r.header }
func (r *recorder) WriteHeader(status int)         { r.status = status }
func (r *recorder) Write(part []byte) (int, error) { return r.body.Write(part) }
