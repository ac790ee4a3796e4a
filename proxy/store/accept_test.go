package store_test

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// Two replicas get two callbacks of one order in turn. Each stored one differs from the one before it, whatever the order.
func TestConcurrentCallbacksOfOneOrderAreStored(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		var kept atomic.Int32
		var senders sync.WaitGroup
		for i := range 60 {
			senders.Go(func() {
				c := callback(fmt.Sprint("c", i), "a")
				c.Digest = [32]byte{byte(i % 3)}
				fresh, err := isFresh(replicas[i%2].Accept(t.Context(), c, time.Minute))
				if err != nil {
					t.Error(err)
				}
				if fresh {
					kept.Add(1)
				}
			})
		}
		senders.Wait()
		all, err := onePage(t, replicas[1], store.Filter{})
		must(t, err)
		equal(t, len(all), int(kept.Load()), "kept")
		repeats := 0
		for _, c := range all {
			repeats += c.Repeats
		}
		equal(t, repeats, 60-len(all), "repeats")
		for i := range all[1:] {
			if all[i].Digest == all[i+1].Digest {
				t.Errorf("%s repeats %s and is kept", all[i].ID, all[i+1].ID)
			}
		}
	})
}

// Replicas that share a store deliver each callback once, those of one order one after the other, and do not block each other.
func TestReplicasClaimEachCallbackOnce(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 3)
		const orders, each = 20, 5
		var senders sync.WaitGroup
		for sender := range 4 { // more would wait for each other longer than Accept takes at most, on a busy machine
			senders.Go(func() {
				for n := range orders * each / 4 {
					o, i := sender+n/each*4, n%each
					c := callback(fmt.Sprintf("%d-%d", o, i), fmt.Sprint(o))
					c.Host = fmt.Sprint("host", o%5)
					accept(t, replicas[(o+i)%3], c)
				}
			})
		}
		senders.Wait()

		var mutex sync.Mutex
		underWay, delivered := map[string]bool{}, map[string]int{} // by order
		left := orders * each
		var deliverers sync.WaitGroup
		for d := range 9 {
			deliverers.Go(func() {
				s := replicas[d%3]
				for {
					claimed, err := s.Claim(t.Context(), noon, time.Hour, 7, 3, 7, nil)
					if err != nil {
						t.Error(err)
						return
					}
					for _, c := range claimed {
						mutex.Lock()
						if underWay[c.Order] {
							t.Errorf("%s: two of its order are under way", c.ID)
						}
						equal(t, c.ID, fmt.Sprintf("%s-%d", c.Bill, delivered[c.Order]))
						underWay[c.Order] = true
						mutex.Unlock()
					}
					for _, c := range claimed {
						mutex.Lock()
						underWay[c.Order] = false
						delivered[c.Order]++
						left--
						mutex.Unlock()
						if _, err := s.Finish(t.Context(), c, store.Result{At: noon, State: store.Delivered}); err != nil {
							t.Error(err)
						}
					}
					mutex.Lock()
					over := left <= 0
					mutex.Unlock()
					if over || t.Failed() {
						return
					}
				}
			})
		}
		deliverers.Wait()
	})
}

// While replicas accept callbacks of one order, a callback is delivered only if no later commit can put another one before it.
func TestDeliveryFollowsTheOrderOfAcceptance(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const senders, each = 8, 12
		var sending sync.WaitGroup
		for n := range senders {
			sending.Go(func() {
				for i := range each {
					accept(t, replicas[n%2], callback(fmt.Sprintf("%d-%d", n, i), "a"))
				}
			})
		}
		last := int64(0)
		for delivered := 0; delivered < senders*each && !t.Failed(); {
			for _, c := range claim(t, replicas[0], noon) {
				if c.Cursor < last {
					t.Errorf("%d was delivered after %d", c.Cursor, last)
				}
				last = c.Cursor
				finish(t, replicas[0], c, noon, store.Delivered)
				delivered++
			}
		}
		sending.Wait()
	})
}

// showing accepts a callback that shows a state of its bill, received after noon.
func showing(t *testing.T, s *store.Store, id, bill, state, digest string, after time.Duration) store.Accepted {
	t.Helper()
	c := callback(id, bill)
	c.Received, c.Says, c.Merchant, c.Digest = noon.Add(after), state, "shop", sha256.Sum256([]byte(digest))
	moves := ledger.Moves{"W": {"W", "F", "C", "D"}, "F": {"F", "C"}, "C": {"C"}, "D": {"D"}}
	a, err := s.Accept(t.Context(), c, 10*time.Minute, ledger.Event{
		Call: ledger.Call{At: c.Received, Upstream: "new", Merchant: "shop"},
		What: ledger.Told{Shows: ledger.Shows{Means: state, Moves: moves}},
	})
	if must(t, err); a.Unrecorded != nil {
		t.Error(a.Unrecorded)
	}
	return a
}

// ownShop records a bill of the merchant shop.
func ownShop(t *testing.T, s *store.Store, bill string) {
	t.Helper()
	c, err := proxytest.On(s).Own(t.Context(), partnerOne, bill, "new", noon, time.Time{}, "shop")
	must(t, err)
	works(t)(proxytest.On(s).Complete(t.Context(), c, ledger.Succeeded, noon))
}

// acknowledged records that the upstream has acknowledged the destroy of a bill.
func acknowledged(t *testing.T, s *store.Store, bill string) {
	t.Helper()
	_, _, err := s.Apply(t.Context(), ledger.Bill{Partner: partnerOne, ID: bill}, ledger.Event{
		Call: ledger.Call{At: noon, Operation: "bill.destroy", Upstream: "new", Merchant: "shop"},
		What: ledger.Looked{Said: true, Shows: ledger.Shows{Means: "D"}},
	})
	must(t, err)
}

// Replicas store callbacks of bills while these change. None fails, and each bill has what was shown last.
func TestCallbacksWhileTheirBillsChange(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 3)
		const bills = 20
		for n := range bills {
			ownShop(t, replicas[0], fmt.Sprint("b", n))
		}
		var calling sync.WaitGroup
		for i, s := range replicas {
			for n := range bills {
				bill := fmt.Sprint("b", (n*7+i*5)%bills)
				calling.Go(func() {
					if a := showing(t, s, fmt.Sprint("c", bill, i), bill, "F", fmt.Sprint(i), time.Minute); !a.Fresh {
						t.Errorf("%s at %d is not fresh", bill, i)
					}
				})
				calling.Go(func() {
					at := ledger.Call{At: noon.Add(time.Second), Operation: "bill.cancel", Upstream: "new", Request: fmt.Sprint(i), Merchant: "shop"}
					_, _, err := s.Apply(t.Context(), ledger.Bill{Partner: partnerOne, ID: bill}, ledger.Event{Call: at, What: ledger.WriteUnknown{Next: noon}})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		calling.Wait()
		for n := range bills {
			b, err := replicas[0].Bill(t.Context(), partnerOne, fmt.Sprint("b", n))
			must(t, err)
			equal(t, b.Seen.Means+fmt.Sprint(b.Unresolved()), "F1", b.ID)
		}
	})
}
