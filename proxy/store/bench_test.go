package store_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"runtime"
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

// BenchmarkAccept stores callbacks of 64 senders, each acknowledged when it is on the disk. BenchmarkDisk measures the disk alone.
func BenchmarkAccept(b *testing.B) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{
		{"memory", func(testing.TB) string { return "memory:" }},
		{"sqlite", proxytest.SQLite},
		{"postgres", proxytest.Postgres},
	} {
		b.Run(engine.name, func(b *testing.B) {
			s := open(b, engine.url(b))
			var last atomic.Int64
			template := callback("c", "a")
			template.Body = make([]byte, 600) // about what an approval takes
			b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c := template
					n := strconv.FormatInt(last.Add(1), 10)
					c.ID, c.Bill, c.Order, c.Digest = "c"+n, "b"+n, "new/b"+n, sha256.Sum256([]byte(n))
					c.Address = n
					if _, _, err := s.Accept(b.Context(), c, time.Minute); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
			reportSize(b, s, engine.name)
		})
	}
}

// reportSize reports how many bytes of the database one operation needs, with indexes.
func reportSize(b *testing.B, s *store.Store, engine string) {
	b.StopTimer()
	question := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if engine == "postgres" {
		question = "SELECT sum(pg_total_relation_size(relid)) FROM pg_statio_user_tables WHERE schemaname = current_schema()"
	}
	answer, err := s.Ask(b.Context(), question)
	must(b, err)
	size, err := strconv.ParseFloat(answer, 64)
	must(b, err)
	b.ReportMetric(size/float64(b.N), "disk-B/op")
}

// BenchmarkDisk appends a page to a file and waits for the disk, as a commit of one callback does at best.
func BenchmarkDisk(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	must(b, err)
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	for b.Loop() {
		works(b)(f.Write(page))
		must(b, f.Sync())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
}

// BenchmarkBind has 64 callers bind addresses of bills, and registrations of which all but the first are known.
func BenchmarkBind(b *testing.B) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", proxytest.SQLite}, {"postgres", proxytest.Postgres}} {
		for _, known := range []bool{false, true} {
			b.Run(engine.name+"/known "+strconv.FormatBool(known), func(b *testing.B) {
				s := open(b, engine.url(b))
				var last atomic.Int64
				b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						n := strconv.FormatInt(last.Add(1), 10)
						a := address("a"+n, "b"+n)
						if known {
							a = registration("a"+n, "s", noon)
						}
						if _, err := s.Bind(b.Context(), a); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "binds/s")
				reportSize(b, s, engine.name)
			})
		}
	}
}

// BenchmarkOwn records creates of new bills by 64 callers, as before each of them is sent.
func BenchmarkOwn(b *testing.B) { benchmarkOwn(b, 64, false) }

// BenchmarkOwnOne does so with one caller: how long a create waits on an idle store.
func BenchmarkOwnOne(b *testing.B) { benchmarkOwn(b, 1, false) }

// BenchmarkOwnAndComplete also completes each create.
func BenchmarkOwnAndComplete(b *testing.B) { benchmarkOwn(b, 64, true) }

func benchmarkOwn(b *testing.B, callers int, settles bool) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", proxytest.SQLite}, {"postgres", proxytest.Postgres}} {
		b.Run(engine.name, func(b *testing.B) {
			s := open(b, engine.url(b))
			partners := make([]partner.ID, 100)
			for i := range partners {
				partners[i] = partner.Of(strconv.Itoa(i))
			}
			var last atomic.Int64
			one := func() error {
				n := last.Add(1)
				c, err := proxytest.On(s).Own(b.Context(), partners[n%100], "b"+strconv.FormatInt(n, 10), "new", noon, time.Time{}, "")
				if err == nil && settles {
					_, err = proxytest.On(s).Complete(b.Context(), c, ledger.Succeeded, noon)
				}
				return err
			}
			b.ResetTimer()
			var calling sync.WaitGroup
			var begun atomic.Int64
			for range callers {
				calling.Go(func() {
					for begun.Add(1) <= int64(b.N) {
						if err := one(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			calling.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			reportSize(b, s, engine.name)
		})
	}
}
