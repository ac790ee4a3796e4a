package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"billbridge/proxy/proxytest"
)

// Creates of bills.
const (
	legacyCreate = `{"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"bill_id":"` + idPlace + `","product_nm":"11월 수강료","member_nm":"김하늘","phone":"01000000000","price":"20000","expire_dt":"2099-12-31","hash":"eea898865fee0e09f10d70ca2feb88956330eee4380f039d6ac66fa58f6f0532"}}`
	v2Create     = `{"apiKey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"billId":"` + idPlace + `","sendType":"URL","productName":"11월 수강료","memberName":"김하늘","phone":"01000000000","price":20000,"expireDt":"2099-12-31","hash":"eea898865fee0e09f10d70ca2feb88956330eee4380f039d6ac66fa58f6f0532"}}`
	v2Notice     = `{"apprNum":"` + idPlace + `","apiKey":"demo-partner-key","billId":"BILL","apprState":"F","apprPrice":"20000","apprDt":20261121093015}`
)

// The names of the yardsticks of creates and callbacks.
const (
	tunedCreate = "ReverseProxy, tuned: create passed through"
	plainCreate = "create without a rollout"
)

// writes are the subjects that create bills, with and without the ledger of a rollout, and that receive callbacks. compare is another
// binary of billbridge, or "".
func (l *lab) writes(compare string) ([]*subject, error) {
	tuned, err := l.role("tuned", l.backend)
	if err != nil {
		return nil, err
	}
	subjects := []*subject{{name: tunedCreate, process: tuned, path: "/bill", body: v2Create, answer: newBill}}
	if err := l.gatewayWrites(&subjects, l.billbridge, ""); err != nil || compare == "" {
		return subjects, err
	}
	return subjects, l.gatewayWrites(&subjects, compare, filepath.Base(compare)+": ")
}

// gatewayWrites adds the subjects of one binary of billbridge.
func (l *lab) gatewayWrites(subjects *[]*subject, binary, prefix string) error {
	create := subject{path: "/if/bill/send", body: legacyCreate, answer: newBill}
	plain, err := l.gateway(binary, l.twoBackends())
	if err != nil {
		return err
	}
	*subjects = append(*subjects, create.of(prefix+plainCreate, plain))
	create.before = l.begin
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		for _, stage := range []string{"drained", "new"} {
			s := create.of(fmt.Sprintf("%screate, stage %s, %s", prefix, stage, engine), nil)
			if err := l.withStore(s, binary, engine, l.twoBackends()+fmt.Sprintf(rolloutSection, stage)); err != nil {
				return err
			}
			*subjects = append(*subjects, s)
		}
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		s := &subject{name: prefix + "callback received and stored, " + engine, before: l.bind}
		if err := l.withStore(s, binary, engine, l.readConfig()+callbackSection); err != nil {
			return err
		}
		*subjects = append(*subjects, s)
	}
	return nil
}

const (
	// The settling period must be longer than the waits and timeouts of the upstreams.
	rolloutSection = "rollout: {old: old, new: new, default: %s, settle: 7s, ask: 4s, send_within: 30s}\n"
	// Nothing is delivered during the run: only what the relay receives is measured.
	callbackSection = "callbacks: {public_url: http://127.0.0.1, allow: [127.0.0.0/8], ports: [], schedule: [24h]}\n"
)

// twoBackends is the config of a gateway in front of an old and a new backend.
func (l *lab) twoBackends() string {
	return fmt.Sprintf(`
upstreams:
  old: {form: legacy, url: "http://%[1]s/old", timeout: 4s, connections: %[2]d, partner_connections: %[2]d}
  new: {form: v2, url: "http://%[1]s", timeout: 4s, connections: %[2]d, partner_connections: %[2]d}
route: {default: new}
limits: {connections: 100000, address_connections: 100000, partner: {in_flight: 0}}
`, l.backend, keptConnections)
}

// withStore starts the gateway of a subject with an empty store.
func (l *lab) withStore(s *subject, binary, engine, config string) (err error) {
	url := "sqlite:" + filepath.Join(l.dir, fmt.Sprintf("store%d.db", len(l.started)))
	if engine == "PostgreSQL" {
		if url, err = proxytest.DurablePostgres(l.ctx); err != nil {
			s.missing = err.Error()
			return l.ctx.Err()
		}
	}
	s.process, err = l.gateway(binary, config+fmt.Sprintf("store: {url: %q}\n", url))
	return err
}

// begin begins the rollout of a gateway, and makes a call, so that the partner is seen. After the settling period its creates are sent to the
// new backend. The settling periods of all gateways run at the same time.
func (l *lab) begin(s *subject) (err error) {
	for range 100 { // until the gateway answers
		command := exec.CommandContext(l.ctx, l.billbridge, "rollout", "begin", "--by", "bench", "--admin", "http://"+s.process.admin)
		var out []byte
		if out, err = command.CombinedOutput(); err == nil {
			return l.await(s, `"0000"`)
		}
		err = fmt.Errorf("billbridge rollout begin: %w\n%s", err, out)
		if err := l.sleep(50 * time.Millisecond); err != nil {
			return err
		}
	}
	return s.failed(err)
}

// callbackAddress finds the address of the gateway in the answer to a create: the backend returns it as the URL of the bill.
var callbackAddress = regexp.MustCompile(`"shortURL":"http://[^/"]+(/[^"]+)"`)

// bind creates bills with a callback address, so that the backend can call the gateway back.
func (l *lab) bind(s *subject) error {
	create := *s
	create.path = "/if/bill/send"
	create.body = strings.Replace(legacyCreate, `"product_nm"`, `"callbackURL":"http://127.0.0.1:9/paid","product_nm"`, 1)
	if err := l.await(&create, "/callback/"); err != nil {
		return err
	}
	var targets strings.Builder
	bill := ""
	for range 1000 {
		answer, err := l.post(&create)
		if err != nil {
			return s.failed(err)
		}
		m := callbackAddress.FindSubmatch(answer)
		if m == nil {
			return s.failed(fmt.Errorf("no callback address in the answer %s", answer))
		}
		s.path, bill = string(m[1]), billID(l.calls)
		fmt.Fprintf(&targets, `{"%s", "%s"},`, s.path, bill)
	}
	s.body = strings.Replace(v2Notice, "BILL", bill, 1)
	s.script, s.answer = callsScript(targets.String(), v2Notice), `"0000"`
	return nil
}
