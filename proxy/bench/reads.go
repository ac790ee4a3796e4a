package main

import (
	"fmt"
	"path/filepath"
	"slices"
)

// keptConnections is how many connections to the backend each process keeps: as many as there are calls at most, so that none must open a
// connection for a call, or wait for one.
const keptConnections = 1024

// The names of the yardsticks.
const (
	nginxLua   = "nginx + Lua: translated, logged, counted"
	tunedProxy = "ReverseProxy, tuned: passed through"
)

// The calls.
var (
	pass       = subject{path: "/bill/read", body: v2Call, answer: `"apprNum":"30012345"`}
	translated = subject{path: "/if/bill/read", body: legacyCall, answer: `"appr_num":"30012345"`}
)

// of returns the call to a process.
func (s subject) of(name string, p *process) *subject {
	s.name, s.process = name, p
	return &s
}

// reads are the subjects that read a bill. compare is another binary of billbridge, or "".
func (l *lab) reads(compare string) ([]*subject, error) {
	plain, noPlain, err := l.nginx(false)
	if err != nil {
		return nil, err
	}
	lua, noLua, err := l.nginx(true)
	if err != nil {
		return nil, err
	}
	tuned, err := l.role("tuned", l.backend)
	if err != nil {
		return nil, err
	}
	standard, err := l.role("default", l.backend)
	if err != nil {
		return nil, err
	}
	ours, err := l.gateway(l.billbridge, l.readConfig())
	if err != nil {
		return nil, err
	}
	floor, yardstick := pass.of("nginx: passed through, no log", plain), translated.of(nginxLua, lua)
	floor.missing, yardstick.missing = noPlain, noLua
	// Subjects of the same process are apart, so that what one leaves to do is not counted for the other.
	subjects := []*subject{
		translated.of("billbridge: translated, logged, counted", ours), yardstick, pass.of(tunedProxy, tuned),
		pass.of("billbridge: passed through, logged, counted", ours), floor,
		pass.of("ReverseProxy, default: passed through", standard),
	}
	if compare == "" {
		return subjects, nil
	}
	other, err := l.gateway(compare, l.readConfig())
	if err != nil {
		return nil, err
	}
	name := filepath.Base(compare)
	subjects = slices.Insert(subjects, 1, translated.of(name+": translated, logged, counted", other))
	return append(subjects, pass.of(name+": passed through, logged, counted", other)), nil
}

// readConfig is the config of a gateway in front of one v2 backend. All calls come from one partner and one address; the limits for these
// are lifted.
func (l *lab) readConfig() string {
	return fmt.Sprintf(`
upstreams: {new: {form: v2, url: "http://%s", connections: %d, partner_connections: %[2]d}}
limits: {connections: 100000, address_connections: 100000, partner: {in_flight: 0}}
`, l.backend, keptConnections)
}
