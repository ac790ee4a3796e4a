package main

import (
	"cmp"
	"fmt"
	"os"
	"time"
)

// A subject is one kind of call to one process.
type subject struct {
	name    string
	process *process // nil if it is not measured
	missing string   // why it is not measured
	path    string
	body    string         // of a call
	bill    string         // in place of BILL in body
	answer  string         // the answer to a call contains it
	targets string         // paths and bills in place of path, for wrk
	file    string         // the script of wrk
	store   string         // the file of the store with SQLite
	before  func(*subject) // is called before the first call; may be nil

	connections int // of wrk; 0: as the flag says
	partners    int // whose creates take turns; 0: all are of one
}

// A sample is one measurement of one subject.
type sample struct {
	calls     int
	perSecond float64
	p50, p99  float64 // µs
	cpu       float64 // µs of one call
	backend   float64 // the same of the backend
}

// measurements are the samples of a run.
type measurements struct {
	subjects []*subject
	samples  [][]sample // by subject and round
}

// measure measures all subjects in turn, in each round.
func (l *lab) measure(subjects []*subject, o options) *measurements {
	m := &measurements{subjects, make([][]sample, len(subjects))}
	l.prepare(subjects)
	for round := range o.rounds + 1 {
		for i, s := range subjects {
			switch {
			case s.process == nil:
			case round == 0:
				// The warm-up is short, and with 1,024 connections a slow machine would answer nothing in a second.
				l.once(s, 1, min(o.connections, 64))
			default:
				r := l.once(s, o.seconds, cmp.Or(s.connections, o.connections))
				fmt.Fprintf(l.progress, "round %d %-42s %7.0f calls/s  p99 %.0f µs  %6.1f µs CPU/call\n",
					round, s.name, r.perSecond, r.p99, r.cpu)
				m.samples[i] = append(m.samples[i], r)
			}
		}
	}
	return m
}

// once measures a subject for a time.
func (l *lab) once(s *subject, seconds, connections int) sample {
	before, backend := s.process.cpu(), l.server.cpu()
	r := l.wrk(s, seconds, connections)
	perCall := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(r.calls) }
	r.cpu, r.backend = perCall(s.process.cpu()-before), perCall(l.server.cpu()-backend)
	must(s.process.emptyLogs())
	return r
}

// must adds to an error what the process has printed last, and ends the run.
func (s *subject) must(err error) {
	if err != nil {
		text, _ := os.ReadFile(s.process.log)
		must(fmt.Errorf("%s: %w\nThe process printed:\n%s", s.name, err, text[max(0, len(text)-2000):]))
	}
}
