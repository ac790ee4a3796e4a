package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"billbridge/config"
)

// Run serves until ctx ends, and then stops in these steps:
//
//   - The gateway is not ready, and serves for drain.delay more: each answer closes its connection.
//   - It closes the listeners, and gives requests that are half read 5 seconds.
//   - It waits for the time of the longest call for calls and for attempts to deliver a callback.
//   - It closes the admin listener and the store.
func (s *Server) Run(ctx context.Context) error {
	var accepting sync.WaitGroup
	for _, e := range s.endpoints {
		accepting.Go(func() { s.serveErrors <- e.server.Serve(e.listener) })
	}
	// running is the number of servers that have not ended, the admin server included.
	running := len(s.endpoints) + 1
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends after drain.delay
	defer stop()
	relayDone, storeLoops := s.startBackground(background)

	var err error
	select {
	case <-ctx.Done():
	case err = <-s.serveErrors:
		running--
	}
	s.serving.Store(false)
	s.gateway.DisableKeepAlives()
	if err == nil {
		if err = s.delayDrain(s.current.Load().Drain); err != nil {
			running--
		}
	}
	stop()
	s.reloading.Lock()
	timeout := s.drainTimeout
	s.reloading.Unlock()
	drain, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.log.Info("draining", "at_most", config.Duration(timeout).String())
	err = errors.Join(err, s.drainCalls(drain, &accepting))
	select {
	case <-relayDone:
	case <-drain.Done():
	}
	err = errors.Join(err, s.adminServer.Shutdown(drain))
	s.tokens.guesses.Close()
	for ; running > 0; running-- {
		if stopped := <-s.serveErrors; !errors.Is(stopped, http.ErrServerClosed) && !errors.Is(stopped, net.ErrClosed) {
			err = errors.Join(err, stopped)
		}
	}
	storeLoops.Wait() // soon: these loops use the store, and reads that end with background
	if s.rollout != nil {
		err = errors.Join(err, s.rollout.Close(drain))
	}
	s.gateway.Close()
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

// startBackground starts, until ctx ends, the delivery of callbacks, and the loops that follow and change the store:
// relayDone is closed when the delivery has ended; storeLoops are the others.
func (s *Server) startBackground(ctx context.Context) (relayDone <-chan struct{}, storeLoops *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.relay != nil {
			s.relay.Run(ctx)
		}
	}()
	var loops []func(context.Context)
	if s.rollout != nil {
		loops = append(loops, s.rollout.Run, s.operator.RunWaves) // Run follows the keys, too
	} else if s.store != nil {
		loops = append(loops, s.followKeys)
	}
	if s.store != nil {
		announce := func(ctx context.Context) { every(ctx, tickInterval, func() { s.announce(ctx) }) }
		loops = append(loops, s.operator.RunReads, s.clock.run, announce)
	}
	storeLoops = new(sync.WaitGroup)
	for _, run := range loops {
		storeLoops.Go(func() { run(ctx) })
	}
	return done, storeLoops
}

// delayDrain waits for drain.delay. It returns earlier if a server ends, with its error, and by default if no
// connection is open.
func (s *Server) delayDrain(c config.Drain) error {
	mayEnd := func() bool { return c.Delay == 0 || !c.Whole && s.open.count() == 0 }
	if mayEnd() {
		return nil
	}
	s.log.Info("not ready, serving until the drain begins", "delay", c.Delay.String())
	over := time.After(time.Duration(c.Delay))
	for poll := time.Tick(5 * time.Millisecond); !mayEnd(); {
		select {
		case <-over:
			return nil
		case err := <-s.serveErrors:
			return err
		case <-poll:
		}
	}
	return nil
}

// drainCalls closes the listeners and waits until ctx ends for the calls that have arrived.
func (s *Server) drainCalls(ctx context.Context, accepting *sync.WaitGroup) (err error) {
	s.gateway.Drain()
	for _, e := range s.endpoints {
		_ = e.listener.Close()
	}
	accepting.Wait() // from here on, the endpoints know every connection
	s.awaitFirstRequests(ctx)
	for _, e := range s.endpoints {
		if stopped := e.server.Shutdown(ctx); !errors.Is(stopped, net.ErrClosed) { // the listener was closed above
			err = errors.Join(err, stopped)
		}
	}
	return err
}
