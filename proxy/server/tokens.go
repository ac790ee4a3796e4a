package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"billbridge/config"
	"billbridge/proxy/pages"

	"github.com/prometheus/client_golang/prometheus"
)

// Wrong tokens are slowed down per source, see [config.Limits.Source].
const (
	freeGuesses      = 5               // wrong tokens of an address that are answered at once
	tokenDelay       = time.Second     // of every further answer to a wrong token
	maxWaiting       = 8               // requests of one address that are delayed; further ones get 429
	maxWaitingAll    = 256             // the same for all addresses
	forgetAfter      = 5 * time.Minute // without a wrong token
	tokenLogInterval = time.Minute
	maxAddresses     = 1024 // further addresses count as one; half of them are kept for wrong tokens
)

const sessionCookie = "billbridge_session"

// tokens checks the bearer token or the session of requests to the admin listener. It is safe for concurrent use.
type tokens struct {
	current  atomic.Pointer[admission]
	limits   atomic.Pointer[config.Limits]
	sessions pages.Sessions
	log      *slog.Logger
	refused  *prometheus.CounterVec
	signedIn func(identity) // records a visitor

	mu      sync.Mutex
	from    map[netip.Prefix]*wrongTokens // the zero Prefix is all addresses beyond maxAddresses
	waiting int
	sweep   *time.Timer // runs while from has entries; nil otherwise
}

// wrongTokens are the failures of one source address.
type wrongTokens struct {
	wrong     int // since the address was last forgotten
	unlogged  int // requests with a wrong token, or none, since the last log line
	waiting   int
	lastWrong time.Time
}

// An admission is what one config says about who may do what.
type admission struct {
	tokens  []token // empty: no token is needed
	console bool
}

// A token of the config, by its hash.
type token struct {
	hash pages.TokenHash
	identity
}

// newTokens registers the metric.
func newTokens(c *config.Admin, log *slog.Logger, registry prometheus.Registerer) (*tokens, error) {
	t := &tokens{
		sessions: pages.Sessions{Cookie: sessionCookie}, log: log, from: map[netip.Prefix]*wrongTokens{},
		signedIn: func(identity) {},
	}
	t.limits.Store(&config.Limits{}) // until apply
	t.use(c)
	t.refused = counters("billbridge_admin_token_refused_total",
		"Requests to the admin listener that were refused: without a token (missing), with a wrong token (wrong), "+
			"or too many at once from an address with wrong tokens (busy).",
		"reason", "missing", "wrong", "busy")
	return t, registry.Register(t.refused)
}

// use replaces the tokens by those of a config. Sessions whose token is not there any more end.
func (t *tokens) use(c *config.Admin) {
	next := &admission{console: c.Console}
	for _, one := range c.AllTokens() {
		hash := sha256.Sum256([]byte(one.Token.Reveal()))
		next.tokens = append(next.tokens, token{hash, identity{name: one.Name, operates: one.May == config.Operate}})
	}
	t.current.Store(next)
	t.sessions.Keep(next.has)
}

// needed reports whether requests need a token.
func (a *admission) needed() bool { return len(a.tokens) > 0 }

// find returns the owner of a token. It compares hashes, and all of them, so that the duration reveals nothing.
func (a *admission) find(hash pages.TokenHash) (who identity, ok bool) {
	for _, known := range a.tokens {
		if subtle.ConstantTimeCompare(known.hash[:], hash[:]) == 1 {
			who, ok = known.identity, true
		}
	}
	return who, ok
}

func (a *admission) has(hash pages.TokenHash) bool {
	_, ok := a.find(hash)
	return ok
}

// without returns the names of the tokens that another admission does not have, or has with another token or
// permission.
func (a *admission) without(other *admission) string {
	var names []string
	for _, one := range a.tokens {
		if !slices.Contains(other.tokens, one) {
			names = append(names, one.shown())
		}
	}
	return strings.Join(names, ", ")
}

// shown is the name of an identity for the audit log.
func (i identity) shown() string { return cmp.Or(i.name, "admin.token") }

