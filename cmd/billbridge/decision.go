package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/server"

	"github.com/alecthomas/kong"
)

// decisionFlags are the flags of every change.
type decisionFlags struct {
	adminFlags
	By     given `placeholder:"NAME"`
	Reason given `placeholder:"TEXT"`
}

// author returns who decides, for the audit log. Without a name it is that of the token, which the gateway knows.
func (f *decisionFlags) author(ctx context.Context) (a operate.Author, err error) {
	if a.By, a.Reason = string(f.By), string(f.Reason); a.By != "" {
		return a, nil
	}
	if f.Token != "" {
		var who server.Identity
		if err := f.get(ctx, "/-/identity", &who); err != nil || who.Name != "" {
			return a, err
		}
	}
	if a.By, _ = f.env("USER"); a.By == "" { // as in a container: no decision fails for want of a name
		host, _ := os.Hostname()
		a.By = fmt.Sprintf("uid %d at %s", os.Getuid(), host)
	}
	return a, nil
}

// A verb changes something at the gateway.
type verb struct {
	path    string // of the admin listener
	said    string // the template of the answer
	preview bool   // with --dry-run: show the change and the reasons against it, and change nothing
}

// do makes a change with values of package operate, or shows it, and prints the answer. Each command that changes
// something ends here. A refusal is an error that names the reasons; answer is where the answer is decoded.
func (f *decisionFlags) do(ctx context.Context, v verb, answer any, in ...any) error {
	if v.preview {
		in = append(in, operate.Switch{Preview: true})
	} else {
		by, err := f.author(ctx)
		if err != nil {
			return err
		}
		in = append(in, by)
	}
	err := f.send(ctx, http.MethodPost, v.path, answer, in...)
	changed, _ := answer.(*operate.Change)
	switch {
	case err != nil && !v.preview && !isRefusal(err) && errors.As(err, new(*adminError)):
		// The gateway stopped waiting for the store, which may still make the change.
		return fmt.Errorf("%w\nUnless it says otherwise, the change may have been made. To see, run billbridge "+
			"rollout status", err)
	case err != nil:
		return err
	case changed == nil:
	case changed.Unstored != "" && !changed.Already:
		return fmt.Errorf("stopped on this gateway only, which creates new bills at the old backend. The store did "+
			"not record it: %s\n"+
			"The gateway retries every second. Until the store has recorded it, other gateways are not stopped, "+
			"and a restart of this one ends it", changed.Unstored)
	case changed.Warning.Kind != "":
		printf(f.err, "Warning: %s.\n", changed.Warning)
	}
	return show(f.out, v.said, answer)
}

// rollout is do for a change of the rollout.
func (f *decisionFlags) rollout(ctx context.Context, action string, in ...any) error {
	return f.do(ctx, verb{path: "/rollout/" + action, said: action}, &operate.Change{}, in...)
}

// isRefusal reports whether the gateway refused a request, and so changed nothing.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*adminError](err)
	return ok && failed.status < http.StatusInternalServerError
}

// decodeForce reads the value of --force: the kinds of the reasons that a change overrides, separated by commas.
// Without a value the gateway refuses the change, with the names of the reasons.
func decodeForce(ctx *kong.DecodeContext, target reflect.Value) error {
	names := "true"
	if next := ctx.Scan.Peek(); !next.IsEOL() && next.IsValue() {
		if err := ctx.Scan.PopValueInto("names", &names); err != nil {
			return err
		}
	}
	if names == "" {
		return errors.New("--force is empty: name the reasons that the change overrides")
	}
	return target.Addr().Interface().(*operate.Force).UnmarshalText([]byte(names))
}

// hints are the commands with which an operator sees or clears the reasons of a kind.
var hints = map[moves.ReasonKind]string{
	moves.Undrained:      "To list them: billbridge bills list --owner old --open",
	moves.WrongClock:     "If the clock is right: billbridge store clock --confirm",
	moves.MoneyElsewhere: "If the cause is fixed: billbridge rollout reset --partner REF --force verdict",
}

// reasonLines returns reasons against a change and, after the last one of a kind, what to do, each at the beginning of
// a line.
func reasonLines(reasons []moves.BlockingReason) (text lines) {
	for i, reason := range reasons {
		text += lines(fmt.Sprintf("\n  %s [%s]", printable(reason.Text.String()), reason.Kind))
		sameKind := func(r moves.BlockingReason) bool { return r.Kind == reason.Kind }
		if hint := hints[reason.Kind]; hint != "" && !slices.ContainsFunc(reasons[i+1:], sameKind) {
			text += "\n    " + lines(hint)
		}
	}
	return text
}
