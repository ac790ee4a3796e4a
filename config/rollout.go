package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/translate"
	"billbridge/translate/billing"

	"go.yaml.in/yaml/v4"
)

// Rollout says how partners move from the old backend to the new one.
type Rollout struct {
	Old   string `yaml:"old" config:"required"` // the upstream that is the old backend
	New   string `yaml:"new" config:"required"` // the upstream that is the new backend
	Bills Bills  `yaml:"bills"`                 // whether both backends see the same bills
	Copy  bool   `yaml:"copy"`                  // with separate bills: the new backend gets a copy of each bill of the old one

	Default string   `yaml:"default"` // the stage of partners without a stage of their own: old, shadow, canary, new or drained
	Settle  Duration `yaml:"settle"`  // the settling period: how long a partner must have called through the gateway before it leaves the old backend
	Split   Split    `yaml:"split"`   // what the percentage of stage canary is of

	Ask Duration `yaml:"ask"` // the timeout of a probe, a read that finds the owner of a bill

	SendWithin Duration `yaml:"send_within"` // a write that arrived longer ago is not sent, since its caller may have given up

	Shadow  Shadow  `yaml:"shadow"`
	Verdict Verdict `yaml:"verdict"`

	Keep Duration `yaml:"keep"` // how long the owner of a bill stays known after the last day of the bill
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

func (Bills) words() []string { return texts(Separate, Shared) }

// UnmarshalYAML reads separate or shared.
func (b *Bills) UnmarshalYAML(n *yaml.Node) error { return loadWord(n, b) }

// Split says what the percentage of stage canary is of.
type Split string

// ByBill splits new bills by their id. ByMerchant sends all new bills of a merchant to one backend, for backends that separate
// merchants.
const (
	ByBill     Split = "bill"
	ByMerchant Split = "merchant"
)

func (Split) words() []string { return texts(ByBill, ByMerchant) }

// UnmarshalYAML reads bill or merchant.
func (s *Split) UnmarshalYAML(n *yaml.Node) error { return loadWord(n, s) }

// Shadow limits the load of shadow comparisons.
type Shadow struct {
	Rate     Fraction `yaml:"rate"`                      // the fraction of reads that are compared
	InFlight int      `yaml:"in_flight" range:"1,10000"` // the maximum number of concurrent comparisons; further ones are dropped and counted
	Bytes    Size     `yaml:"bytes"`                     // the maximum memory of all of them
	Ignore   []string `yaml:"ignore"`                    // v2 paths of fields that are not compared
}

// Verdict is what a PASS requires.
type Verdict struct {
	Comparisons int      `yaml:"comparisons" range:"1,"` // the minimum per operation, and of calls at each backend
	Bills       int      `yaml:"bills" range:"1,"`       // the minimum number of different bills in these
	Paid        int      `yaml:"paid" range:"0,"`        // the minimum number of different paid bills in these; 0 if the partners' bills are not paid
	Mismatch    Fraction `yaml:"mismatch"`               // the upper confidence bound of the mismatch rate; amounts, states and codes may not differ at all
	Unclear     Fraction `yaml:"unclear"`                // the maximum fraction of comparisons without a reply
}

// DefaultSendWithin is the value of rollout.send_within for a config without a rollout.
const DefaultSendWithin = 3 * time.Second

// UnmarshalYAML reads the section. Missing keys keep their defaults.
func (r *Rollout) UnmarshalYAML(n *yaml.Node) error {
	type plain Rollout // without this method
	filled := plain{
		Bills: Separate, Default: "old", Settle: Duration(15 * time.Minute), Split: ByBill, Ask: Duration(3 * time.Second),
		SendWithin: Duration(DefaultSendWithin),
		Shadow:     Shadow{Rate: 1, InFlight: 32, Bytes: 16 << 20},
		Verdict:    Verdict{Comparisons: 100, Bills: 30, Paid: 5, Mismatch: 0.03, Unclear: 0.05},
		Keep:       Duration(2 * 365 * 24 * time.Hour),
	}
	if err := n.Load(&filled, yaml.WithKnownFields()); err != nil {
		return err
	}
	*r = Rollout(filled)
	return nil
}

// Stages are the stages of a rollout, in their order.
var Stages = []string{"old", "shadow", "canary", "new", "drained"}

func (c *Config) checkRollout() {
	s, r := c.source, c.Rollout
	if r == nil {
		return
	}
	c.checkBackends(r)
	switch {
	case !slices.Contains(Stages, r.Default):
		s.addProblem(fmt.Sprintf("must be one of %v, but is %q", Stages, r.Default), "rollout", "default")
	case r.Default == "canary":
		s.addProblem("canary needs a percentage; set it with billbridge rollout set --default", "rollout", "default")
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
	if time.Duration(r.SendWithin) > time.Minute {
		s.addProblem(fmt.Sprintf("must be at most 1m, but is %s: a caller that gave up may create the bill again", r.SendWithin), "rollout", "send_within")
	}
	if time.Duration(r.Keep) < 30*24*time.Hour {
		s.addProblem(fmt.Sprintf("must be at least 720h, but is %s: a paid bill may be cancelled after its last day", r.Keep), "rollout", "keep")
	}
	c.checkShadow(r)
	c.checkVerdict(r)
	if c.Table != nil {
		c.checkRolloutTable()
	}
}

func (c *Config) checkBackends(r *Rollout) {
	s := c.source
	for _, backend := range []struct{ key, name, direction string }{{"old", r.Old, "from"}, {"new", r.New, "to"}} {
		if backend.name == "" {
			s.addProblem("is missing: the upstream that partners move "+backend.direction, "rollout", backend.key)
		} else if c.Upstreams.Find(backend.name) == nil {
			s.addProblem(c.Upstreams.unknown(backend.name), "rollout", backend.key)
		}
	}
	if r.Old != "" && r.Old == r.New {
		s.addProblem(fmt.Sprintf("must differ from old, but both are %q", r.New), "rollout", "new")
	}
}

func (c *Config) checkShadow(r *Rollout) {
	s := c.source
	if r.Shadow.Bytes < 128<<10 {
		s.addProblem(fmt.Sprintf("must be at least 128KiB, the largest size of one comparison, but is %s", r.Shadow.Bytes), "rollout", "shadow", "bytes")
	}
	for _, name := range []string{r.Old, r.New} {
		if u := c.Upstreams.Find(name); u != nil && r.Shadow.InFlight >= u.Connections {
			s.addProblem(fmt.Sprintf("must be less than %d, the connections of upstream %q, but is %d: partners' calls need connections too", u.Connections, name, r.Shadow.InFlight), "rollout", "shadow", "in_flight")
			break
		}
	}
}

func (c *Config) checkVerdict(r *Rollout) {
	s := c.source
	for _, limit := range []struct {
		key, reason string
		value       Fraction
	}{
		{"mismatch", "no number of comparisons proves that there is no difference", r.Verdict.Mismatch},
		{"unclear", "one missing reply would make every verdict inconclusive", r.Verdict.Unclear},
	} {
		if limit.value == 0 {
			s.addProblem("must be greater than 0: "+limit.reason, "rollout", "verdict", limit.key)
		}
	}
}

// checkRolloutTable checks that the table has what the rollout needs, and that shadow.ignore names fields of the table.
func (c *Config) checkRolloutTable() {
	s, r := c.source, c.Rollout
	forms := c.Table.Forms()
	var paths []string // of replies to reads
	for _, o := range c.Table.Operations() {
		if o.Effect == translate.Write && o.Path(forms[0]) != "" && o.Path(forms[1]) != "" && !billing.HasPartnerAndBill(o) {
			s.addProblem(fmt.Sprintf("the request of %s needs role: partner and role: bill in each form, by which a rollout finds the backend of a call", o.Name), "rollout")
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
			s.addProblem(fmt.Sprintf("no reply of a read has the field %q; write its path in %s%s", ignored, forms[0], translate.DidYouMean(ignored, paths)), "rollout", "shadow", "ignore", strconv.Itoa(i))
		}
	}
}
