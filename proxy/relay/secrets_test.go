package relay_test

import (
	"strings"
	"testing"
)

// A value in an operator's call is one value of one line of the log.
func TestR36_LogValuesAreEscaped(t *testing.T) {
	t.Parallel()
	s := newTestRelay(t, setup{})
	answers(t, s.ask("POST", "/callbacks/drop?bill=a%0a%7b%22level%22:%22ERROR%22%7d&upstream=%1b%5b2J"), 200)
	if got := s.logs.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") || !strings.Contains(got, `"bill":"a\n{\"level\":\"ERROR\"}"`) {
		t.Errorf("%q", got)
	}
}
