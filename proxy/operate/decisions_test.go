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

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/evidence"
)

// What an operator sees and decides, as testdata/decisions.txt has it. Besides calls of the operator there are "config", which begins anew with
// more in the section rollout and, after a |, with more sections, and "without-store"; "seen k 1h", "owns k legacy 1 2 3" and "creates k", with
// where the create went, why, and which backends were asked before; "ends k OPERATION BACKEND N END", "compares k N CLASS DIFFERENCES" and
// "counts", whose words are those of counted; "later 1h", "log", "text", which is a report, and "other", a call to another replica, which has not
// read the changes. <k> is the ID of partner k, <k:12> its first digits.
func TestOperatorDecisions(t *testing.T) {
	t.Parallel()
	proxytest.Transcript(t, "testdata/decisions.txt", *update, []string{"memory"}, func(t *testing.T, _ string) func(string) []string {
		d := operatorInMemory(t, separate)
		other, logged := newTestOperator(t, d.store, separate), 0
		return func(line string) []string {
			command, rest, _ := strings.Cut(line, " ")
			words := append(strings.SplitN(rest, " ", 5), "", "", "", "", "")
			n, _ := strconv.Atoi(words[1])
			switch command {
			case "config":
				more, sections, _ := strings.Cut(rest, " | ")
				d = operatorInMemory(t, strings.Replace(separate, "new: fresh", "new: fresh, "+more, 1)+filled(sections)+"\n")
			case "without-store":
				d = newTestOperator(t, nil, "rollout: {old: legacy, new: fresh, bills: shared, default: shadow}\n")
			case "later":
				d.later.Store(int64(span(t, rest)))
				other.later.Store(int64(span(t, rest)))
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
				d.ends(words[0], words[1], map[string]evidence.Backend{"old": evidence.Old, "new": evidence.New}[words[2]], n, end)
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
				must(t, answers[operate.Report](d, "GET", "/rollout/report"+rest).Write(&text, "text"))
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
	})
}

var tableVersion = regexp.MustCompile("Table [0-9a-f]{12},")

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
	for _, key := range []string{"k", "one", "other", "young", "unseen", "owner", "staged", "nobody", "late", "none", "own", "else"} {
		text = strings.NewReplacer(hash(key), "<"+key+">", hash(key)[:12], "<"+key+":12>").Replace(text)
	}
	return strings.Split(strings.TrimSuffix(tableVersion.ReplaceAllString(text, "Table <version>,"), "\n"), "\n")
}
