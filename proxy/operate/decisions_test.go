package operate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// What an operator sees and decides, and what waves do, as the files of testdata/decisions have it. Besides calls of
// the operator there are "config", which begins anew with more in the section rollout and, after a |, with more
// sections, and "without-store"; "seen k 1h", "owns k legacy 1 2 3" and "creates k", with where the create went,
// why, and which backends were asked before; "created k old 3", "ends k OPERATION BACKEND N END", "compares k N
// CLASS DIFFERENCES" and "counts", whose words are those of counted; "later 1h" and "later +1h", "flush", "log",
// "text", which is a report, and "other", a call to another replica, which has not read the changes.
//
// "wave MORE | k l" starts the wave autumn of partners, whose steps "after 1m" makes; "stages k l" shows where they
// are, "fails k" gives a partner a FAIL, "breaker fresh" opens a breaker, and there is "fail-over". "breaks k" makes
// counts of k unreadable, with a second word marked ones; "down" ends the store, and "record ACTION k" writes into
// the audit log. <k> is the ID of partner k, <k:12> its first digits.
func TestOperatorDecisions(t *testing.T) {
	t.Parallel()
	for name, engines := range map[string][]string{"decisions": {"memory"}, "waves": {"memory", "postgres"}} {
		proxytest.Transcript(t, "testdata/decisions/"+name+".txt", *update, engines, func(t *testing.T, engine string) func(string) []string {
			url := map[string]func(testing.TB) string{"memory": func(testing.TB) string { return "memory:" }, "postgres": proxytest.Postgres}[engine]
			return decisions(t, url)
		})
	}
}

// decisions makes the calls of one test of TestOperatorDecisions.
func decisions(t *testing.T, url func(testing.TB) string) func(line string) []string {
	ctx := t.Context()
	begin := func(more string) *testWave {
		d := newTestOperator(t, proxytest.Open(t, url(t)), more)
		d.Version = "billbridge 1.2.3"
		return &testWave{testOperator: d}
	}
	d := begin(separate)
	other, logged := newTestOperator(t, d.store, separate), 0
	return func(line string) []string {
		command, rest, _ := strings.Cut(line, " ")
		words := append(strings.SplitN(rest, " ", 5), "", "", "", "", "")
		n, _ := strconv.Atoi(words[1])
		switch command {
		case "config":
			more, sections, _ := strings.Cut(rest, " | ")
			d = begin(strings.Replace(separate, "new: fresh", "new: fresh, "+more, 1) + filled(sections) + "\n")
		case "without-store":
			d.testOperator = newTestOperator(t, nil, "rollout: {old: legacy, new: fresh, bills: shared, default: shadow}\n")
		case "later":
			from, more := int64(0), rest
			if plus, is := strings.CutPrefix(rest, "+"); is {
				from, more = d.later.Load(), plus
			}
			d.later.Store(from + int64(span(t, more)))
			other.later.Store(d.later.Load())
		case "wave":
			more, keys, _ := strings.Cut(rest, "|")
			startWave(d, strings.TrimSpace(more), strings.Fields(keys)...)
		case "after":
			d.after(span(t, rest))
		case "stages":
			var all []string
			for key := range strings.FieldsSeq(rest) {
				all = append(all, answers[operate.Status](d.testOperator, "GET", "/rollout?partner="+hash(key)).Partners[0].String())
			}
			return []string{strings.Join(all, ", ")}
		case "fails":
			d.fails(rest)
		case "breaker":
			d.open = rest
		case "fail-over":
			must(t, d.store.Change(ctx, store.Change{Action: store.Restored, By: store.ByFailOver, At: d.Now()}))
		case "breaks":
			d.breaks(words[0], words[1] != "")
		case "record":
			must(t, d.Record(store.Change{
				Action: store.Action(words[0]), By: "ben", Partner: partner.Of(words[1]), Subject: "B1",
			}))
		case "down":
			must(t, d.store.Close())
		case "flush":
			must(t, d.Router.Counts().Flush(ctx))
		case "created":
			n, _ = strconv.Atoi(words[2])
			d.created(words[0], backends[words[1]], n)
		case "seen":
			d.seen(words[0], span(t, words[1]))
		case "owns":
			var of [3]int
			works(t)(fmt.Sscan(rest, &words[0], &words[1], &of[0], &of[1], &of[2]))
			d.owns(words[0], words[1], of[0], of[1], of[2])
		case "creates":
			route, asked := d.creates(rest)
			return []string{fmt.Sprintf("%s, reason %q, asked %q", route.Upstream, route.Reason, asked)}
		case "counts":
			for word := range strings.FieldsSeq(rest) {
				d.counted(word)
			}
		case "proves":
			d.proves(rest)
		case "ends":
			var end evidence.End
			must(t, json.Unmarshal([]byte(words[4]), &end))
			works(t)(fmt.Sscan(words[3], &n))
			d.ends(words[0], words[1], backends[words[2]], n, end)
		case "compares":
			var differences []evidence.Difference
			must(t, json.Unmarshal([]byte("["+words[3]+"]"), &differences))
			d.compares(words[0], n, evidence.Class(words[2]), differences...)
		case "log":
			var all []string
			for _, line := range strings.Split(d.logs.String(), "\n")[logged:] {
				if _, message, is := strings.Cut(line, `"level":`); is {
					all, logged = append(all, shown(message)...), logged+1
				}
			}
			return all
		case "text":
			var text bytes.Buffer
			must(t, answers[operate.Report](d.testOperator, "GET", "/rollout/report"+rest).Write(&text, "text"))
			return shown(text.String())
		case "other":
			method, target, _ := strings.Cut(rest, " ")
			w := other.ask(method, target)
			return shown(fmt.Sprint(w.Code, " ", w.Body))
		default:
			w := d.ask(command, rest)
			return shown(fmt.Sprint(w.Code, " ", w.Body))
		}
		return nil
	}
}

var backends = map[string]evidence.Backend{"old": evidence.Old, "new": evidence.New}

// noise is the version of the table.
var noise = regexp.MustCompile(`[0-9a-f]{12}(, counted since|","since":)`)

// span reads a duration, which may be a number of days.
func span(t *testing.T, text string) time.Duration {
	t.Helper()
	if days, of := strings.CutSuffix(text, "d"); of {
		n, err := strconv.Atoi(days)
		must(t, err)
		return time.Duration(n) * 24 * time.Hour
	}
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

// shown are the lines of a text, with the names of partners for their hashes.
func shown(text string) []string {
	for _, key := range []string{"k", "l", "m", "n", "one", "other", "young", "unseen", "owner", "staged", "nobody", "late", "none", "own", "else", "elsewhere", "f0", "f1"} {
		text = strings.NewReplacer(hash(key), "<"+key+">", hash(key)[:12], "<"+key+":12>").Replace(text)
	}
	return strings.Split(strings.TrimSuffix(noise.ReplaceAllString(text, "$1"), "\n"), "\n")
}
