package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v4"
)

// A provocation is how an alert is provoked, with labels of the alert.
type provocation struct{ alert, labels, how string }

// matches reports whether a series is of the alert and has the labels.
func (p provocation) matches(series gjson.Result) bool {
	all := series.Get("metric.alertname").String() == "Billbridge"+p.alert
	for pair := range strings.FieldsSeq(p.labels) {
		name, value, _ := strings.Cut(pair, "=")
		all = all && series.Get("metric."+name).String() == value
	}
	return all
}

var provocations = []provocation{
	{"LogLinesLost", "job=calls", "the log goes to a full device"},
	{"UnknownOutcome", "job=calls", "the sandbox breaks 30 creates off"},
	{"UpstreamErrors", "job=calls upstream=up", "the sandbox breaks 30 creates off"},
	{"ReplyMismatch", "job=calls operation=bill.read field=apprNum", "the sandbox replies with an object instead of a text"},
	{"ExtraReplies", "job=calls upstream=up", "the upstream sends a reply twice"},
	{"Overloaded", "job=calls limit=address", "30 connections, and 20 are allowed"},
	{"AdminTokenWrong", "job=calls", "8 wrong tokens"},
	{"ReloadRefused", "job=calls", "a config with an unknown key"},

	{"BreakerOpen", "job=dead upstream=up", "nothing listens on the upstream's port"},
	{"Overloaded", "job=narrow limit=in_flight", "ten calls at the same time, and two are allowed"},

	{"BillDoubled", "job=rollout", "a bill is created at both sandboxes, past the gateway"},
	{"OwnerUnclear", "job=rollout", "the old sandbox breaks the probe off"},
	{"VerdictFail", "job=rollout", "the new sandbox shows another amount of a new bill"},
	{"UnknownOutcome", "job=rollout", "the old sandbox breaks a create off, and the outcome is made a day older in the store"},
	{"CallbacksRefused", "job=rollout reason=another_partner", "a callback with the key of another partner"},
	{"CallbacksRefused", "job=rollout reason=lost_address", "the store is declared as restored, and a callback comes to an unknown address"},
	{"CallbacksRefused", "job=rollout reason=type", "a callback that is a text"},
	{"CallbacksDead", "job=rollout upstream=old", "the partner answers 410"},
	{"CallbacksForbidden", "job=rollout upstream=old", "the partner answers 403"},
	{"CallbacksLate", "job=rollout upstream=old", "the partner answers 403, and the callback is made two hours older in the store"},
	{"CallbackMissing", "job=rollout upstream=old", "bills are marked in the store as two reads would mark them"},
	{"StoreDown", "job=rollout", "tables of the store are renamed"},

	{"InstanceDown", "job=dead", "the gateway is killed"},
	{"Down", "job=dead", "the only gateway of its job is killed"},
}

// An alertGateway is a gateway as a process.
type alertGateway struct {
	*process
	t        *testing.T
	partners string // the URL
	admin    string // the address
	file     string // the config
}

const alertToken = "letmein"

// startAlertGateway starts a gateway. If log is not nil, its log goes there.
func startAlertGateway(t *testing.T, log *os.File, config string) *alertGateway {
	t.Helper()
	config = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, token: " + alertToken + "}\nroute: {default: up}\nfailures: {explain: 0s}\n" + config
	if strings.Contains(config, "\nrollout: ") {
		config = strings.Replace(config, "default: up", "default: old", 1)
	}
	g := serve(t, t.TempDir(), log, config)
	return &alertGateway{g.process, t, "http://" + g.partners, g.operator, g.file}
}

// billCall makes a call about a bill in v2, at the gateway or at a sandbox.
func billCall(t *testing.T, url, operation, key, id, callback string) string {
	t.Helper()
	d, err := newDemo(0)
	must(t, err)
	var text strings.Builder
	call := demoCall{&demoBill{ID: id, Price: 20_000}, "bill." + operation, key, callback}
	must(t, template.Must(template.New("").Parse(d.Request)).Execute(&text, call))
	_, answer := httpCall(t, http.MethodPost, url+billPath(operation), text.String())
	return answer
}

// billPath is the path of an operation in v2.
func billPath(operation string) string { return strings.TrimSuffix("/bill/"+operation, "/create") }

func newAlertSandbox(t *testing.T) (service *sandbox.Service, url string) {
	t.Helper()
	service = sandbox.New(sandbox.Options{Partners: []sandbox.Partner{{Key: "k-old"}, {Key: "k-canary"}, {Key: "k-new"}}})
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return service, server.URL
}

