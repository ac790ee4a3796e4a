package proxy

import (
	"net/http"
	"time"
)

// slowAfter is how long an answer is being read before it can be cut.
const slowAfter = time.Second

// reach takes what is missing to n bytes.
func (h *held) reach(n int) (ok bool) { return h.take(int64(n) - h.taken) }

// write limits the time for reading an answer, until written is called: if its memory is needed, it ends earlier.
func (h *held) write(w http.ResponseWriter, within time.Duration) (written func()) {
	began, writer := time.Now(), http.NewResponseController(w)
	_ = writer.SetWriteDeadline(began.Add(within))
	return h.transfer(func() bool {
		return time.Since(began) > slowAfter && writer.SetWriteDeadline(began) == nil
	})
}
