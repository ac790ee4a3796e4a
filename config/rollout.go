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
	ProbeTimeout Duration `yaml:"probe_timeout" was:"ask" default:"3s"`

	// a write that arrived longer ago is not sent, since its caller may have given up
	SendWithin Duration `yaml:"send_within" range:",1m" why:": a caller that gave up may create the bill again" default:"3s"`

	Unknown Unknown `yaml:"unknown"`
	Shadow  Shadow  `yaml:"shadow"`
	Verdict Verdict `yaml:"verdict"`

	// how long the owner of a bill stays known after the last day of the bill
	Keep Duration `yaml:"keep" range:"720h," why:": a paid bill may be cancelled after its last day" default:"17520h"`
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

// Unknown says how the gateway reads the bills of writes with an unknown outcome.
type Unknown struct {
	// how long after the write: 1, 5, 15 and 60 minutes after it, then daily; 0 for not at all
	For DurationOrZero `yaml:"for" range:",2160h" default:"168h"`
	// the maximum number of these reads per second and gateway
	Rate int `yaml:"rate" range:"1,100" default:"5"`
}

// Shadow limits the load of shadow comparisons.
type Shadow struct {
	// the fraction of reads that are compared
	Rate Fraction `yaml:"rate" range:"0,1" default:"1"`
	// the maximum number of concurrent comparisons; further ones are dropped and counted
	InFlight int `yaml:"in_flight" range:"1,10000" default:"32"`
	// the maximum memory of all of them
	Bytes Size `yaml:"bytes" range:"128KiB," why:": one comparison can be as large" default:"16MiB"`
	// v2 paths of fields that are not compared
	Ignore []string `yaml:"ignore"`
}

// Verdict is what a PASS requires.
type Verdict struct {
	// the minimum per operation, and of calls at each backend
	Comparisons int `yaml:"comparisons" range:"1," default:"100"`
	Bills       int `yaml:"bills" range:"1," default:"30"` // the minimum number of different bills in these
	// the minimum number of different paid bills in these; 0 if the partners' bills are not paid
	Paid int `yaml:"paid" range:"0," default:"5"`
	// the upper confidence bound of the mismatch rate; amounts, states and codes may not differ at all
	Mismatch Fraction `yaml:"mismatch" range:"0,1" default:"0.03"`
	// the maximum fraction of comparisons without a reply
	Unclear Fraction `yaml:"unclear" range:"0,1" default:"0.05"`
}

// DefaultSendWithin is the value of rollout.send_within for a config without a rollout.
const DefaultSendWithin = 3 * time.Second

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
	for _, u := range c.Upstreams {
		if (u.Name == r.Old || u.Name == r.New) && r.Shadow.InFlight >= u.Connections {
			c.addf("rollout.shadow.in_flight",
				"must be less than %d, the connections of an upstream of the rollout, but is %d: "+
					"partners' calls need connections too", u.Connections, r.Shadow.InFlight)
			break
		}
	}
	if r.Verdict.Mismatch == 0 {
		c.addf("rollout.verdict.mismatch",
			"must be greater than 0: no number of comparisons proves that there is no difference")
	}
	if r.Verdict.Unclear == 0 {
		c.addf("rollout.verdict.unclear",
			"must be greater than 0: one missing reply would make every verdict inconclusive")
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
		c.addf("rollout", "no code of the table has means: not_found, by which a backend says that it has no such bill")
	}
	var paths []string // of replies to reads
	for _, o := range c.Table.Operations() {
		inBothForms := o.Path(forms[0]) != "" && o.Path(forms[1]) != ""
		if o.Effect == translate.Write && inBothForms && !billing.HasPartnerAndBill(o) {
			c.addf("rollout", "the request of %s needs role: partner and role: bill in each form, "+
				"by which a rollout finds the backend of a call", o.Name)
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
			c.addf(fmt.Sprintf("rollout.shadow.ignore[%d]", i),
				"no reply of a read has this field; write its path in %s%s",
				forms[0], translate.DidYouMean(ignored, paths))
		}
	}
}
