package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"billbridge/proxy/operate"
	"billbridge/proxy/rollout"
	"billbridge/proxy/server"

	"github.com/alecthomas/kong"
)

// decisionFlags are the flags of every change.
type decisionFlags struct {
	adminFlags
	By *string `placeholder:"NAME" help:"Your name, for the audit log. If omitted, the name of the token (admin.tokens), or else the environment variable USER. A token with a name allows no other one."`
}

// sign sets the name for the audit log. "" means the name of the token, which the gateway knows.
func (f *decisionFlags) sign(ctx context.Context, s system, a *operate.Author) error {
	if f.By != nil {
		if a.By = *f.By; a.By == "" {
			return usageError("--by is empty")
		}
		return nil
	}
	if f.Token != "" {
		var who server.Identity
		if err := f.get(ctx, "/-/identity", nil, &who); err != nil || who.Name != "" {
			return err
		}
	}
	if a.By, _ = s.env("USER"); a.By == "" {
		return usageError("--by is missing: give your name for the audit log, or set the environment variable USER")
	}
	return nil
}

// change makes a change of the rollout at the gateway. author is that of the change.
func (f *decisionFlags) change(
	ctx context.Context, s system, action string, in any, author *operate.Author,
) (changed operate.Change, err error) {
	if err := f.sign(ctx, s, author); err != nil {
		return changed, err
	}
	err = f.send(ctx, http.MethodPost, "/rollout/"+action, in, &changed)
	var failed *adminError
	if errors.As(err, &failed) && failed.status >= http.StatusInternalServerError {
		// The gateway stopped waiting for the store, which may still make the change.
		err = fmt.Errorf("%w\nUnless it says otherwise, the change may have been made. To see, run billbridge rollout status", failed)
	}
	return changed, err
}

// changeOnly makes a change without parameters and prints a message.
func (f *decisionFlags) changeOnly(ctx context.Context, s system, action, message string) error {
	var a operate.Author
	if _, err := f.change(ctx, s, action, &a, &a); err != nil {
		return err
	}
	printf(s.out, "%s\n", message)
	return nil
}

// A forceFlag names the reasons that a change overrides, separated by commas. --force without names is sent as it is: the gateway
// refuses it, with the names of the reasons.
type forceFlag operate.Force

// Decode implements kong.MapperValue. The value can be missing.
func (f *forceFlag) Decode(ctx *kong.DecodeContext) error {
	names := "true"
	if next := ctx.Scan.Peek(); !next.IsEOL() && next.IsValue() {
		if err := ctx.Scan.PopValueInto("names", &names); err != nil {
			return err
		}
	}
	if names == "" {
		return errors.New("--force is empty: name the reasons that the change overrides")
	}
	return (*operate.Force)(f).UnmarshalText([]byte(names))
}

// hints are the commands with which an operator sees or clears the reasons of a kind.
var hints = map[rollout.ReasonKind]string{
	rollout.Undrained:      "To list them: billbridge bills list --owner old --open",
	rollout.WrongClock:     "If the clock is right: billbridge store clock --confirm",
	rollout.MoneyElsewhere: "If the cause is fixed: billbridge rollout reset --partner REF --force verdict",
}

// reasonLines returns reasons against a change and, after the last one of a kind, what to do, each at the beginning of a line.
func reasonLines(reasons []rollout.BlockingReason) (lines string) {
	for i, reason := range reasons {
		lines += fmt.Sprintf("\n  %s [%s]", printable(reason.Text), reason.Kind)
		last := !slices.ContainsFunc(reasons[i+1:], func(r rollout.BlockingReason) bool { return r.Kind == reason.Kind })
		if hint := hints[reason.Kind]; hint != "" && last {
			lines += "\n    " + hint
		}
	}
	return lines
}
