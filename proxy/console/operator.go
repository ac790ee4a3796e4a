package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"billbridge/proxy/operate"
)

// Rollout is what the pages show and change of the rollout. It is an [operate.Operator].
type Rollout interface {
	Status(context.Context, operate.Page) (operate.Status, error)
	Board(context.Context, operate.BoardPage) (operate.Board, error)
	Report(context.Context, operate.PartnerRef) (operate.Report, error)
	Audit(context.Context, operate.AuditPage) ([]operate.Change, error)
	Bills(context.Context, operate.BillFilter) (operate.BillList, error)
	Read(context.Context, operate.BillRef) (operate.Bill, error)

	Move(context.Context, operate.Move) (operate.Change, error)
	Next(context.Context, operate.Move) (operate.Change, error)
	Unset(context.Context, operate.Unset) (operate.Change, error)
	Stop(context.Context, operate.Switch) (operate.Change, error)
	Resume(context.Context, operate.Switch) (operate.Change, error)
}

// Callbacks is what the pages show and decide of callbacks. It is an [operate.Operator].
type Callbacks interface {
	Callbacks(context.Context, operate.CallbackFilter) (operate.CallbackPage, error)
	Counts(context.Context, operate.CountLimit) (operate.Counts, error)
	Callback(context.Context, operate.CallbackRef) (operate.Callback, error)
	ReplayOne(context.Context, operate.Choice) (operate.Progress, error)
	DropOne(context.Context, operate.Choice) (operate.Progress, error)
	Replay(context.Context, operate.Selection, func(operate.Progress)) error
	Drop(context.Context, operate.Selection, func(operate.Progress)) error
}

// askWithin bounds what a page waits for.
const askWithin = 10 * time.Second

// ask calls a function of the operator for a page.
func ask[In, Out any](r *http.Request, verb func(context.Context, In) (Out, error), in In) (Out, error) {
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	return verb(ctx, in)
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
