package desk

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"billbridge/proxy/proxytest"
)

// pipes is a network in memory, so that a run needs no time within a bubble of testing/synctest.
type pipes struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes(name string) *pipes {
	return &pipes{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr  { return p }
func (p *pipes) Network() string { return "pipe" }
func (p *pipes) String() string  { return p.name }

// transport dials the listeners by their names.
func transport(to ...*pipes) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		for _, p := range to {
			if strings.HasPrefix(address, p.name+":") {
				client, server := net.Pipe()
				select {
				case p.conns <- server:
					return client, nil
				case <-p.closed:
				case <-ctx.Done():
				}
			}
		}
		return nil, errors.New("nobody listens at " + address)
	}}
}

const testKey = "desk-test-key-0001"

// planOf returns a plan with all options, and the waiting times as they are.
func planOf(t testing.TB, form string) Plan {
	p, err := ParsePlan([]byte("{partner: shop, form: "+form+", api_key: "+testKey+
		", options: [callbacks, cancel, destroy, resend], timeout: 10s, reconcile: 15m, hook: http://shop/desk}"), nil)
	must(t, err)
	p.speed = 1
	return p
}

// runShop runs cases against a shop with a habit, in the time of the bubble.
func runShop(t *testing.T, form, habit string, change func(*Config)) (res Result) {
	t.Helper()
	s := &shop{
		form: form, habit: habit, key: testKey, base: "http://desk", self: "http://shop", send: "URL",
		reconcile: 15 * time.Minute, retry: 2 * time.Second,
	}
	return runHandler(t, s, change)
}

// runHandler runs cases against a shop, or a handler that has the order hook.
func runHandler(t *testing.T, handler http.Handler, change func(*Config)) (res Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		at, here := newPipes("desk"), newPipes("shop")
		net := transport(at, here)
		ctx, stop := context.WithCancel(context.Background())
		run, end := context.WithCancel(ctx) // the shop goes on after the run
		s, isShop := handler.(*shop)
		form := "v2"
		if isShop {
			if s.is("stopped") {
				time.AfterFunc(13*time.Second, end)
			}
			s.client, s.ctx, form = &http.Client{Transport: net, Timeout: 10 * time.Second}, ctx, s.form
		}
		server := &http.Server{Handler: handler}
		go func() { _ = server.Serve(here) }()
		desk := &http.Server{}
		c := Config{
			Plan: planOf(t, form), Transport: net, Progress: func(Verdict) {},
			Mount: func(h http.Handler) {
				desk.Handler = h
				go func() { _ = desk.Serve(at) }()
			},
		}
		if isShop {
			s.adapt(&c.Plan)
		}
		if change != nil {
			change(&c)
		}
		res = Run(run, c)
		end()
		stop()
		_, _ = desk.Close(), server.Close()
		if isShop {
			s.all.Wait()
		}
		net.CloseIdleConnections()
	})
	return res
}

var (
	must  = proxytest.Must
	has   = proxytest.Has
	fails = proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}
