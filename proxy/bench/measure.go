package main

import (
	"fmt"
	"strconv"
	"time"
)

// A subject is one kind of call to one process.
type subject struct {
	name    string
	process *process // nil if it is not measured
	missing string   // why it is not measured
	path    string
	body    string               // of a call
	answer  string               // the answer to a call contains it
	script  string               // of wrk; if it is empty, wrk sends body
	file    string               // the script
	before  func(*subject) error // is called before the first call; may be nil
}

// A sample is one measurement of one subject.
type sample struct {
	load
	cpu time.Duration // of one call
}

// measurements are the samples of a run.
type measurements struct {
	subjects []*subject
	samples  [][]sample // by subject and round
}

// measure measures all subjects in turn, in each round.
func (l *lab) measure(subjects []*subject, o options) (*measurements, error) {
	m := &measurements{subjects, make([][]sample, len(subjects))}
	if err := l.prepare(subjects); err != nil {
		return nil, err
	}
	// The warm-up is short, and with 1,024 connections a slow machine would answer nothing in a second.
	if err := l.round(0, m, 1, min(o.connections, 64), func(int, sample) {}); err != nil {
		return nil, err
	}
	for round := range o.rounds {
		keep := func(i int, r sample) { m.samples[i] = append(m.samples[i], r) }
		if err := l.round(round+1, m, o.seconds, o.connections, keep); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// round measures each subject once.
func (l *lab) round(round int, m *measurements, seconds, connections int, keep func(subject int, r sample)) error {
	for i, s := range m.subjects {
		if s.process == nil {
			continue
		}
		r, err := l.once(s, seconds, connections)
		if err != nil {
			return err
		}
		l.show(round, s, connections, r)
		keep(i, r)
	}
	return nil
}

func (l *lab) show(round int, s *subject, connections int, r sample) {
	name := "round " + strconv.Itoa(round)
	if round == 0 {
		name = "warm-up"
	}
	fmt.Fprintf(l.progress, "%-8s %-42s %5d connections %7.0f calls/s  p99 %-8s %6.1f µs CPU/call\n",
		name, s.name, connections, r.perSecond, r.p99, micros(r.cpu))
}

func micros(d time.Duration) float64 { return float64(d) / 1000 }

// once measures a subject for a time.
func (l *lab) once(s *subject, seconds, connections int) (sample, error) {
	before, err := s.process.cpu()
	if err != nil {
		return sample{}, err
	}
	l.runs++
	w, err := runWrk(l.ctx, s.file, "http://"+s.process.at+s.path, seconds, connections, l.runs)
	if err != nil {
		return sample{}, s.failed(err)
	}
	after, err := s.process.cpu()
	if err != nil {
		return sample{}, s.failed(err)
	}
	if err := s.process.emptyLogs(); err != nil {
		return sample{}, err
	}
	return sample{w, (after - before) / time.Duration(w.calls)}, nil
}

// failed adds what the process has printed to an error.
func (s *subject) failed(err error) error {
	return fmt.Errorf("%s: %w\nThe process printed:\n%s", s.name, err, s.process.tail())
}