// check returns the owner of a token that a request has. status is 200, or that of the refusal, for which it may wait
// for tokenDelay. A right token passes at once, whatever others at its address have sent: behind one address there can
// be many machines. Against guessing, tokens are long.
func (t *tokens) check(r *http.Request, given string) (hash pages.TokenHash, who identity, status int) {
	hash = sha256.Sum256([]byte(given))
	who, ok := t.current.Load().find(hash)
	if ok {
		return hash, who, http.StatusOK
	}
	from := t.source(r)
	if !t.wait(r.Context(), from) {
		t.refused.WithLabelValues("busy").Inc()
		return hash, who, http.StatusTooManyRequests
	}
	t.fail(from, "wrong")
	return hash, who, http.StatusUnauthorized
}

// wait waits for tokenDelay if the address has sent too many wrong tokens. It returns false if too many requests wait,
// or ctx ends.
func (t *tokens) wait(ctx context.Context, from netip.Prefix) bool {
	t.mu.Lock()
	f := t.entry(from, maxAddresses)
	if f == nil || f.wrong < freeGuesses {
		t.mu.Unlock()
		return true
	}
	if f.waiting >= maxWaiting || t.waiting >= maxWaitingAll {
		t.mu.Unlock()
		return false
	}
	f.waiting++
	t.waiting++
	t.mu.Unlock()
	delay := time.NewTimer(tokenDelay)
	defer delay.Stop()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		f.waiting--
		t.waiting--
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
func (t *tokens) entry(from netip.Prefix, most int) *wrongTokens {
	if f := t.from[from]; f != nil || len(t.from) < most {
		return f
	}
	return t.from[netip.Prefix{}]
}

// fail counts a refused request. It logs the first of an address; logDue logs the number of further ones.
func (t *tokens) fail(from netip.Prefix, reason string) {
	t.refused.WithLabelValues(reason).Inc()
	t.mu.Lock()
	defer t.mu.Unlock()
	most := maxAddresses
	if reason == "missing" { // no guess
		most /= 2
	}
	f := t.entry(from, most)
	isNew := f == nil
	if isNew {
		if len(t.from) >= most {
			from = netip.Prefix{}
		}
		f = &wrongTokens{}
		t.from[from] = f
	}
	if reason == "wrong" {
		f.wrong++
		f.lastWrong = time.Now()
	}
	f.unlogged++
	if isNew {
		t.logLine(from, f)
	}
	if t.sweep == nil {
		t.sweep = time.AfterFunc(tokenLogInterval, t.logDue)
	}
}

// logDue logs, for each address, the failures since its last line, and forgets addresses without recent ones.
func (t *tokens) logDue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for from, f := range t.from {
		old := time.Since(f.lastWrong) >= forgetAfter
		if old {
			f.wrong = 0
		}
		if f.unlogged > 0 {
			t.logLine(from, f)
		} else if old && f.waiting == 0 {
			delete(t.from, from)
		}
	}
	t.sweep = nil
	if len(t.from) > 0 {
		t.sweep = time.AfterFunc(tokenLogInterval, t.logDue)
	}
}

func (t *tokens) logLine(from netip.Prefix, f *wrongTokens) {
	t.log.Warn("the admin token was missing or wrong", "address", shownSource(from), "count", f.unlogged)
	f.unlogged = 0
}

// shownSource is a source for the log.
func shownSource(from netip.Prefix) string {
	switch {
	case from.IsSingleIP():
		return from.Addr().String()
	case from.IsValid():
		return from.String()
	}
	return "others"
}

// close logs what is not logged yet, and stops the timer.
func (t *tokens) close() {
	t.logDue()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sweep != nil {
		t.sweep.Stop()
	}
}

// source returns where a request comes from. Its wrong tokens are counted together.
func (t *tokens) source(r *http.Request) netip.Prefix {
	from, _ := t.limits.Load().Source(r.RemoteAddr, r.Header["X-Forwarded-For"])
	return from
}
