package pages

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Wrong tokens are slowed down per source.
const (
	FreeGuesses      = 5               // wrong tokens of an address that are answered at once
	GuessDelay       = time.Second     // of every further answer to a wrong token
	MaxGuesses       = 8               // requests of one address that are delayed; further ones are refused at once
	maxGuessesAll    = 256             // the same for all addresses
	GuessesEnd       = 5 * time.Minute // without a wrong token
	GuessLogInterval = time.Minute
	MaxGuessers      = 1024 // further addresses count as one; half of them are kept for wrong tokens
)

// Guesses slow down wrong tokens. They are safe for concurrent use.
//
//	if !guesses.Wait(ctx, from) {
//		return http.StatusTooManyRequests
//	}
//	guesses.Fail(from, true)
type Guesses struct {
	Token string // what it is called in the log
	Log   *slog.Logger

	mu      sync.Mutex
	from    map[netip.Prefix]*guessesOf // the zero Prefix is all addresses beyond MaxGuessers
	waiting int
	sweep   *time.Timer // runs while from has entries; nil otherwise
}

// guessesOf are the failures of one source address.
type guessesOf struct {
	wrong     int // since the address was last forgotten
	unlogged  int // requests with a wrong token, or none, since the last log line
	waiting   int
	lastWrong time.Time
}

// Wait waits for GuessDelay if the address has sent too many wrong tokens. It returns false if too many requests wait,
// or ctx ends.
func (g *Guesses) Wait(ctx context.Context, from netip.Prefix) bool {
	g.mu.Lock()
	f := g.entry(from, MaxGuessers)
	if f == nil || f.wrong < FreeGuesses {
		g.mu.Unlock()
		return true
	}
	if f.waiting >= MaxGuesses || g.waiting >= maxGuessesAll {
		g.mu.Unlock()
		return false
	}
	f.waiting++
	g.waiting++
	g.mu.Unlock()
	delay := time.NewTimer(GuessDelay)
	defer delay.Stop()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		f.waiting--
		g.waiting--
	}()
	select {
	case <-delay.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// entry returns the failures of an address, or nil if it has none. An address beyond most has those of all such
// addresses.
func (g *Guesses) entry(from netip.Prefix, most int) *guessesOf {
	if f := g.from[from]; f != nil || len(g.from) < most {
		return f
	}
	return g.from[netip.Prefix{}]
}

// Fail counts a refused request, which is a guess if it had a token. It logs the first of an address, and each minute
// the number of further ones.
func (g *Guesses) Fail(from netip.Prefix, guess bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := MaxGuessers
	if !guess {
		most /= 2
	}
	if g.from == nil {
		g.from = map[netip.Prefix]*guessesOf{}
	}
	f := g.entry(from, most)
	isNew := f == nil
	if isNew {
		if len(g.from) >= most {
			from = netip.Prefix{}
		}
		f = &guessesOf{}
		g.from[from] = f
	}
	if guess {
		f.wrong++
		f.lastWrong = time.Now()
	}
	f.unlogged++
	if isNew {
		g.logLine(from, f)
	}
	if g.sweep == nil {
		g.sweep = time.AfterFunc(GuessLogInterval, g.logDue)
	}
}

// logDue logs, for each address, the failures since its last line, and forgets addresses without recent ones.
func (g *Guesses) logDue() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for from, f := range g.from {
		old := time.Since(f.lastWrong) >= GuessesEnd
		if old {
			f.wrong = 0
		}
		if f.unlogged > 0 {
			g.logLine(from, f)
		} else if old && f.waiting == 0 {
			delete(g.from, from)
		}
	}
	g.sweep = nil
	if len(g.from) > 0 {
		g.sweep = time.AfterFunc(GuessLogInterval, g.logDue)
	}
}

func (g *Guesses) logLine(from netip.Prefix, f *guessesOf) {
	g.Log.Warn("the "+g.Token+" was missing or wrong", "address", ShownSource(from), "count", f.unlogged)
	f.unlogged = 0
}

// ShownSource is a source for the log.
func ShownSource(from netip.Prefix) string {
	switch {
	case from.IsSingleIP():
		return from.Addr().String()
	case from.IsValid():
		return from.String()
	}
	return "others"
}

// Close logs what is not logged yet, and stops the timer.
func (g *Guesses) Close() {
	g.logDue()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sweep != nil {
		g.sweep.Stop()
	}
}
