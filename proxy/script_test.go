package proxy_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/sandbox"
)

// A player makes the steps of a script.
type player interface {
	testing() testing.TB
	step(verb, rest string, says []string) bool // false if it does not know the verb
}

func (c *caller) testing() testing.TB { return c.t }

// play makes the steps of a script, one a line: a verb with what belongs to it, and behind | what the answer must say, as in
// checkText. Pairs of words are replaced. The first step that fails ends the test. A line that begins with # is a comment.
func play(p player, script string, pairs ...string) {
	t := p.testing()
	t.Helper()
	words := strings.NewReplacer(append(pairs, "{forced}", forced, "{bill}", theBill, "{partner}", string(partner.Of(demoKey)),
		"{short}", partner.Of(demoKey).Short())...)
	for _, row := range rows(script) {
		if row[0] == "" || row[0][0] == '#' {
			continue
		}
		says := row[1:]
		for i := range says {
			says[i] = words.Replace(says[i])
		}
		verb, rest, _ := strings.Cut(words.Replace(row[0]), " ")
		if known := p.step(verb, rest, says); !known || t.Failed() {
			t.Fatalf("the step %q; its verb is known: %t", row, known)
		}
	}
}

var wantAnswers = map[string]wantAnswer{
	"success": success, "idInUse": idInUse, "noSuchBill": noSuchBill, "invalid": invalid, "refused": refused, "unknown": unknown,
}

// step knows the steps
//
//	success v2,legacy create,read billId=B1,B2 phone=
//	409:VALIDATION_001 v2 destroy
//	post 200 /read/mapping {"apiKey":"k"}
//
// Calls begin with the answer that they must have.
func (c *caller) step(verb, rest string, says []string) bool {
	c.t.Helper()
	words, want := strings.SplitN(rest, " ", 3), wantOf(verb)
	switch {
	case verb == "post":
		status, err := strconv.Atoi(words[0])
		must(c.t, err)
		c.post(words[1], words[2]).is(c.t, status, says...)
		return true
	case want.status == 0:
		return false
	}
	for form := range strings.SplitSeq(words[0], ",") {
		for op := range strings.SplitSeq(words[1], ",") {
			q, bills := newCall(form, op), demoBill
			for pair := range strings.FieldsSeq(strings.Join(words[2:], "")) {
				field, value, _ := strings.Cut(pair, "=")
				if q = q.with(field, value); field == "billId" {
					bills = value
				}
			}
			for bill := range strings.SplitSeq(bills, ",") {
				c.expect(q.with("billId", bill), want, says...)
			}
		}
	}
	return true
}

// step knows these steps too:
//
//	200 GET /rollout | "begun":
//	reload 400 old => new | a part of the config that replaces another one
//	log "level":"WARN" | waits for such a line
//	logs "msg":"panic" | what the whole log has
//	metric billbridge_rollout_begun 0
func (p *process) step(verb, rest string, says []string) bool {
	p.t.Helper()
	if status, err := strconv.Atoi(verb); err == nil {
		p.ask(status, rest, says...)
		return true
	}
	switch verb {
	case "reload":
		status, change, _ := strings.Cut(rest, " ")
		code, err := strconv.Atoi(status)
		must(p.t, err)
		p.reload(code, p.changed(change), says...)
	case "log":
		p.waitForLog(append(says, rest)...)
	case "logs":
		checkText(p.t, p.logs.String(), append(says, rest)...)
	case "metric":
		p.checkMetric(rest)
	default:
		return p.caller.step(verb, rest, says)
	}
	return true
}

// changed is the config with a change such as "old => new".
func (p *process) changed(change string) string {
	p.t.Helper()
	before, after, _ := strings.Cut(change, " => ")
	checkText(p.t, *p.text.Load(), before)
	return strings.Replace(*p.text.Load(), before, after, 1)
}

