package operate

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"billbridge/proxy/store"
)

// NewReport makes a report.
var NewReport = newReport

// Scan reads while no other scan does, and OpenBills is one.
func (o *core) Scan(ctx context.Context, read func() error) error { return o.scan(ctx, read) }

// Behind is the gauge of the reads for callbacks.
func (o *core) Behind() prometheus.Gauge { return o.behind }

func (o *core) OpenBills(ctx context.Context, in store.Range) ([]store.Bills, error) {
	return o.openBills(ctx, in)
}

// DecodeLike returns what the door decodes of a request, as a value of the type of like.
func DecodeLike(r *http.Request, like any) (any, error) {
	into := reflect.New(reflect.TypeOf(like))
	err := decode(r, into.Interface())
	return into.Elem().Interface(), err
}

// Waves makes the steps of waves as one gateway.
type Waves struct{ waves }

// NewWaves returns a gateway that makes the steps of waves.
func NewWaves(o *Operator) *Waves {
	return &Waves{waves{waveVerbs: o.waveVerbs, next: map[string]time.Time{}}}
}

// Step makes the steps that can be made now.
func (w *Waves) Step(ctx context.Context) error {
	clear(w.next)
	return w.step(ctx)
}
