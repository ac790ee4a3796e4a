package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"billbridge/proxy/operate"
)

// askWithin bounds what a page waits for.
const askWithin = 10 * time.Second

// ask calls a function of the operator for a page.
func ask[In, Out any](r *http.Request, verb func(context.Context, In) (Out, error), in In) (Out, error) {
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	return verb(ctx, in)
}

// askNext is ask after other questions, unless one of them has failed.
func askNext[In, Out any](
	r *http.Request, err *error, verb func(context.Context, In) (Out, error), in In,
) (out Out) {
	if *err == nil {
		out, *err = ask(r, verb, in)
	}
	return out
}

// problemOf returns the text of an error that is about what the visitor asked for: the values, the state, and also
// further ones.
func problemOf(err error, also ...operate.Refusal) (text string, ok bool) {
	refused := (*operate.Error)(nil)
	also = append(also, operate.BadRequest, operate.Conflict)
	if !errors.As(err, &refused) || !slices.Contains(also, refused.Refusal) {
		return "", false
	}
	return err.Error(), true
}

// statusOf returns the status of a page for an error.
func statusOf(err error) int {
	if refused := (*operate.Error)(nil); errors.As(err, &refused) {
		return refused.Refusal.Status()
	}
	return http.StatusInternalServerError
}

// A Problem is why the gateway is not ready.
type Problem struct {
	Name string // of the check
	Text string
}
