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
	// the upstream that is the old backend
	Old string `yaml:"old" config:"required" such:": the upstream that partners move from"`
	// the upstream that is the new backend
	New string `yaml:"new" config:"required" such:": the upstream that partners move to"`
	// whether both backends see the same bills
	Bills Bills `yaml:"bills" config:"restart" words:"separate shared" default:"separate"`

	// the stage of partners without a stage of their own
	Default string `yaml:"default" words:"old shadow new drained" default:"old"`
	// the settling period: how long a partner must have called through the gateway before it leaves the old backend
	Settle Duration `yaml:"settle" default:"15m"`

	// the timeout of a probe, a read that finds the owner of a bill
	ProbeTimeout time.Duration `yaml:"-"`

	// a write that arrived longer ago is not sent, since its caller may have given up
	SendWithin time.Duration `yaml:"-"`

	Shadow  Shadow  `yaml:"shadow"`
	Verdict Verdict `yaml:"verdict"`

	// how long the owner of a bill stays known after the last day of the bill
	Keep time.Duration `yaml:"-"`
}

// Backends are the two upstreams, the old one first.
func (r *Rollout) Backends() [2]string { return [2]string{r.Old, r.New} }

// Bills says whether the backends of a rollout see the same bills.
type Bills string

// Separate backends have their own bills, so each bill has an owner. Shared backends see the same bills.
const (
	Separate Bills = "separate"
	Shared   Bills = "shared"
)

// Shadow limits the load of shadow comparisons.
type Shadow struct {
	// the maximum number of concurrent comparisons; further ones are dropped and counted
	InFlight int `yaml:"-"`
	// v2 paths of fields that are not compared
	Ignore []string `yaml:"ignore"`
}

// Verdict is what a PASS requires.
type Verdict struct {
	// the minimum per operation, and of calls at each backend
	Comparisons int `yaml:"comparisons" range:"1," default:"100"`
	Bills       int `yaml:"-"` // the minimum number of different bills in these
	// the minimum number of different paid bills in these; 0 if the partners' bills are not paid
	Paid int `yaml:"paid" range:"0," default:"5"`
	// the upper confidence bound of the mismatch rate; amounts, states and codes may not differ at all
	Mismatch Fraction `yaml:"mismatch" range:"0,1" default:"0.03"`
	Unclear  float64  `yaml:"-"` // the maximum fraction of comparisons without a reply
}

func (c *Config) checkRollout() {
	r := c.Rollout
	if r == nil {
		return
	}
	c.checkReference(r.Old, "rollout", "old")
	c.checkReference(r.New, "rollout", "new")
	if r.Old == r.New {
		c.addf("rollout.new", "must differ from old")
	}
	if r.Default == "shadow" && r.Bills == Separate {
		c.addf("rollout.default", "shadow compares the answers of both backends, so it is a stage of bills: shared only")
	}
	if r.Bills == Separate && !c.Store.URL.IsSet() {
		c.addf("rollout", "the owners of bills must be stored; set store: {url: sqlite:billbridge.db} or "+
			"{url: postgres://…}, or bills: shared")
	}
	if longest := c.Upstreams.LongestCall(); time.Duration(r.Settle) <= longest {
		c.addf("rollout.settle", "must be longer than the longest wait and timeout of an upstream, %s, but is %s",
			Duration(longest), r.Settle)
	}
	if r.Verdict.Mismatch == 0 {
		c.addf("rollout.verdict.mismatch",
			"must be greater than 0: no number of comparisons proves that there is no difference")
	}
	if c.Table != nil {
		c.checkRolloutTable()
	}
}

// checkRolloutTable checks that the table has what the rollout needs, and that shadow.ignore names fields of the table.
func (c *Config) checkRolloutTable() {
	r := c.Rollout
	forms := c.Table.Forms()
	if billing.CreateOperation(c.Table) == nil {
		c.addf("rollout", "no operation of the table has creates: bill, "+
			"by which a rollout sends new bills to a backend")
	}
	if c.Table.CodeThatMeans(translate.NotFound) == "" {
		c.addf("rollout", "the table has no codes.not_found, by which a backend says that it has no such bill")
	}
	var paths []string // of replies to reads
	for _, o := range c.Table.Operations() {
		inBothForms := o.Path(forms[0]) != "" && o.Path(forms[1]) != ""
		if o.Effect == translate.Write && inBothForms && !billing.HasPartnerAndBill(o) {
			c.addf("rollout", "the request of %s needs role: partner and role: bill in each form, "+
				"by which a rollout finds the backend of a call", o.Name)
		}
		if o.Effect == translate.Read {
			for _, f := range o.Fields() {
				if f.Message == string(translate.Reply) && f.From == forms[0] && !strings.Contains(f.Source, "[") {
					paths = append(paths, f.Source)
				}
			}
		}
	}
	for i, ignored := range r.Shadow.Ignore {
		matches := func(path string) bool {
			return ignored != "" && (path == ignored || strings.HasPrefix(path, ignored+"."))
		}
		if !slices.ContainsFunc(paths, matches) {
			c.addf(fmt.Sprintf("rollout.shadow.ignore[%d]", i),
				"no reply of a read has this field; write its path in %s%s",
				forms[0], translate.DidYouMean(ignored, paths))
		}
	}
}
