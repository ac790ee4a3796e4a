package upstream

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"billbridge/config"
	"billbridge/proxy/admission"
)

// of returns the slot of a call of a partner.
func of(partner uint64) slot { return slot{key: admission.Proof{Partner: partner}} }

// invented returns the slot of a call with a key that may be invented.
func invented(partner uint64) slot {
	return slot{key: admission.Proof{Partner: partner, Invented: true}}
}

// Of the calls that wait the one that came first is next, and those with keys that may be invented leave it to others
// when they have all that they can have.
func TestWaitingCallsRunInOrderOfArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(&config.Upstream{Connections: 4, PartnerConnections: 1}, NewMetrics(nil))
		var got []uint64
		for i := range uint64(4) {
			if !c.take(of(i)) {
				t.Fatal(i)
			}
		}
		for _, s := range []slot{invented(10), of(11), invented(12), invented(13), invented(14), of(15)} {
			go func() {
				if c.acquire(t.Context(), s) == nil {
					got = append(got, s.key.Partner)
				}
			}()
			synctest.Wait()
		}
		for i := range uint64(4) {
			c.release(of(i))
			synctest.Wait()
		}
		c.release(of(11))
		synctest.Wait()
		c.release(invented(10))
		synctest.Wait()
		if want := []uint64{10, 11, 12, 13, 15, 14}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// The more partners use all that they can, the fewer connections each of them has, and the next one can always begin.
func TestPartnersLeaveConnectionsToTheNextOne(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		connections, partners int
		each, next            int // the most of a partner, and of one that comes later
	}{
		{256, 1, 64, 64},
		{256, 3, 64, 32},
		{256, 4, 52, 26},
		{256, 10, 24, 12},
		{256, 255, 1, 1},
		{8, 4, 2, 1},
		{8, 7, 1, 1},
		{4, 3, 1, 1},
		{1, 0, 0, 1},
	} {
		c := newConnections(&config.Upstream{Connections: row.connections, PartnerConnections: max(1, row.connections/4)}, NewMetrics(nil))
		has := map[uint64]int{}
		for more := true; more; { // in turn, as long as one gets another connection
			more = false
			for partner := range uint64(row.partners) {
				if c.take(of(partner)) {
					has[partner]++
					more = true
				}
			}
		}
		for c.take(of(1000)) {
			has[1000]++
		}
		most := 0
		for partner := range uint64(row.partners) {
			most = max(most, has[partner])
		}
		if most != row.each || has[1000] != row.next {
			t.Errorf("%+v: %d, and the next one %d", row, most, has[1000])
		}
		for partner, n := range has {
			for range n {
				c.release(of(partner))
			}
		}
		if c.free != row.connections || len(c.partners) != 0 {
			t.Errorf("%+v: %d are free, and %v in use", row, c.free, c.partners)
		}
	}
}

// Calls of a partner wait in order of arrival, and not for the limit of another partner. A call that was given up does
// not get a connection.
func TestWaitingCallsRunInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(&config.Upstream{Connections: 8, PartnerConnections: 2}, NewMetrics(nil))
		for c.take(of(1)) {
		}
		var got []string
		wait := func(ctx context.Context, name string, s slot) {
			go func() {
				if err := c.acquire(ctx, s); err != nil {
					name += " ended"
				}
				got = append(got, name)
			}()
			synctest.Wait()
		}
		ctx, giveUp := context.WithCancel(t.Context())
		wait(t.Context(), "first", of(1))
		wait(ctx, "given up", of(1))
		wait(t.Context(), "second", of(1))
		wait(t.Context(), "another partner", of(2))
		giveUp()
		synctest.Wait()
		c.release(of(1))
		synctest.Wait()
		c.release(of(1))
		synctest.Wait()
		if want := []string{"another partner", "given up ended", "first", "second"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if c.proven.Len() != 0 || c.free != 5 {
			t.Errorf("%d wait, %d are free", c.proven.Len(), c.free)
		}
	})
}
