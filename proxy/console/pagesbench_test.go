package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
)

// BenchmarkPages has the time of each page that depends on the number of partners, with 500 partners and four waves:
//
//	go test ./proxy/console -run '^$' -bench Pages -benchtime 20x
func BenchmarkPages(b *testing.B) {
	for engine, url := range map[string]func(testing.TB) string{"sqlite": proxytest.SQLite, "postgres": proxytest.Postgres} {
		b.Run(engine, func(b *testing.B) {
			pages, o := consoleOf(b, url(b), 500, config.Separate, false)
			ref := func(i int) string { return partner.ShortOf(fmt.Sprint("invented-", i)) }
			for w := range 4 {
				var list []string
				for i := range 100 {
					list = append(list, ref(w*100+i))
				}
				_, err := o.CreateWave(b.Context(), operate.WaveOrder{
					Author: operate.Author{By: "anna"}, WaveName: operate.WaveName{Name: fmt.Sprint("wave-", w)},
					Plan: moves.Plan{Each: moves.Pace{Steps: 60, Per: time.Hour}}, Partners: strings.Join(list, "\n"),
				})
				must(b, err)
			}
			must(b, o.Rollout.SetGauges(b.Context()))
			for _, path := range []string{
				"/", "/partners", "/partners?state=fail", "/partners?stage=canary", "/partners/" + ref(14), "/partners/" + ref(14) + "/next", "/partners/stop",
				"/waves", "/waves/wave-1", "/waves/wave-1?waits=person", "/waves/wave-1/rollback", "/waves/new?stage=old", "/bills", "/deliveries",
			} {
				b.Run(path, func(b *testing.B) {
					var took []float64
					for b.Loop() {
						began, w := time.Now(), httptest.NewRecorder()
						pages.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil))
						if w.Code != http.StatusOK {
							b.Fatalf("%d: %s", w.Code, w.Body)
						}
						took = append(took, float64(time.Since(began))/float64(time.Millisecond))
					}
					slices.Sort(took)
					b.ReportMetric(took[len(took)/2], "median-ms")
				})
			}
		})
	}
}
