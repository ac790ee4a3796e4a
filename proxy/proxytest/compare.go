package proxytest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// A Reporter is a test, or a property that is checked.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Equal reports a value that is not the wanted one. about is what the value is of.
func Equal[T any](t Reporter, got, want T, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%vgot %+v\nwant %+v\n-want +got:\n%s", of(about), got, want,
			cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)))
	}
}

// Has reports a text without a part.
func Has(t Reporter, text, part string, about ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%vno %q in\n%s", of(about), part, text)
	}
}

// Lacks reports a text with a part that it must not have.
func Lacks(t Reporter, text, part string, about ...any) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%v%q in\n%s", of(about), part, text)
	}
}

// Gives reports a call whose first result is not the wanted one, or that returns an error. The call is in the second
// parentheses:
//
//	Gives(t, 2)(s.Sweep(ctx))
func Gives(t Reporter, want any, about ...any) func(got any, rest ...any) {
	return func(got any, rest ...any) {
		t.Helper()
		if err := errorIn(rest); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%vgot %+v %+v\nwant %+v", of(about), got, rest, want)
		}
	}
}

// Fails reports a call that does not return the wanted error. A text is a part of that of the error.
func Fails(t Reporter, want any, about ...any) func(results ...any) {
	return func(results ...any) {
		t.Helper()
		err := errorIn(results)
		is := err == nil
		switch want := want.(type) {
		case error:
			is = errors.Is(err, want)
		case string:
			is = err != nil && strings.Contains(err.Error(), want)
		}
		if !is {
			t.Errorf("%vgot %+v\nwant the error %q", of(about), results, want)
		}
	}
}

// errorIn is the last of the results of a call, if it is an error.
func errorIn(results []any) error {
	if len(results) == 0 {
		return nil
	}
	err, _ := results[len(results)-1].(error)
	return err
}

func of(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprintln(about...)
}
