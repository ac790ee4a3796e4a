package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The files are real outputs of wrk 4.1.0. wrk pads a latency in seconds with a space.
func TestParseWrk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file, err string
		want      load
	}{
		{file: "wrk-us.txt", want: load{11458, 11455.59, 236 * time.Microsecond}},
		{file: "wrk-ms.txt", want: load{1017, 1016.39, 7410 * time.Microsecond}},
		{file: "wrk-s.txt", want: load{4, 1.33, 1090 * time.Millisecond}},
		{file: "wrk-refused.txt", err: "Non-2xx or 3xx responses: 46"},
		{file: "wrk-none.txt", err: "no call had an answer"},
		{file: "wrk-broken.txt", err: "Socket errors: connect 0, read 2, write 50232, timeout 0"},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			out, err := os.ReadFile(filepath.Join("testdata", test.file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseWrk(out)
			if err == nil && test.err != "" || err != nil && err.Error() != test.err {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if err == nil && got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	// The name of a process can contain spaces and parentheses.
	got, err := parseStat([]byte("4711 (a b) c) S 42 4711 4711 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 7 0 1 1 1"))
	if want := (processStat{4711, 42, 1750 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseStat([]byte("4711 (a) S 42")); err == nil {
		t.Error("no error for a line that is too short")
	}
}
