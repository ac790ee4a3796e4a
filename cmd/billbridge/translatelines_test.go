package main

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
)

// repeated reads as the text, n times.
func repeated(text string, n int) io.Reader {
	parts := make([]io.Reader, n)
	for i := range parts {
		parts[i] = strings.NewReader(text)
	}
	return io.MultiReader(parts...)
}

// A line over the limit is reported with its number, the lines around it are translated, and the line is not kept in memory.
func TestLinesOverTheLimitAreSkipped(t *testing.T) {
	t.Parallel()
	const good = `{"apikey":"k","member":"m","merchant":"s","bill_id":"A"}`
	const want = `{"apiKey":"k","member":"m","merchant":"s","bill":{"billId":"A"}}` + "\n"
	const mebibyte = 1 << 20
	spaces := strings.Repeat(" ", mebibyte)
	atLimit := good + strings.Repeat(" ", maxDocument-len(good)) // the largest line
	for name, test := range map[string]struct {
		in     io.Reader
		out    string
		stderr string
		code   int
	}{
		"between two lines":  {io.MultiReader(strings.NewReader(good+"\n"), repeated(spaces, 50), strings.NewReader("\n"+good+"\n")), want + want, "line 2: larger than 16 MiB, skipped\n", exitError},
		"the last line":      {io.MultiReader(strings.NewReader(good+"\r\n"), repeated(spaces, 50)), want, "line 2: larger than 16 MiB, skipped\n", exitError},
		"one byte over":      {strings.NewReader(atLimit + " \n" + good), want, "line 1: larger than 16 MiB, skipped\n", exitError},
		"at the limit":       {strings.NewReader(atLimit + "\r\n" + good), want + want, "", exitOK},
		"two of four":        {io.MultiReader(repeated(spaces, 17), strings.NewReader("\n"+good+"\n"), repeated(spaces, 17), strings.NewReader("\n\n"+good)), want + want, "line 1: larger than 16 MiB, skipped\nline 3: larger than 16 MiB, skipped\n", exitError},
		"refused and larger": {io.MultiReader(strings.NewReader("[]\n"), repeated(spaces, 17), strings.NewReader("\n"+good)), want, "line 1: VALIDATION_001 body: has the wrong type: want an object, got an array\nline 2: larger than 16 MiB, skipped\n", exitError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, stderr bytes.Buffer
			code := run(t.Context(), []string{"translate", "--operation", "bill.read", "--message", "request", "--from", "legacy", "--to", "v2", "--lines"},
				system{in: test.in, out: &out, err: &stderr, env: noEnvironment})
			if out.String() != test.out || stderr.String() != test.stderr || code != test.code {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, out.String(), stderr.String())
			}
		})
	}
}

// The memory for lines does not grow with a line over the limit. Allocations are counted, which includes freed ones: a buffer that grows
// to the limit allocates a few times its size.
func TestMemoryOfALineOverTheLimit(t *testing.T) { // not parallel: it counts the allocations of the process
	blanks := strings.Repeat(" ", 1<<20)
	allocated := func(mebibytes int) uint64 {
		line := repeated(blanks, mebibytes)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code := run(t.Context(), []string{"translate", "--operation", "bill.read", "--message", "request", "--from", "legacy", "--to", "v2", "--lines"},
			system{in: line, out: io.Discard, err: io.Discard, env: noEnvironment})
		runtime.ReadMemStats(&after)
		equal(t, code, exitError, "exit code")
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := allocated(17), allocated(320)
	if large > small+maxDocument {
		t.Errorf("%d bytes were allocated for 17 MiB, and %d for 320 MiB", small, large)
	}
}