// step knows these steps too, with the backends old and new, and the demo bill if no other is named:
//
//	restart old => new | with a change of the config
//	calls 1 0          | so many calls have reached the backends
//	bills 0 1          | so many bills they have
//	listed 1 open=true | so many bills are listed
//	open B1 B2         | these may be open at the old backend
//	has old W B1       | has a bill that was not created through the gateway
//	pay old B1 B2
//	fault old {"drop":true}
//	logged upstream=old | the next line of the access log; none if there is nothing behind =
//	sql DELETE FROM billbridge_bills
//	older 2m
func (m *rolloutGateway) step(verb, rest string, says []string) bool {
	m.t.Helper()
	words := strings.Fields(rest)
	var n [2]int
	_, _ = fmt.Sscan(rest, &n[0], &n[1])
	switch verb {
	case "restart":
		m.restart(m.changed(rest))
	case "calls":
		m.checkCalls(n[0], n[1])
	case "bills":
		m.checkBills(n[0], n[1])
	case "listed":
		query := strings.Join(words[1:], "")
		m.checkListed(query, n[0])
		checkText(m.t, m.admin("GET", "/rollout/bills?"+query).body, says...)
	case "open":
		m.checkOpen(words...)
	case "has":
		prepareBill(m.t, m.service(words[0]), words[1], append(words, demoBill)[2])
	case "pay":
		for _, bill := range append(words[1:], demoBill)[:max(1, len(words)-1)] {
			must(m.t, m.service(words[0]).Pay(demoKey, bill))
		}
	case "fault":
		addFault(m.t, m.service(words[0]), strings.TrimPrefix(rest, words[0]+" "))
	case "logged":
		line := m.nextRequestLog()
		for _, pair := range append(says, rest) {
			key, want, _ := strings.Cut(pair, "=")
			got, _ := line[key].(string)
			equal(m.t, got, want, key, line)
		}
	case "sql":
		m.exec(rest)
	case "older":
		by, err := time.ParseDuration(rest)
		must(m.t, err)
		m.older(by)
	default:
		return m.process.step(verb, rest, says)
	}
	return true
}

func (m *rolloutGateway) service(backend string) *sandbox.Service {
	return map[string]*sandbox.Service{"old": m.old, "new": m.fresh}[backend]
}

// addFault adds a fault to a sandbox: JSON, or delay and a time. "" is none.
func addFault(t testing.TB, s *sandbox.Service, text string) {
	t.Helper()
	var f sandbox.Fault
	var err error
	switch delay, late := strings.CutPrefix(text, "delay "); {
	case text == "":
		return
	case late:
		f.Delay, err = time.ParseDuration(delay)
	default:
		err = json.Unmarshal([]byte(text), &f)
	}
	must(t, err)
	s.Fault(f)
}

// verdicts are those of the report.
func (p *process) verdicts() []evidence.Verdict {
	p.t.Helper()
	return p.report(func(operate.Report) bool { return true }).Verdicts
}

// verdict returns the verdict on an operation by one kind of evidence as soon as far accepts it. Its parts are not nil.
func (p *process) verdict(operation string, by evidence.Evidence, far func(evidence.Verdict) bool) (v evidence.Verdict) {
	p.t.Helper()
	p.report(func(r operate.Report) bool {
		v = verdictOn(r, operation, by)
		return far(v)
	})
	return v
}

// compared accepts a verdict with so many comparisons.
func compared(n int) func(evidence.Verdict) bool {
	return func(v evidence.Verdict) bool { return v.Number == n }
}

// wrongAmount is an overlay with a mistake in the table.
const wrongAmount = "operations: {bill.read: {reply: {apprNum: null, apprPrice: appr_num}}}"

// step knows these steps too:
//
//	metric billbridge_store_up 1 | further ones
//	logged "id":"1" | what the next line of the log has
func (b *gateway) step(verb, rest string, says []string) bool {
	b.t.Helper()
	switch verb {
	case "metric":
		b.checkMetrics(append(says, rest)...)
	case "logged":
		checkText(b.t, b.logs.Next(b.t), append(says, rest)...)
	default:
		return b.caller.step(verb, rest, says)
	}
	return true
}

// step knows these steps too:
//
//	has F B1 | the sandbox has the bill in this state
//	fault {"drop":true}
//	calls 1
func (b *bridge) step(verb, rest string, says []string) bool {
	b.t.Helper()
	switch words := strings.Fields(rest); verb {
	case "has":
		prepareBill(b.t, b.service, words[0], append(words, demoBill)[1])
	case "fault":
		addFault(b.t, b.service, rest)
	case "calls":
		equal(b.t, strconv.Itoa(b.back.count()), rest)
	default:
		return b.gateway.step(verb, rest, says)
	}
	return true
}

// wantOf is the answer of a name such as refused, or with a status and a code such as 409:VALIDATION_001.
func wantOf(name string) wantAnswer {
	if status, code, found := strings.Cut(name, ":"); found {
		n, _ := strconv.Atoi(status)
		return wantAnswer{n, code}
	}
	return wantAnswers[name]
}
