package proxytest

import (
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

func of(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprintln(about...)
}
