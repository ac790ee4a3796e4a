package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// The connections to the backend that a process keeps. ReverseProxy and nginx open as many as there are calls, so they keep them all:
// none must open a connection for a call. In billbridge calls wait for one of 256, the default.
const (
	keptConnections    = 1024
	gatewayConnections = 256
)

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

// defaultProxy is ReverseProxy without settings. It keeps two idle connections and opens one for nearly every call, so that it would
// run out of ports with more connections.
func (l *lab) defaultProxy() (*subject, error) {
	at, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	p, err := l.role("default", at[0], l.backend)
	return pass.of("ReverseProxy, default: passed through", p), err
}

// reads are the subjects that read a bill.
func (l *lab) reads(compare string) ([]*subject, error) {
	at, err := freeAddresses(5)
	if err != nil {
		return nil, err
	}
	plain, missing, err := l.nginx(at[0], false)
	if err != nil {
		return nil, err
	}
	floor := pass.of("nginx: passed through, no log", plain)
	floor.missing = missing
	lua, missing, err := l.nginx(at[1], true)
	if err != nil {
		return nil, err
	}
	yardstick := translated.of(nginxLua, lua)
	yardstick.missing = missing
	tuned, err := l.role("tuned", at[2], l.backend)
	if err != nil {
		return nil, err
	}
	ours, err := l.gateway(l.billbridge, at[3], l.readConfig())
	if err != nil {
		return nil, err
	}
	subjects := []*subject{
		translated.of("billbridge: translated, logged, counted", ours), yardstick, pass.of(tunedProxy, tuned),
		pass.of("billbridge: passed through, logged, counted", ours), floor,
	}
	if compare == "" {
		return subjects, nil
	}
	other, err := l.gateway(compare, at[4], l.readConfig())
	if err != nil {
		return nil, err
	}
	name := filepath.Base(compare)
	return append(subjects, translated.of(name+": translated", other), pass.of(name+": passed through", other)), nil
}

// readConfig is the config of a gateway in front of one v2 backend, without its listeners. All calls come from one partner and one address;
// the limits for these are lifted.
func (l *lab) readConfig() string {
	return fmt.Sprintf(`
upstreams: {new: {form: v2, url: "http://%s", connections: %d, partner_connections: %[2]d}}
limits: {connections: 100000, address_connections: 100000, partner: {in_flight: 0}}
`, l.backend, gatewayConnections)
}

// gateway starts a binary of billbridge with a config.
func (l *lab) gateway(binary, at, config string) (*process, error) {
	admin, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, fmt.Sprintf("config%d.yaml", len(l.started)))
	config = fmt.Sprintf("listen: %s\nadmin: {listen: %s}\n", at, admin[0]) + config
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p, err := l.start(at, binary, "serve", "--config", file)
	if err == nil {
		p.admin = admin[0]
	}
	return p, err
}
