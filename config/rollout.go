package config

import "time"

// Rollout says how partners move from the old backend to the new one.
type Rollout struct {
	// the upstream that is the old backend
	Old string `yaml:"old" config:"required" missing:": the upstream that partners move from"`
	// the upstream that is the new backend
	New string `yaml:"new" config:"required" missing:": the upstream that partners move to"`
	// whether both backends see the same bills
	Bills Bills `yaml:"bills" config:"restart" words:"separate shared" default:"separate"`

	// the stage of partners without a stage of their own
	Default string `yaml:"default" words:"old shadow new drained" default:"old"`
	// the settling period: how long a partner must have called through the gateway before it leaves the old backend
	Settle Duration `yaml:"settle" default:"15m"`

	// the timeout of a probe, a read that finds the owner of a bill; the caller waits for it
	ProbeTimeout time.Duration `yaml:"-" constant:"3s"`

	// a write that arrived longer ago is not sent, since its caller may have given up
	SendWithin time.Duration `yaml:"-"`

	Shadow  Shadow  `yaml:"shadow"`
	Verdict Verdict `yaml:"verdict"`

	// how long the owner of a bill stays known after the last day of the bill: two years, since a paid bill may be
	// cancelled after that day
	Keep time.Duration `yaml:"-" constant:"17520h"`
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
	// the maximum number of concurrent comparisons, of at most 256KiB; further ones are dropped and counted
	InFlight int `yaml:"-" constant:"32"`
	// v2 paths of fields that are not compared
	Ignore []string `yaml:"ignore"`
}

// Verdict is what a PASS requires.
type Verdict struct {
	// the minimum per operation, and of calls at each backend
	Comparisons int `yaml:"comparisons" range:"1," default:"100"`
	// the minimum number of different bills in these: many comparisons of one bill prove little
	Bills int `yaml:"-" constant:"30"`
	// the minimum number of different paid bills in these; 0 if the partners' bills are not paid
	Paid int `yaml:"paid" range:"0," default:"5"`
	// the upper confidence bound of the mismatch rate; amounts, states and codes may not differ at all
	Mismatch Fraction `yaml:"mismatch" range:"0,1" default:"0.03"`
	Unclear  float64  `yaml:"-" constant:"0.05"` // the maximum fraction of comparisons without a reply
}

func (c *Config) checkRollout() {
	r := c.Rollout
	if r == nil {
		return
	}
	r.SendWithin = SendWithin
	for i, key := range []string{"rollout.old", "rollout.new"} {
		// Partners' calls need the connections of both upstreams, too.
		if u := c.checkReference(key, r.Backends()[i]); u != nil {
			r.Shadow.InFlight = max(1, min(r.Shadow.InFlight, u.Connections/2))
		}
	}
	if r.Old == r.New {
		c.add("rollout.new", "must differ from old")
	}
	if r.Default == "shadow" && r.Bills == Separate {
		c.add("rollout.default", "shadow compares the answers of both backends, so it is a stage of bills: shared only")
	}
	if r.Bills == Separate && !c.Store.URL.IsSet() {
		c.add("rollout", "the owners of bills must be stored; "+setStore+", or bills: shared")
	}
	if longest := c.Upstreams.LongestCall(); time.Duration(r.Settle) <= longest {
		c.addf("rollout.settle", "must be longer than the longest wait and timeout of an upstream, %s, but is %s",
			Duration(longest), r.Settle)
	}
	if r.Verdict.Mismatch == 0 {
		c.add("rollout.verdict.mismatch",
			"must be greater than 0: no number of comparisons proves that there is no difference")
	}
}
