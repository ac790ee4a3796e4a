package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"billbridge/proxy/rollout"
	"billbridge/proxy/server"
)

// decisionFlags are the flags of every change.
type decisionFlags struct {
	adminFlags
	By *string `placeholder:"NAME" help:"Your name, for the audit log. If omitted, the name of the token (admin.tokens), or else the environment variable USER. A token with a name allows no other one."`
}

// decider returns the name for the audit log. "" means the name of the token, which the gateway knows.
func (f *decisionFlags) decider(ctx context.Context, s system) (string, error) {
	if f.By != nil {
		if *f.By == "" {
			return "", usageError("--by is empty")
		}
		return *f.By, nil
	}
	if f.Token != "" {
		var who server.Identity
		if err := f.get(ctx, "/-/identity", &who); err != nil || who.Name != "" {
			return "", err
		}
	}
	by, ok := s.env("USER")
	if !ok || by == "" {
		return "", usageError("--by is missing: give your name for the audit log, or set the environment variable USER")
	}
	return by, nil
}

// addDecider adds the name for the audit log to a query.
func (f *decisionFlags) addDecider(ctx context.Context, s system, q url.Values) error {
	by, err := f.decider(ctx, s)
	if by != "" {
		q.Set("by", by)
	}
	return err
}

// change makes a change at the gateway. body may be nil.
func (f *decisionFlags) change(ctx context.Context, s system, action string, q url.Values, body []byte) (changed rollout.Changed, err error) {
	if err := f.addDecider(ctx, s, q); err != nil {
		return changed, err
	}
	err = f.call(ctx, http.MethodPost, "/rollout/"+action+"?"+q.Encode(), body, decodeInto(&changed))
	var failed *adminError
	if errors.As(err, &failed) && failed.status >= http.StatusInternalServerError {
		// The gateway stopped waiting for the store, which may still make the change.
		err = fmt.Errorf("%w\nUnless it says otherwise, the change may have been made. To see, run billbridge rollout status", failed)
	}
	return changed, err
}

// changeOnly makes a change without parameters and prints a message.
func (f *decisionFlags) changeOnly(ctx context.Context, s system, action, message string) error {
	if _, err := f.change(ctx, s, action, url.Values{}, nil); err != nil {
		return err
	}
	printf(s.out, "%s\n", message)
	return nil
}
