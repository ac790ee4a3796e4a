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

// Rollout says how partners move from one upstream to the other.
type Rollout struct {
	Old   string `yaml:"old"`   // the upstream that they come from
	New   string `yaml:"new"`   // the one that they go to
	Bills Bills  `yaml:"bills"` // whether both see the same bills

	Default string   `yaml:"default"` // the stage of partners of whom nothing else was said: old, shadow, canary, new or drained
	Settle  Duration `yaml:"settle"`  // for so long a partner must have been seen before it leaves the old backend
	Split   Split    `yaml:"split"`   // what canary takes a percentage of
	Salt    string   `yaml:"salt"`    // of the hash that canary splits by; another one draws other bills or merchants

	Ask Duration `yaml:"ask"` // of a probe: a read that finds the owner of a bill

	SendWithin Duration `yaml:"send_within"` // a write that arrived longer ago is not sent any more: its caller may have given up

	Shadow  Comparing `yaml:"shadow"`
	Verdict Verdict   `yaml:"verdict"`

	Keep Duration `yaml:"keep"` // the owner of a bill stays known for so long after the bill is over
}

// Bills says what the two upstreams of a rollout see.
type Bills string

// Separate upstreams have their own bills each, so that each bill has an owner; Shared ones see the same.
const (
	Separate Bills = "separate"
	Shared   Bills = "shared"
)

// UnmarshalYAML reads one of the two words.
func (b *Bills) UnmarshalYAML(n *yaml.Node) error {
	switch v := Bills(n.Value); v {
	case Separate, Shared:
		*b = v
		return nil
	}
	return fmt.Errorf("must be separate or shared, but is %q", n.Value)
}

// Split says what canary takes a percentage of.
type Split string

// By bill, each new bill is drawn by its id. By merchant, all new bills of a merchant go to one upstream, for backends that
// keep merchants apart.
const (
	ByBill     Split = "bill"
	ByMerchant Split = "merchant"
)

// UnmarshalYAML reads one of the two words.
func (s *Split) UnmarshalYAML(n *yaml.Node) error {
	switch v := Split(n.Value); v {
	case ByBill, ByMerchant:
		*s = v
		return nil
	}
	return fmt.Errorf("must be bill or merchant, but is %q", n.Value)
}

// Comparing bounds what shadowing costs.
type Comparing struct {
	Rate     Fraction `yaml:"rate"`      // of the reads that could be compared
	InFlight int      `yaml:"in_flight"` // comparisons at the same time; what would be one more is dropped and counted
	Bytes    Size     `yaml:"bytes"`     // that they hold together
	Ignore   []string `yaml:"ignore"`    // fields by their v2 path in which differences do not count
}

// Verdict is what PASS asks for.
type Verdict struct {
	Comparisons int      `yaml:"comparisons"` // of each operation; calls at either backend, too
	Bills       int      `yaml:"bills"`       // distinct ones among them
	Mismatch    Fraction `yaml:"mismatch"`    // the mismatch rate of what is neither money nor state nor code lies below, for all that is known
	Unclear     Fraction `yaml:"unclear"`     // no more of what was asked had no answer
}

// DefaultSendWithin is how long after its arrival a write may be sent if the config has no rollout.send_within.
const DefaultSendWithin = 3 * time.Second

// UnmarshalYAML begins with the defaults.
func (r *Rollout) UnmarshalYAML(n *yaml.Node) error {
	type plain Rollout // without this method
	filled := plain{
		Bills: Separate, Default: "old", Settle: Duration(15 * time.Minute), Split: ByBill, Salt: "billbridge", Ask: Duration(3 * time.Second),
		SendWithin: Duration(DefaultSendWithin),
		Shadow:     Comparing{Rate: 1, InFlight: 32, Bytes: 16 << 20},
		Verdict:    Verdict{Comparisons: 100, Bills: 30, Mismatch: 0.03, Unclear: 0.05},
		Keep:       Duration(2 * 365 * 24 * time.Hour),
	}
	if err := n.Load(&filled, yaml.WithKnownFields()); err != nil {
		return err
	}
	*r = Rollout(filled)
	return nil
}

// Stages are the words for how far a partner has moved, in their order.
var Stages = []string{"old", "shadow", "canary", "new", "drained"}

