package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// recentWrites counts what became of the writes of the last seconds. A disk can be full for most writes, and still
// have room for that of Ping. The zero value is ready to use.
type recentWrites struct {
	mu      sync.Mutex
	seconds [recentSeconds]struct {
		at         int64
		ok, failed int
	}
	last error // of the last write that failed
}

// The store counts as failed if of at least fewWrites in recentSeconds more have failed than succeeded.
const (
	recentSeconds = 5
	fewWrites     = 3
)

// observe counts a write. One that its caller gave up, or that the database refused because of its content, does not
// show a failure.
func (r *recentWrites) observe(err error) {
	code := pgError(err).Code
	switch {
	case errors.Is(err, context.Canceled):
		return
	case isSentinel(err), strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"), strings.HasPrefix(code, "40"):
		err = nil
	}
	now := time.Now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.seconds[now%recentSeconds]
	if s.at != now {
		s.at, s.ok, s.failed = now, 0, 0
	}
	if err == nil {
		s.ok++
	} else {
		s.failed++
		r.last = err
	}
}

// problem returns the last error if most of the recent writes failed, else nil.
func (r *recentWrites) problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok, failed := 0, 0
	for _, s := range r.seconds {
		if time.Now().Unix()-s.at < recentSeconds {
			ok, failed = ok+s.ok, failed+s.failed
		}
	}
	if failed >= fewWrites && failed > ok {
		return r.last
	}
	return nil
}
