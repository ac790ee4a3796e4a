package operate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A Report is what an operator reads before a partner gets a later stage.
type Report struct {
	Table      string             `json:"table"` // the version of the table in the comparisons
	Since      time.Time          `json:"since"` // when counting started
	Until      time.Time          `json:"until"`
	Limits     evidence.Limits    `json:"limits"`
	Ignored    []string           `json:"ignored,omitempty"` // fields that may differ, by the config
	Assumption string             `json:"assumption"`
	Partners   []PartnerStatus    `json:"partners"`
	Uncounted  string             `json:"uncounted,omitempty"` // why the numbers of bills are missing
	Verdicts   []evidence.Verdict `json:"verdicts"`            // each partner by its short hash
	Lost       int                `json:"lost"`                // comparisons that were not counted, over the limit of counts
}

// notCounted is the note on the numbers of bills.
const notCounted = "Bills that were created before the gateway was in use, or not through it, are not counted. " +
	"A bill past its last day may still be cancelled."

// examples is the note on the values of fields that differ.
const examples = "Each line has the first example of its field. Amounts, states, codes and dates are shown unchanged, for fields that the table declares as such. " +
	"In all other fields digits are shown as 9 and letters as a; keys are not shown. For a bill of canary, old is the value in its create."

// newReport makes the report of what was counted until a time.
func newReport(s evidence.Snapshot, limits evidence.Limits, until time.Time, partners []PartnerStatus) Report {
	r := Report{
		Table: s.Table, Since: s.Since, Until: until.UTC().Truncate(time.Second), Limits: limits,
		Assumption: evidence.Assumption, Partners: partners, Verdicts: Verdicts(s, limits), Lost: s.Lost,
	}
	for i := range r.Verdicts {
		r.Verdicts[i].Partner = partner.ID(r.Verdicts[i].Partner.Short())
	}
	if r.Partners == nil {
		r.Partners = []PartnerStatus{} // a list in JSON, also when it is empty
	}
	return r
}

// Report returns what was compared and counted, of one partner or of all.
func (o *Operator) Report(ctx context.Context, p PartnerRef) (answer Report, err error) {
	only, err := p.one(ctx, o)
	if err != nil {
		return answer, err
	}
	decided, err := o.decided(ctx)
	if err != nil {
		return answer, err
	}
	partners, uncounted, err := o.partnerStatuses(ctx, decided, only, store.AllPartners)
	if err != nil {
		return answer, err
	}
	counted, err := o.Rollout.Counts().Of(ctx, only)
	if err != nil {
		return answer, err
	}
	answer = newReport(counted, o.Rollout.Counts().Limits(), o.Now(), partners)
	for i := range answer.Verdicts {
		answer.Verdicts[i].Name = o.name(answer.Verdicts[i].Partner)
	}
	answer.Uncounted, answer.Ignored = inEnglish(uncounted), o.Rollout.Settings().Config.Shadow.Ignore
	return answer, nil
}

// A section is one table of a report.
type section struct {
	title   string
	columns []string
	rows    [][]string
	note    string // below the table
}

// head are the lines above the sections.
func (r Report) head() []string {
	lines := []string{
		"Table " + r.Table + ", from " + r.Since.UTC().Format(time.RFC3339) + " to " + r.Until.UTC().Format(time.RFC3339) + ".",
		fmt.Sprintf("PASS of comparisons needs %d comparisons of %d distinct bills, %d of them paid where an answer has the state, no difference in money, state, code, bill or another exact field, other differences in at most %s of them, and at most %s without an answer. "+
			"PASS of calls needs %d calls at each backend, no code significantly more often at the new one, and no call that the form of the new one cannot carry.",
			r.Limits.Comparisons, r.Limits.Bills, r.Limits.Paid, evidence.Percent(r.Limits.Mismatch), evidence.Percent(r.Limits.Unclear), r.Limits.Comparisons),
	}
	if len(r.Ignored) > 0 {
		lines = append(lines, "Not compared, by rollout.shadow.ignore: "+strings.Join(r.Ignored, ", ")+".")
	}
	if r.Uncounted != "" {
		lines = append(lines, "Bills are not counted: "+r.Uncounted+".")
	}
	if r.Lost > 0 {
		lines = append(lines, fmt.Sprintf("%d comparisons were not counted: the limit of counts was reached.", r.Lost))
	}
	return lines
}

