package tracing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
)

const (
	// maxWaiting is how many spans wait for their export, beside those that are being exported. Further spans are lost:
	// a call never waits for the receiver.
	maxWaiting = 8192
	// maxBatch is the most spans in one export. So many spans begin an export before exportEvery.
	maxBatch = 512
	// exportEvery is how long a batch waits for more spans.
	exportEvery = time.Second
	// exportWithin bounds one export, with its retries.
	exportWithin = 30 * time.Second
	// logEvery is the shortest time between two lines of the log about lost spans.
	logEvery = time.Minute
)

// A queue holds the spans that have ended until they are exported. It counts those that are lost.
type queue struct {
	to       atomic.Pointer[receiver]
	lost     prometheus.Counter
	log      *slog.Logger
	lines    rate.Sometimes
	unlogged atomic.Int64 // lost spans since the last line

	ended     chan *otlp.Span
	begin     sync.Once // tracing is on for the first time
	running   sync.WaitGroup
	closing   chan struct{}
	exporting context.Context // of all exports
	cancel    context.CancelFunc
}

func (q *queue) init(log *slog.Logger) {
	q.exporting, q.cancel = context.WithCancel(context.Background())
	q.ended, q.closing = make(chan *otlp.Span, maxWaiting), make(chan struct{})
	q.log, q.lines = log, rate.Sometimes{First: 1, Interval: logEvery}
	q.lost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "billbridge_tracing_spans_lost_total",
		Help: "Spans that could not be exported: the receiver did not take them, or too many waited.",
	})
}

// add adds a span that has ended. It does not wait for the receiver.
func (q *queue) add(span *otlp.Span) {
	select {
	case q.ended <- span:
	default:
		q.lose(1, "the receiver is slower than the gateway")
	}
}

// run exports spans until Close, and then those that have ended by then.
func (q *queue) run() {
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	var batch []*otlp.Span
	for open := true; open || len(q.ended) > 0; {
		select {
		case span := <-q.ended:
			if batch = append(batch, span); len(batch) < maxBatch && (open || len(q.ended) > 0) {
				continue
			}
		case <-tick.C:
		case <-q.closing:
			open, q.closing = false, nil
		}
		q.export(batch)
		batch = nil
	}
}

// export exports spans. If the receiver refuses some of them, all of them count as lost.
func (q *queue) export(spans []*otlp.Span) {
	if len(spans) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(q.exporting, exportWithin)
	defer cancel()
	r := q.to.Load()
	if err := r.export(ctx, spans); err != nil {
		q.lose(len(spans), r.describe(err))
	}
}

// lose counts lost spans. It logs at most one line per minute.
func (q *queue) lose(n int, why string) {
	q.lost.Add(float64(n))
	q.unlogged.Add(int64(n))
	q.lines.Do(func() {
		q.log.Warn("spans could not be exported", "count", q.unlogged.Swap(0), "error", why)
	})
}
