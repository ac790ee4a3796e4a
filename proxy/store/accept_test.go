package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
				fresh, _, err := replicas[i%2].Accept(t.Context(), c, time.Minute)
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
		for i := range all[1:] {
			if all[i].Digest == all[i+1].Digest {
				t.Errorf("%s repeats %s and is kept", all[i].ID, all[i+1].ID)
			}
		}
	})
}

// An upstream sends each callback to two replicas at once, and the next one of its bill: each is stored once, in that order.
func TestCallbackSentToTwoReplicasIsStoredOnce(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		replicas := replicasOn(t, url, 2)
		const bills = 50
		var kept [bills][2]atomic.Int32
		for step := range 2 {
			var senders sync.WaitGroup
			for n := range bills {
				for i, s := range replicas {
					senders.Go(func() {
						c := callback(fmt.Sprint("c", n, step, i), fmt.Sprint("b", n))
						c.Digest = [32]byte{byte(step)}
						fresh, _, err := s.Accept(t.Context(), c, time.Minute)
						if err != nil {
							t.Error(err)
						}
						if fresh {
							kept[n][step].Add(1)
						}
					})
				}
			}
			senders.Wait()
		}
		for n := range bills {
			equal(t, []int32{kept[n][0].Load(), kept[n][1].Load()}, []int32{1, 1}, fmt.Sprintf("how often the callbacks of b%d were new", n))
		}
		all, err := onePage(t, replicas[0], store.Filter{})
		must(t, err)
		equal(t, len(all), 2*bills, "kept")
		for _, c := range all {
			equal(t, c.Repeats, 1, "repeats of "+c.ID)
		}
	})
}

// The last callback of an order is found without reading the others.
func TestOrderQueriesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	_ = open(t, url)
	plan := func(statement string) (steps string) {
		rows, err := raw(t, url).Query("EXPLAIN QUERY PLAN "+statement, 1, 2, 3, 4, 5, 6, 7, 8, "9")
		must(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, parent, unused int
			var step string
			must(t, rows.Scan(&id, &parent, &unused, &step))
			steps += step + "\n"
		}
		return steps
	}
	for _, statement := range []string{store.LastOf, store.OfOrder} {
		equal(t, plan(statement), "SEARCH billbridge_callbacks USING INDEX billbridge_callbacks_last (ordering=? AND seq>?)\n", "the last of an order")
	}
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
						if want := fmt.Sprintf("%s-%d", c.Bill, delivered[c.Order]); c.ID != want {
							t.Errorf("%s came in the place of %s", c.ID, want)
						}
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