// sections are those that have something to show.
func (r Report) sections() []section {
	all := slices.Concat([]section{r.partners()}, r.comparisons(), r.calls())
	return slices.DeleteFunc(all, func(s section) bool { return len(s.rows) == 0 })
}

// partners is the section with the stage and the bills of each partner.
func (r Report) partners() section {
	all := section{title: "Partners", note: notCounted, columns: []string{"partner", "stage", "seen since", "bills that may be open, by owner"}}
	for _, p := range r.Partners {
		stage, seen := p.String(), "-"
		if p.Default {
			stage += ", the default"
		}
		if p.Seen != nil {
			seen = p.Seen.UTC().Format(time.RFC3339)
		}
		var held []string
		for _, h := range p.Bills {
			held = append(held, fmt.Sprintf("%s %d", h.Upstream, h.Open()))
		}
		if len(held) == 0 {
			held = []string{"-"}
		}
		all.rows = append(all.rows, []string{Label(p.Partner, p.Name), stage, seen, strings.Join(held, ", ")})
	}
	return all
}

// comparisons are the verdicts of comparisons, and the fields in which answers differ.
func (r Report) comparisons() []section {
	compared := section{title: "Comparisons", note: r.Assumption, columns: []string{
		"partner", "operation", "evidence", "verdict", "compared", "bills", "differ", "bound", "not there", "moved", "unclear", "refused", "why",
	}}
	fields := section{title: "Fields that differ", note: examples, columns: []string{
		"partner", "operation", "field", "kind", "count", "old", "new", "bill", "request", "at",
	}}
	for _, v := range r.Verdicts {
		c := v.Compared
		if c == nil {
			continue
		}
		compared.rows = append(compared.rows, []string{
			Label(v.Partner.Short(), v.Name), v.Operation, string(v.Evidence), string(v.Ruling), strconv.Itoa(c.Number), strconv.Itoa(c.Bills), strconv.Itoa(c.Differed),
			evidence.Percent(c.Bound), strconv.Itoa(c.NotThere), strconv.Itoa(c.Moved), strconv.Itoa(c.Unclear), strconv.Itoa(c.Refused), v.Reason,
		})
		for _, f := range c.Fields {
			fields.rows = append(fields.rows, []string{Label(v.Partner.Short(), v.Name), v.Operation, f.Path, string(f.Kind), strconv.Itoa(f.Count), f.Old, f.New, f.Bill, f.Request, f.At.UTC().Format(time.RFC3339)})
		}
	}
	return []section{compared, fields}
}

// calls are the verdicts of calls, and their evidence.
func (r Report) calls() []section {
	calls := section{title: "Calls at both backends", columns: []string{"partner", "operation", "verdict", "old", "new", "why"}}
	codes := section{title: "Codes", columns: []string{"partner", "operation", "code", "old", "new"}}
	unsupported := section{title: "Calls that the new backend's form cannot carry", columns: []string{"partner", "operation", "why", "count", "last"}}
	mismatched := section{title: "Replies with another type than documented", columns: []string{"partner", "operation", "field", "old", "new"}}
	for _, v := range r.Verdicts {
		s := v.CallStats
		if s == nil {
			continue
		}
		calls.rows = append(calls.rows, []string{Label(v.Partner.Short(), v.Name), v.Operation, string(v.Ruling), strconv.Itoa(s.Calls[evidence.Old]), strconv.Itoa(s.Calls[evidence.New]), v.Reason})
		rates := func(of evidence.Frequency) []string {
			row := []string{Label(v.Partner.Short(), v.Name), v.Operation, of.Of}
			for backend, times := range of.Times {
				row = append(row, fmt.Sprintf("%d (%s)", times, rate(times, s.Calls[backend])))
			}
			return row
		}
		for _, code := range s.Codes {
			codes.rows = append(codes.rows, rates(code))
		}
		for _, field := range s.Mismatched {
			mismatched.rows = append(mismatched.rows, rates(field))
		}
		for _, lack := range s.Unsupported {
			unsupported.rows = append(unsupported.rows, []string{Label(v.Partner.Short(), v.Name), v.Operation, lack.Why, strconv.Itoa(lack.Count), lack.Last.UTC().Format(time.RFC3339)})
		}
	}
	return []section{calls, codes, unsupported, mismatched}
}

// rate is a percentage for people.
func rate(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}