func (c *Config) checkRollout() {
	s, r := c.source, c.Rollout
	if r == nil {
		return
	}
	for _, side := range []struct{ key, name string }{{"old", r.Old}, {"new", r.New}} {
		if side.name == "" {
			s.problem("an upstream is needed: the one that partners "+map[string]string{"old": "come from", "new": "go to"}[side.key], "rollout", side.key)
		} else if c.Upstreams.Find(side.name) == nil {
			s.problem(fmt.Sprintf("there is no upstream %q%s", side.name, translate.DidYouMean(side.name, c.Upstreams.names())), "rollout", side.key)
		}
	}
	if r.Old != "" && r.Old == r.New {
		s.problem(fmt.Sprintf("is the old one too: %q", r.New), "rollout", "new")
	}
	switch {
	case !slices.Contains(Stages, r.Default):
		s.problem(fmt.Sprintf("must be one of %v, but is %q", Stages, r.Default), "rollout", "default")
	case r.Default == "canary":
		s.problem("canary needs a percentage: set it with billbridge rollout set --default", "rollout", "default")
	}
	if r.Bills == Separate && !c.Store.URL.IsSet() {
		s.problem("who owns a bill must outlive the process; set store: {url: sqlite:billbridge.db} or {url: postgres://…}, or bills: shared", "rollout")
	}
	if longest := c.Upstreams.LongestCall(); time.Duration(r.Settle) <= longest {
		s.problem(fmt.Sprintf("must be longer than the longest wait and timeout of an upstream, %s, but is %s", longest, r.Settle), "rollout", "settle")
	}
	if time.Duration(r.SendWithin) > time.Minute {
		s.problem(fmt.Sprintf("must be at most 1m, but is %s: a caller that gave up may make the bill again", r.SendWithin), "rollout", "send_within")
	}
	if n := r.Shadow.InFlight; n < 1 || n > 10_000 {
		s.problem(fmt.Sprintf("must be from 1 to 10000, but is %d", n), "rollout", "shadow", "in_flight")
	}
	if r.Shadow.Bytes < 128<<10 {
		s.problem(fmt.Sprintf("must be at least 128KiB, which one comparison may hold, but is %d bytes", r.Shadow.Bytes), "rollout", "shadow", "bytes")
	}
	for _, name := range []string{r.Old, r.New} {
		if u := c.Upstreams.Find(name); u != nil && r.Shadow.InFlight >= u.Connections {
			s.problem(fmt.Sprintf("must be below the connections of upstream %q, %d, of which partners' calls need some, but is %d", name, u.Connections, r.Shadow.InFlight), "rollout", "shadow", "in_flight")
			break
		}
	}
	if c.Table != nil {
		c.checkRolloutTable()
	}
	for _, least := range []struct {
		key string
		is  int
	}{{"comparisons", r.Verdict.Comparisons}, {"bills", r.Verdict.Bills}} {
		if least.is < 1 {
			s.problem(fmt.Sprintf("must be at least 1, but is %d", least.is), "rollout", "verdict", least.key)
		}
	}
	for _, share := range []struct {
		key, why string
		is       Fraction
	}{
		{"mismatch", "that nothing differs is never certain", r.Verdict.Mismatch},
		{"unclear", "one answer that is missing would leave every verdict open", r.Verdict.Unclear},
	} {
		if share.is == 0 {
			s.problem("must be above 0: "+share.why, "rollout", "verdict", share.key)
		}
	}
	if time.Duration(r.Keep) < 30*24*time.Hour {
		s.problem(fmt.Sprintf("must be at least 720h, but is %s: a bill that is paid may be cancelled after its last day", r.Keep), "rollout", "keep")
	}
}

// checkRolloutTable holds the table, which there is, to what a rollout needs of it, and the rollout to what the table knows.
func (c *Config) checkRolloutTable() {
	s, r := c.source, c.Rollout
	for _, o := range c.Table.Operations() {
		forms := c.Table.Forms()
		if o.Effect == translate.Write && o.Path(forms[0]) != "" && o.Path(forms[1]) != "" && !billing.HasPartnerAndBill(o) {
			s.problem(fmt.Sprintf("a request of %s has no row with role: bill, or none with role: partner, in one of the forms: a rollout cannot find its backend", o.Name), "rollout")
		}
	}
	var shown []string
	for _, o := range c.Table.Operations() {
		if o.Effect == translate.Read {
			shown = append(shown, o.ReplyPaths()...)
		}
	}
	for i, path := range r.Shadow.Ignore {
		if !slices.ContainsFunc(shown, func(field string) bool { return path != "" && (field == path || strings.HasPrefix(field, path+".")) }) {
			s.problem(fmt.Sprintf("no read answers with a field %q; give its path in %s%s", path, c.Table.Forms()[0], translate.DidYouMean(path, shown)), "rollout", "shadow", "ignore", strconv.Itoa(i))
		}
	}
}
