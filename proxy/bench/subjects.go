package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"

	_ "modernc.org/sqlite"
)

// keptConnections is how many connections to the backend each process keeps: as many as there are calls at most, so
// that none must open a connection for a call, or wait for one.
const keptConnections = 1024

// The names of the yardsticks.
const (
	nginxLua    = "nginx + Lua: translated, logged, counted"
	nginxPass   = "nginx: passed through, no log"
	tunedProxy  = "ReverseProxy, tuned: passed through"
	tunedCreate = "ReverseProxy, tuned: create passed through"
	plainCreate = "create without a rollout"
	otherRead   = "other billbridge: read"
)

// The calls.
var (
	pass       = subject{path: "/bill/read", body: v2Call, answer: `"apprNum":"30012345"`}
	translated = subject{path: "/if/bill/read", body: legacyCall, answer: `"appr_num":"30012345"`}
	create     = subject{path: "/if/bill/send", body: legacyCreate, answer: newBill}
)

// of returns a copy of the subject that calls a process, with a name for the table.
func (s subject) of(name string, p *process) *subject {
	s.name, s.process = name, p
	return &s
}

// reads are the subjects that read a bill: of this billbridge, of another one if there is one, and of other proxies.
func (l *lab) reads(other string) []*subject {
	plain, noPlain := l.nginx(false)
	lua, noLua := l.nginx(true)
	ours := l.gateway(l.readConfig())
	floor, yardstick := pass.of(nginxPass, plain), translated.of(nginxLua, lua)
	floor.missing, yardstick.missing = noPlain, noLua
	// Subjects of the same process are apart, so that what one leaves to do is not counted for the other.
	subjects := []*subject{
		translated.of("billbridge: translated, logged, counted", ours), yardstick,
		pass.of(tunedProxy, l.role("proxy", l.front)),
		pass.of("billbridge: passed through, logged, counted", ours), floor,
	}
	if other != "" {
		theirs := l.gatewayOf(other, l.readConfig())
		subjects = append(subjects, translated.of(otherRead, theirs))
	}
	return subjects
}

// secure are the subjects of calls with TLS on both sides: of this billbridge, of another one if there is one, and of
// other proxies.
func (l *lab) secure(other string) []*subject {
	plain, missing := l.nginx(false)
	floor, tuned, ours := pass.of(nginxPass, plain), l.role("proxy", l.front, l.pair), l.gateway(l.readConfig())
	floor.missing = missing
	subjects := []*subject{
		translated.of("billbridge: read", ours), floor, pass.of(tunedProxy, tuned), create.of("billbridge: create", ours),
		{name: tunedCreate, process: tuned, path: "/bill", body: v2Create, answer: newBill},
	}
	if other != "" {
		theirs := l.gatewayOf(other, l.readConfig())
		subjects = append(subjects, translated.of(otherRead, theirs), create.of("other billbridge: create", theirs))
	}
	return subjects
}

// limits lifts the limits of one partner and one address, from which all calls come.
const limits = "limits: {trusted: [127.0.0.0/8], partner: {in_flight: 0}}\n"

// readConfig is the config of a gateway in front of one v2 backend.
func (l *lab) readConfig() string {
	const format = "upstreams: {new: {form: v2, url: \"%s://%s\", connections: %d%s}}\n%s"
	ca, listener := "", ""
	if l.pair != "" {
		ca, listener = fmt.Sprintf(", tls: {ca: %q}", l.pair), fmt.Sprintf("tls: {cert: %q, key: %[1]q}\n", l.pair)
	}
	return fmt.Sprintf(format, l.scheme, l.front, 4*keptConnections, ca, listener) + limits // one partner gets a quarter
}

// twoBackends is the config of a gateway in front of an old and a new backend.
func (l *lab) twoBackends() string {
	return fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: "http://%[1]s/old", timeout: 4s, connections: %[2]d}
  new: {form: v2, url: "http://%[1]s", timeout: 4s, connections: %[2]d}
