package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// upstreamConnections is the number of connections to the backend that each process may keep: as many as wrk ever opens, so that
// none of them must open a connection for a call.
const upstreamConnections = 1024

// The names of the yardsticks.
const (
	nginxLua   = "nginx + Lua: translated, logged, counted"
	tunedProxy = "ReverseProxy, tuned: passed through"
)

// reads are the subjects that read a bill.
func (l *lab) reads(compare string) ([]*subject, error) {
	at, err := freeAddresses(6)
	if err != nil {
		return nil, err
	}
	pass := subject{path: "/bill/read", body: v2Call, answer: `"apprNum":"30012345"`}
	translated := subject{path: "/if/bill/read", body: legacyCall, answer: `"appr_num":"30012345"`}
	named := func(s subject, name string, p *process) *subject { s.name, s.process = name, p; return &s }

	plain, missing, err := l.nginx(at[0], false)
	if err != nil {
		return nil, err
	}
	floor := named(pass, "nginx: passed through, no log", plain)
	floor.missing = missing
	lua, missing, err := l.nginx(at[1], true)
	if err != nil {
		return nil, err
	}
	yardstick := named(translated, nginxLua, lua)
	yardstick.missing = missing
	tuned, err := l.role("tuned", at[2], l.backend)
	if err != nil {
		return nil, err
	}
	standard, err := l.role("default", at[3], l.backend)
	if err != nil {
		return nil, err
	}
	ours, err := l.gateway(l.billbridge, at[4], l.readConfig())
	if err != nil {
		return nil, err
	}
	subjects := []*subject{
		named(translated, "billbridge: translated, logged, counted", ours), yardstick, named(pass, tunedProxy, tuned),
		named(pass, "billbridge: passed through, logged, counted", ours), floor, named(pass, "ReverseProxy, default: passed through", standard),
	}
	if compare == "" {
		return subjects, nil
	}
	other, err := l.gateway(compare, at[5], l.readConfig())
	if err != nil {
		return nil, err
	}
	name := filepath.Base(compare)
	return append(subjects, named(translated, name+": translated", other), named(pass, name+": passed through", other)), nil
}

// readConfig is the config of a gateway in front of one v2 backend, without its listeners. All calls come from one partner and one address;
// the limits for these are lifted.
func (l *lab) readConfig() string {
	return fmt.Sprintf(`
upstreams: {new: {form: v2, url: "http://%s", connections: %d, partner_connections: %[2]d}}
limits: {connections: 100000, address_connections: 100000, partner: {in_flight: 0}}
`, l.backend, upstreamConnections)
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
	return l.start(at, binary, "serve", "--config", file)
}
