package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"billbridge/proxy/rollout"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
)

// tickEvery is how often the store's clock is moved on.
const tickEvery = time.Minute

// watchClock compares the machine's clock with the one that the store vouches for, before anything relies on it.
func (s *Server) watchClock(ctx context.Context, registry prometheus.Registerer) error {
	if err := registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "billbridge_store_clock_offset_seconds",
		Help: "How far the machine's clock, or PostgreSQL's, is ahead of the one that the store vouches for. Beyond a day either way nothing is removed from the store.",
	}, func() float64 { return s.store.Clock(time.Now()).Offset.Seconds() })); err != nil {
		return err
	}
	return s.tick(ctx)
}

// runClock moves the store's clock on until ctx ends.
func (s *Server) runClock(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.tick(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("the store's clock cannot be moved on", "error", err.Error())
			}
		}
	}
}

func (s *Server) tick(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clock, err := s.store.Tick(ctx, time.Now())
	if err != nil {
		return err
	}
	if was := s.stepped.Swap(clock.Stepped()); was != clock.Stepped() {
		if was {
			s.log.Info("the clock agrees with the store's again; rows that are over are removed again")
		} else {
			s.log.Warn("the clock is not the one that the store knows: nothing is removed from the store by the time until it is right again, "+
				"or an operator confirms it with billbridge store clock --confirm",
				"store", clock.Vouched, "clock", clock.Vouched.Add(clock.Offset), "ahead", clock.Offset.String())
		}
	}
	return nil
}

// storeOperator is what the operator sees of the store and decides about it, for the admin listener:
//
//	GET  /store/clock
//	POST /store/clock?by=    the machine's clock, or PostgreSQL's, is right
func (s *Server) storeOperator() http.Handler {
	m := mux.NewRouter()
	m.Path("/store/clock").Methods(http.MethodGet).HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.sayClock(w) })
	m.Path("/store/clock").Methods(http.MethodPost).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		by := q.Get("by")
		if err != nil || by == "" || len(by) > 100 || len(q) != 1 || strings.ContainsFunc(by, func(c rune) bool { return !unicode.IsPrint(c) }) {
			http.Error(w, "say who you are with by, and nothing else", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		if err := s.store.ConfirmClock(ctx, by, time.Now()); err != nil {
			http.Error(w, fmt.Sprintf("not confirmed: %v", err), http.StatusInternalServerError)
			return
		}
		s.log.Warn("the clock was confirmed", "by", by)
		_ = s.tick(ctx) // it logs what has changed; a failure is told a minute later
		s.sayClock(w)
	})
	return m
}

func (s *Server) sayClock(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(rollout.ClockOf(s.store.Clock(time.Now()))) // an operator that went away asks again
}