// Each alert fires in a real Prometheus when its fault is provoked at a real gateway and sandbox, and not before. The rules are those of
// the program, with for: 0s.
func TestAlertsFireInPrometheus(t *testing.T) {
	t.Parallel()
	proxytest.OnlyLong(t)
	lookPath(t, "prometheus")
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full, on which every write fails")
	}
	file, byName := alertRules(t)
	for _, g := range file.Groups {
		for i := range g.Rules {
			g.Rules[i].For = "0s"
		}
	}
	rules, err := yaml.Dump(file)
	must(t, err)
	calls, dead, narrow, moving := newCallsFaults(t), newDeadFaults(t), newNarrowFaults(t), newRolloutFaults(t)
	gateways := map[string]string{"calls": calls.admin, "dead": dead.admin, "narrow": narrow.admin, "rollout": moving.admin}
	prometheus := startPrometheus(t, string(rules), gateways)

	firing := func() map[string]bool {
		found := map[string]bool{}
		for _, series := range prometheus.query(`ALERTS{alertstate="firing"}`) {
			found[series.Get("metric.alertname").String()+" of "+series.Get("metric.job").String()] = true
		}
		return found
	}
	proxytest.Eventually(t, func() bool {
		scraped := len(prometheus.query("count_over_time(up[1m]) > 2 and up == 1")) == len(gateways) // a counter needs two values
		return scraped && cmp.Equal(firing(), map[string]bool{})
	}, func() string { return fmt.Sprint(firing()) })

	moving.provoke() // the first one, as the verdicts are counted every 15 s
	calls.provoke()
	dead.provoke()
	narrow.provoke()
	awaitFired := func(skip ...string) {
		t.Helper()
		var silent []string
		proxytest.Eventually(t, func() bool {
			silent = nil
			fired := prometheus.query(`last_over_time(ALERTS{alertstate="firing"}[10m])`)
			for _, p := range provocations {
				if !slices.Contains(skip, p.alert) && !slices.ContainsFunc(fired, p.matches) {
					silent = append(silent, p.alert+" {"+p.labels+"}: "+p.how)
				}
			}
			return len(silent) == 0
		}, func() string { return "silent:\n" + strings.Join(silent, "\n") })
	}
	moving.loseAddress()
	awaitFired("StoreDown", "InstanceDown", "Down")
	moving.breakStore()
	dead.kill()
	awaitFired()

	// What an alert says of the store stays true while the store cannot be read.
	proxytest.Eventually(t, func() bool {
		return len(prometheus.query(`sum_over_time((billbridge_store_up{job="rollout"} == bool 0)[10m:1s]) > 20`)) == 1 // its gauges are read every 15 s
	}, func() string { return "the store came back" })
	still := firing()
	for _, alert := range []string{
		"StoreDown", "VerdictFail", "CallbacksDead", "CallbacksLate", "CallbackMissing", "UnknownOutcome",
	} {
		if !still["Billbridge"+alert+" of rollout"] {
			t.Errorf("%s ended although the store cannot be read: %v", alert, still)
		}
	}

	missing := maps.Clone(byName)
	// It needs two PostgreSQL servers: the tests of fail-overs have its metric, and TestAlerts its rule.
	delete(missing, "BillbridgeStoreLostWrites")
	// No gateway here has TLS: TestR43_UpstreamTLS has the metric, and TestAlerts the rule.
	delete(missing, "BillbridgeCertificateEnds")
	// They need days, or a full disk: TestGaugesForSlowAlerts and TestReadyStoreReportedKeepsTheGatewayReady have the metrics, and TestAlerts the rules.
	delete(missing, "BillbridgeBackupOld")
	delete(missing, "BillbridgeStoreDiskFull")
	delete(missing, "BillbridgePanic")        // no fault is known that causes one
	delete(missing, "BillbridgeStoreChanged") // TestRowsOfAnEncryptedStoreCannotBeMadePlain has its count
	table := "alert | severity | provoked\n"
	for _, p := range provocations {
		delete(missing, "Billbridge"+p.alert)
		table += fmt.Sprintf("Billbridge%s | %s | yes: %s\n", p.alert, byName["Billbridge"+p.alert].Labels["severity"], p.how)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s is not provoked", name)
	}
	t.Log("\n" + table)
}

// callsFaults are faults of calls, of connections and of the admin listener.
type callsFaults struct {
	*alertGateway
	service *sandbox.Service
}

