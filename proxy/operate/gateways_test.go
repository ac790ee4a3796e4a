package operate_test

import (
	"errors"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
)

// The status has all gateways on the store with their version and the last reading of their config, and says which of
// them gives no sign. One that has the name of another one has ended.
func TestGatewaysOfAStore(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	gateway := func(name string) *testOperator {
		d := newTestOperator(t, proxytest.Open(t, url), separate)
		d.Operator.Gateway = operate.Gateway{Name: name, Version: "0.1.0"}
		return d
	}
	one, two, before := gateway("one:9090"), gateway("two:9090"), gateway("one:9090")
	for _, d := range []*testOperator{before, one, two} {
		must(t, d.Announce(t.Context()))
	}
	one.NoteReading(errors.New("billbridge.yaml:1:1: a mistake"))
	must(t, one.Announce(t.Context()))
	show := func() (all []string) {
		t.Helper()
		for _, g := range answers[operate.Status](two, "GET", "/rollout").Gateways {
			line := g.Name + " " + g.Version + " " + g.Reading.Error
			if g.Own {
				line += " own"
			}
			if g.Silent {
				line += " silent"
			}
			all = append(all, line)
		}
		return all
	}
	equal(t, show(), []string{"two:9090 0.1.0  own", "one:9090 0.1.0 billbridge.yaml:1:1: a mistake"})
	two.later.Store(int64(365 * 24 * time.Hour))
	equal(t, show(), []string{"two:9090 0.1.0  own", "one:9090 0.1.0 billbridge.yaml:1:1: a mistake silent"})
}
