package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"billbridge/config"
	"billbridge/proxy/pages"

	"github.com/prometheus/client_golang/prometheus"
)

const sessionCookie = "billbridge_session"

// tokens checks the bearer token or the session of requests to the admin listener. It is safe for concurrent use.
type tokens struct {
	current  atomic.Pointer[tokenList]
	limits   func() *config.Limits
	sessions pages.Sessions
	guesses  pages.Guesses // by source, see [config.Limits.Source]
	refused  *prometheus.CounterVec
	signedIn func(identity) // records a visitor
}

// A tokenList is what one config says about who may do what. If it is empty, no token is needed.
type tokenList []token

// A token of the config, by its hash.
type token struct {
	hash pages.TokenHash
	identity
}

// newTokens registers the metric.
func newTokens(
	c *config.Admin, limits func() *config.Limits, log *slog.Logger, registry prometheus.Registerer,
) *tokens {
	t := &tokens{
		limits:   limits,
		sessions: pages.Sessions{Cookie: sessionCookie}, guesses: pages.Guesses{Token: "admin token", Log: log},
		signedIn: func(identity) {},
	}
	t.use(c)
	t.refused = counters(registry, "billbridge_admin_token_refused_total",
		"Requests to the admin listener that were refused: without a token (missing), with a wrong token (wrong), "+
			"or too many at once from an address with wrong tokens (busy).",
		"reason", "missing", "wrong", "busy")
	return t
}

// use replaces the tokens by those of a config. Sessions whose token is not there any more end.
func (t *tokens) use(c *config.Admin) {
	var next tokenList
	for _, one := range c.AllTokens() {
		hash := sha256.Sum256([]byte(one.Token.Reveal()))
		next = append(next, token{hash, identity{name: one.Name, operates: one.May == config.Operate}})
	}
	t.current.Store(&next)
	t.sessions.Keep(next.has)
}

// find returns the owner of a token. It compares hashes, and all of them, so that the duration reveals nothing.
func (a tokenList) find(hash pages.TokenHash) (who identity, ok bool) {
	for _, known := range a {
		if subtle.ConstantTimeCompare(known.hash[:], hash[:]) == 1 {
			who, ok = known.identity, true
		}
	}
	return who, ok
}

func (a tokenList) has(hash pages.TokenHash) bool {
	_, ok := a.find(hash)
	return ok
}

// without returns the names of the tokens that another list does not have, or has with another token or
// permission.
func (a tokenList) without(other tokenList) string {
	var names []string
	for _, one := range a {
		if !slices.Contains(other, one) {
			names = append(names, one.shown())
		}
	}
	return strings.Join(names, ", ")
}

// shown is the name of an identity for the audit log.
func (i identity) shown() string { return cmp.Or(i.name, "admin.token") }

// check returns the owner of a token that a request has. status is 200, or that of the refusal, for which it may wait
// for [pages.GuessDelay]. A right token passes at once, whatever others at its address have sent: behind one address
// there can be many machines. Against guessing, tokens are long.
func (t *tokens) check(r *http.Request, given string) (hash pages.TokenHash, who identity, status int) {
	hash = sha256.Sum256([]byte(given))
	who, ok := t.current.Load().find(hash)
	if ok {
		return hash, who, http.StatusOK
	}
	from := t.source(r)
	if !t.guesses.Wait(r.Context(), from) {
		t.refused.WithLabelValues("busy").Inc()
		return hash, who, http.StatusTooManyRequests
	}
	t.fail(from, "wrong")
	return hash, who, http.StatusUnauthorized
}

// source returns where a request comes from. Its wrong tokens are counted together, and those of all addresses that
// cannot be read with those of the others of [pages.Guesses].
func (t *tokens) source(r *http.Request) netip.Prefix {
	from, _, _ := t.limits().Source(r.RemoteAddr, r.Header["X-Forwarded-For"])
	return from
}

// fail counts a refused request.
func (t *tokens) fail(from netip.Prefix, reason string) {
	t.refused.WithLabelValues(reason).Inc()
	t.guesses.Fail(from, reason == "wrong")
}
