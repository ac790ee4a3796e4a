package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"
)

// Rollout says how partners move from the old backend to the new one.
type Rollout struct {
	Old   string `yaml:"old" config:"required" such:": the upstream that partners move from"` // the upstream that is the old backend
	New   string `yaml:"new" config:"required" such:": the upstream that partners move to"`   // the upstream that is the new backend
	Bills Bills  `yaml:"bills" config:"restart" words:"separate shared" default:"separate"`   // whether both backends see the same bills
	Copy  bool   `yaml:"copy"`                                                                // with separate bills: the new backend gets a copy of each bill of the old one

	Default string   `yaml:"default" words:"old shadow new drained" default:"old"` // the stage of partners without a stage of their own: old, shadow, canary, new or drained
	Settle  Duration `yaml:"settle" default:"15m"`                                 // the settling period: how long a partner must have called through the gateway before it leaves the old backend
	Split   Split    `yaml:"split" words:"bill merchant" default:"bill"`           // what the percentage of stage canary is of

	Ask Duration `yaml:"ask" default:"3s"` // the timeout of a probe, a read that finds the owner of a bill

	SendWithin Duration `yaml:"send_within" range:",1m" why:": a caller that gave up may create the bill again" default:"3s"` // a write that arrived longer ago is not sent, since its caller may have given up

	Shadow  Shadow  `yaml:"shadow"`
	Verdict Verdict `yaml:"verdict"`

	Keep Duration `yaml:"keep" range:"720h," why:": a paid bill may be cancelled after its last day" default:"17520h"` // how long the owner of a bill stays known after the last day of the bill
}

// Comparable reports whether both backends have the same bills, so that stage shadow can compare their answers.
func (r *Rollout) Comparable() bool { return r.Bills == Shared || r.Copy }

// Bills says whether the backends of a rollout see the same bills.
type Bills string

// Separate backends have their own bills, so each bill has an owner. Shared backends see the same bills.
const (
	Separate Bills = "separate"
	Shared   Bills = "shared"
)

// Split says what the percentage of stage canary is of.
type Split string

// ByBill splits new bills by their id. ByMerchant sends all new bills of a merchant to one backend, for backends that separate
// merchants.
const (
	ByBill     Split = "bill"
	ByMerchant Split = "merchant"
)

// Shadow limits the load of shadow comparisons.
type Shadow struct {
	Rate     Fraction `yaml:"rate" range:"0,1" default:"1"`                                                 // the fraction of reads that are compared
	InFlight int      `yaml:"in_flight" range:"1,10000" default:"32"`                                       // the maximum number of concurrent comparisons; further ones are dropped and counted
	Bytes    Size     `yaml:"bytes" range:"128KiB," why:": one comparison can be as large" default:"16MiB"` // the maximum memory of all of them
	Ignore   []string `yaml:"ignore"`                                                                       // v2 paths of fields that are not compared
}

// Verdict is what a PASS requires.
type Verdict struct {
	Comparisons int      `yaml:"comparisons" range:"1," default:"100"` // the minimum per operation, and of calls at each backend
	Bills       int      `yaml:"bills" range:"1," default:"30"`        // the minimum number of different bills in these
	Paid        int      `yaml:"paid" range:"0," default:"5"`          // the minimum number of different paid bills in these; 0 if the partners' bills are not paid
	Mismatch    Fraction `yaml:"mismatch" range:"0,1" default:"0.03"`  // the upper confidence bound of the mismatch rate; amounts, states and codes may not differ at all
	Unclear     Fraction `yaml:"unclear" range:"0,1" default:"0.05"`   // the maximum fraction of comparisons without a reply
}

// DefaultSendWithin is the value of rollout.send_within for a config without a rollout.
const DefaultSendWithin = 3 * time.Second

// Stages are the stages of a rollout, in their order.
var Stages = []string{"old", "shadow", "canary", "new", "drained"}

func (c *Config) checkRollout() {
	s, r := c.source, c.Rollout
	if r == nil {
		return
	}
	c.checkReference(r.Old, "rollout", "old")
	c.checkReference(r.New, "rollout", "new")
	if r.Old == r.New {
		s.addProblem("must differ from old", "rollout", "new")
	}
	if r.Copy && r.Bills == Shared {
		s.addProblem("is for bills: separate: with bills: shared both backends see the same bills", "rollout", "copy")
	}
	if r.Bills == Separate && !c.Store.URL.IsSet() {
		s.addProblem("the owners of bills must be stored; set store: {url: sqlite:billbridge.db} or {url: postgres://…}, or bills: shared", "rollout")
	}
	if longest := c.Upstreams.LongestCall(); time.Duration(r.Settle) <= longest {
		s.addProblem(fmt.Sprintf("must be longer than the longest wait and timeout of an upstream, %s, but is %s", longest, r.Settle), "rollout", "settle")
	}
	for _, u := range c.Upstreams {
		if (u.Name == r.Old || u.Name == r.New) && r.Shadow.InFlight >= u.Connections {
			s.addProblem(fmt.Sprintf("must be less than %d, the connections of an upstream of the rollout, but is %d: partners' calls need connections too",
				u.Connections, r.Shadow.InFlight), "rollout", "shadow", "in_flight")
			break
		}
	}
	if r.Verdict.Mismatch == 0 {
		s.addProblem("must be greater than 0: no number of comparisons proves that there is no difference", "rollout", "verdict", "mismatch")
	}
	if r.Verdict.Unclear == 0 {
		s.addProblem("must be greater than 0: one missing reply would make every verdict inconclusive", "rollout", "verdict", "unclear")
	}
	if c.Table != nil {
		c.checkRolloutTable()
	}
}

// checkRolloutTable checks that the table has what the rollout needs, and that shadow.ignore names fields of the table.
func (c *Config) checkRolloutTable() {
	s, r := c.source, c.Rollout
	forms := c.Table.Forms()
	var paths []string // of replies to reads
	for _, o := range c.Table.Operations() {
		if o.Effect == translate.Write && o.Path(forms[0]) != "" && o.Path(forms[1]) != "" && !billing.HasPartnerAndBill(o) {
			s.addProblem(fmt.Sprintf("the request of %s needs role: partner and role: bill in each form, by which a rollout finds the backend of a call",
				o.Name), "rollout")
		}
		if o.Effect == translate.Read {
			paths = append(paths, o.ReplyPaths()...)
		}
	}
	for i, ignored := range r.Shadow.Ignore {
		matches := func(path string) bool {
			return ignored != "" && (path == ignored || strings.HasPrefix(path, ignored+"."))
		}
		if !slices.ContainsFunc(paths, matches) {
			s.addProblem(fmt.Sprintf("no reply of a read has this field; write its path in %s%s", forms[0], translate.DidYouMean(ignored, paths)),
				"rollout", "shadow", fmt.Sprintf("ignore[%d]", i))
		}
	}
}