route: {default: new}
`, l.backend, 4*keptConnections) + limits
}

const (
	// The settling period must be longer than the waits and timeouts of the upstreams.
	rolloutSection = "rollout: {old: old, new: new, default: %s, settle: 7s}\n"
	// Nothing is delivered during the run: only what the relay receives is measured.
	callbackSection = "callbacks: {public_url: http://127.0.0.1, allow: [127.0.0.0/8], ports: [], schedule: [24h]}\n"
)

// writes are the subjects that create bills, with and without the ledger of a rollout, and that receive callbacks.
func (l *lab) writes(engines ...string) []*subject {
	subjects := []*subject{
		{name: tunedCreate, process: l.role("proxy", l.front), path: "/bill", body: v2Create, answer: newBill},
		create.of(plainCreate, l.gateway(l.twoBackends())),
	}
	for _, engine := range engines {
		for _, stage := range []string{"drained", "new"} {
			s := create.of(fmt.Sprintf("create, stage %s, %s", stage, engine), nil)
			s.before = l.begin
			subjects = append(subjects, l.withStore(s, engine, l.twoBackends()+fmt.Sprintf(rolloutSection, stage)))
		}
		s := &subject{name: "callback received and stored, " + engine, before: l.bind}
		subjects = append(subjects, l.withStore(s, engine, l.readConfig()+callbackSection))
	}
	return subjects
}

// growing are creates in stage drained, with SQLite, of which one thing grows.
func (l *lab) growing() (subjects []*subject) {
	config := l.twoBackends() + fmt.Sprintf(rolloutSection, "drained")
	grow := func(what string, to ...int) {
		for _, n := range to {
			s, bills := create.of(fmt.Sprint(n, " ", what), nil), 0
			switch what {
			case "connections":
				s.connections = n
			case "partners":
				s.partners = n
			default:
				bills = n
			}
			s.before = func(s *subject) { l.begin(s); s.must(fill(s, bills)) }
			subjects = append(subjects, l.withStore(s, "SQLite", config))
		}
	}
	grow("connections", 16, 64, 256, 1024)
	grow("partners", 1, 100, 10_000)
	grow("bills", 1_000, 100_000, 1_000_000)
	return subjects
}

// fill adds bills to the ledger of a subject, like the one that it has, and its partners, whose settling period is
// over.
func fill(s *subject, bills int) error {
	db, err := sql.Open("sqlite", "file:"+s.store+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	t, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // nothing is left to roll back after the commit
	if _, err = t.Exec(`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < $1)
		INSERT INTO billbridge_bills SELECT partner, printf('B%019d', n), version + n, upstream, state, also_at, ends,
			estimated, ended, denied, due, unknown, resolved, doubled, data FROM n, (SELECT * FROM billbridge_bills LIMIT 1)
			WHERE n <= $1`, bills); err != nil {
		return err
	}
	for n := range s.partners {
		id := partner.Of(fmt.Sprintf("demo-partner-%d-key", n))
		_, err = t.Exec("INSERT INTO billbridge_proven VALUES ($1)", id)
		_, seen := t.Exec("INSERT INTO billbridge_seen VALUES ($1, 0)", id)
		if err = errors.Join(err, seen); err != nil {
			return err
		}
	}
	return t.Commit()
}

// withStore starts the gateway of a subject with an empty store.
func (l *lab) withStore(s *subject, engine, config string) *subject {
	s.store = filepath.Join(l.dir, fmt.Sprintf("store%d.db", len(l.started)))
	url := "sqlite:" + s.store
	if engine == "PostgreSQL" {
		var err error
		if url, err = proxytest.DurablePostgres(l.ctx); err != nil {
			s.missing = err.Error()
			return s
		}
	}
	s.process = l.gateway(config + fmt.Sprintf("store: {url: %q}\n", url))
	return s
}

// begin begins the rollout of a gateway, and makes a call, so that the partner is seen. After the settling period its
// creates are sent to the new backend. The settling periods of all gateways run at the same time.
func (l *lab) begin(s *subject) {
	s.must(l.until(func() error { // until the gateway answers
		command := exec.CommandContext(l.ctx, l.billbridge, "rollout", "begin",
			"--by", "bench", "--admin", "http://"+s.process.admin)
		out, err := command.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("billbridge rollout begin: %w\n%s", err, out)
		}
		return err
	}))
	l.await(s, `"0000"`)
}

// callbackAddress finds the address of the gateway in the answer to a create: the backend returns it as the URL of the
// bill.
var callbackAddress = regexp.MustCompile(`"shortURL":"http://[^/"]+(/callback/[^"]+)"`)

// bind creates bills with a callback address, so that the backend can call the gateway back.
func (l *lab) bind(s *subject) {
	bound := *s
	bound.path = create.path
	bound.body = strings.Replace(legacyCreate,
		`"product_nm"`, `"callbackURL":"http://127.0.0.1:9/paid","product_nm"`, 1)
	l.await(&bound, "/callback/")
	for range l.bound {
		answer, err := l.post(&bound, "/callback/")
		s.must(err)
		s.path, s.bill = string(callbackAddress.FindSubmatch(answer)[1]), billID(l.calls)
		s.targets += fmt.Sprintf(`{"%s", "%s"},`, s.path, s.bill)
	}
	s.body, s.answer = v2Notice, `"0000"`
}