func newCallsFaults(t *testing.T) *callsFaults {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	t.Cleanup(func() { _ = full.Close() })
	service, _ := newAlertSandbox(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") != "twice" {
			service.ServeHTTP(w, r)
			return
		}
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = conn.Write([]byte(strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 2)))
			_ = conn.Close()
		}
	}))
	t.Cleanup(server.Close)
	return &callsFaults{startAlertGateway(t, full, "upstreams: {up: {form: v2, url: "+server.URL+"}}\n"+fewOfAnAddress), service}
}

func (f *callsFaults) provoke() {
	f.service.Fault(sandbox.Fault{Operation: "bill.create", Drop: true, Count: 30})
	for i := range 30 {
		billCall(f.t, f.partners, "create", "k-old", fmt.Sprint("LOST", i), "")
	}
	f.service.Fault(sandbox.Fault{Operation: "bill.read", Body: `{"code":"0000","message":"x","data":{"apiKey":"k-old","billId":"A1","apprState":"F","apprNum":{"a":1}}}`})
	const read = `{"apikey":"k-old","member":"demo-member","merchant":"demo-store","bill_id":"A1"}`
	httpCall(f.t, http.MethodPost, f.partners+"/if/bill/read", read)

	f.connect("POST /bill/read HTTP/1.1\r\nHost: a\r\nX-Request-Id: twice\r\nContent-Length: 2\r\n\r\n{}")
	var open []net.Conn
	for range 30 {
		open = append(open, f.connect(""))
	}
	if _, err := open[29].Read(make([]byte, 1)); err == nil { // the gateway closes it
		f.t.Error("connection 30 gets an answer")
	}
	for _, one := range open {
		_ = one.Close()
	}
	// From another address than Prometheus, whose answers would become slow.
	other := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	defer other.CloseIdleConnections()
	for range 8 {
		request, err := http.NewRequest(http.MethodGet, "http://"+f.admin+"/metrics", nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		request.Header.Set("Authorization", "Bearer wrong")
		if answer, err := other.Do(request); err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusUnauthorized {
			f.t.Errorf("a wrong token: %v, %v", answer, err)
		}
	}
	must(f.t, os.WriteFile(f.file, []byte("no_such_key: 1\n"), 0o600))
	reload, err := http.NewRequest(http.MethodPost, "http://"+f.admin+"/-/reload", nil)
	if err != nil {
		f.t.Error(err)
		return
	}
	reload.Header.Set("Authorization", "Bearer "+alertToken)
	if answer, err := http.DefaultClient.Do(reload); err != nil || answer.Body.Close() != nil || answer.StatusCode == http.StatusOK {
		f.t.Errorf("the reload: %v, %v", answer, err)
	}
}

// connect opens a connection of a partner. If it sends something, it waits for the answer and closes the connection.
func (f *callsFaults) connect(text string) net.Conn {
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.partners, "http://"))
	must(f.t, err)
	if text != "" {
		_, err = conn.Write([]byte(text))
		_, read := conn.Read(make([]byte, 1))
		if err = errors.Join(err, read, conn.Close()); err != nil {
			f.t.Error(err)
		}
	}
	return conn
}

// Lines of configs, which other processes read: see [proxytest.Tuned].
var (
	fewOfAnAddress = proxytest.Tuned(func(c *config.Config) { c.Limits.AddressConnections = 20 })
	largeBurst     = proxytest.Tuned(func(c *config.Config) { c.Limits.Partner.Burst = 25 })
	fewAtOnce      = proxytest.Tuned(func(c *config.Config) {
		c.Limits.InFlight, c.Upstreams[0].Wait = 2, 300*time.Millisecond
	})
)

// deadFaults are faults of an upstream that cannot be reached.
type deadFaults struct{ *alertGateway }

func newDeadFaults(t *testing.T) *deadFaults {
	return &deadFaults{startAlertGateway(t, nil, "upstreams: {up: {form: v2, url: \"http://127.0.0.1:1\"}}\nlimits: {partner: {rate: 0.1}}\n"+largeBurst)}
}

func (f *deadFaults) provoke() {
	for range 30 {
		billCall(f.t, f.partners, "read", "k-old", "A1", "")
	}
}

// narrowFaults are faults of limits.
type narrowFaults struct {
	*alertGateway
	service *sandbox.Service
}

func newNarrowFaults(t *testing.T) *narrowFaults {
	service, url := newAlertSandbox(t)
	config := "upstreams: {up: {form: v2, url: " + url + ", connections: 1}}\n" + fewAtOnce
	return &narrowFaults{startAlertGateway(t, nil, config), service}
}

func (f *narrowFaults) provoke() {
	f.service.Fault(sandbox.Fault{Operation: "bill.read", Delay: 2 * time.Second})
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() { billCall(f.t, f.partners, "read", "k-old", "A1", "") })
	}
	calls.Wait()
}
