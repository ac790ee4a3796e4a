package store_test

import (
	"crypto/sha256"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// bench has callers call, each time with another number, on each engine, and reports how often and how many bytes of
// the database one call needs, with indexes.
func bench(b *testing.B, callers int, call func(s *store.Store, n int64) error) {
	urls := map[string]func(testing.TB) string{"sqlite": proxytest.SQLite, "postgres": proxytest.Postgres}
	for engine, url := range urls {
		b.Run(engine, func(b *testing.B) {
			s := open(b, url(b))
			var begun atomic.Int64
			var calling sync.WaitGroup
			b.ResetTimer()
			for range callers {
				calling.Go(func() {
					for n := begun.Add(1); n <= int64(b.N); n = begun.Add(1) {
						if err := call(s, n); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			calling.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			b.StopTimer()
			question := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
			if engine == "postgres" {
				question = "SELECT sum(pg_total_relation_size(relid)) FROM pg_statio_user_tables " +
					"WHERE schemaname = current_schema()"
			}
			answer, err := s.Ask(b.Context(), question)
			must(b, err)
			size, err := strconv.ParseFloat(answer, 64)
			must(b, err)
			b.ReportMetric(size/float64(b.N), "disk-B/op")
		})
	}
}

// BenchmarkAccept stores callbacks of 64 senders, each acknowledged when it is on the disk.
func BenchmarkAccept(b *testing.B) {
	bench(b, 64, func(s *store.Store, number int64) error {
		n := strconv.FormatInt(number, 10)
		c := callback("c"+n, "b"+n)
		c.Address, c.Body, c.Digest = n, make([]byte, 600), sha256.Sum256([]byte(n)) // about what an approval takes
		_, err := s.Accept(b.Context(), c, time.Minute)
		return err
	})
}

// BenchmarkOwnAndComplete records creates of new bills by 64 callers, before and after each of them is sent.
func BenchmarkOwnAndComplete(b *testing.B) {
	bench(b, 64, func(s *store.Store, n int64) error {
		id := partner.Of(strconv.FormatInt(n%100, 10))
		c, err := proxytest.On(s).Own(b.Context(), id, "b"+strconv.FormatInt(n, 10), "new", noon, time.Time{}, "")
		if err == nil {
			_, err = proxytest.On(s).Complete(b.Context(), c, ledger.Succeeded, noon)
		}
		return err
	})
}
