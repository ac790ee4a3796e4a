package accesslog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"billbridge/proxy/accesslog"
)

// What every call repeats is one line per interval, which counts them. Another message has its own line.
func TestRepeatedMessagesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := accesslog.Limited(slog.New(slog.NewJSONHandler(&out, nil)), time.Second)
		for range 3 {
			for n := range 500 {
				log.Error("down", "id", n, "error", errors.New("x"))
				time.Sleep(time.Millisecond)
			}
			log.Error("other")
		}
		got, counts := 0, map[string][]int64{}
		for line := range bytes.Lines(out.Bytes()) {
			one := gjson.ParseBytes(line)
			counts[one.Get("msg").String()] = append(counts[one.Get("msg").String()], one.Get("count").Int())
			got++
		}
		if c := counts["down"]; len(c) != 2 || c[0] != 1 || c[1] != 1000 {
			t.Errorf("down: %v", c)
		}
		if c := counts["other"]; len(c) != 2 || c[0] != 1 || c[1] != 2 {
			t.Errorf("other: %v", c)
		}
		if got != 4 {
			t.Errorf("%d lines:\n%s", got, out.String())
		}
	})
}
