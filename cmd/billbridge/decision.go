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
	By given `placeholder:"NAME" help:"Your name, for the audit log. If omitted, the name of the token (admin.tokens), or else the environment variable USER, or else the number of the user and the host. A token with a name allows no other one."`
}

// author returns who decides, for the audit log. Without a name it is that of the token, which the gateway knows.
func (f *decisionFlags) author(ctx context.Context) (a operate.Author, err error) {
	if a.By = string(f.By); a.By != "" {
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

// post is send with POST, for a change.
func (f *decisionFlags) post(ctx context.Context, path string, into any, in ...any) error {
	by, err := f.author(ctx)
	if err != nil {
		return err
	}
	return f.send(ctx, http.MethodPost, path, into, append(in, by)...)
}

// showPosted is post, and prints the answer with a template. answer is where it is decoded.
func (f *decisionFlags) showPosted(ctx context.Context, path, name string, answer any, in ...any) error {
	if err := f.post(ctx, path, answer, in...); err != nil {
		return err
	}
	return show(f.out, name, answer)
}

// decide makes a change of the rollout at the gateway, with values of package operate.
func (f *decisionFlags) decide(ctx context.Context, action string, in ...any) (changed operate.Change, err error) {
	err = f.post(ctx, "/rollout/"+action, &changed, in...)
	var failed *adminError
	if errors.As(err, &failed) && failed.status >= http.StatusInternalServerError {
		// The gateway stopped waiting for the store, which may still make the change.
		err = fmt.Errorf("%w\nUnless it says otherwise, the change may have been made. To see, run billbridge "+
			"rollout status", failed)
	}
	return changed, err
}

// change is decide, and prints the change.
func (f *decisionFlags) change(ctx context.Context, action string, in ...any) error {
	changed, err := f.decide(ctx, action, in...)
	if err != nil {
		return err
	}
	return f.showChange(action, changed)
}

// showChange prints a change, and its warning.
func (f *decisionFlags) showChange(name string, changed operate.Change) error {
	if changed.Warning.Kind != "" {
		printf(f.err, "Warning: %s.\n", changed.Warning)
	}
	return show(f.out, name, changed)
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
