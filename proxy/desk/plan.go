package desk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A Plan is what a partner declares before a run.
type Plan struct {
	Partner string `yaml:"partner"`
	// Form is the form that the partner speaks: v2 or legacy.
	Form string `yaml:"form"`
	// Key is the key of the partner's test system.
	Key string `yaml:"api_key"`
	// Options are the operations that the partner uses besides create and read: cancel, destroy, resend. A case that
	// needs another one is skipped.
	Options []string `yaml:"options"`
	// Timeout is the longest time that the partner waits for a reply; 30 s if 0.
	Timeout time.Duration `yaml:"timeout"`
	// Reconcile is the interval of the partner's own reads of its bills; none if 0.
	Reconcile time.Duration `yaml:"reconcile"`

	// Run is the name of the run, which Run sets. Only are its cases or groups; all if empty.
	Run  string   `yaml:"-"`
	Only []string `yaml:"-"`
	// speed divides the waiting times of cases, but not the times above. The clock of the service is advanced instead.
	speed int
}

// react is the longest pause before a partner acts again.
const react = 2 * time.Second

// Choose limits the run to cases and groups. A name of none is an error: a run without cases would pass.
func (p *Plan) Choose(only []string) error {
	for _, name := range only {
		if p.Only = []string{name}; !slices.ContainsFunc(cases, p.applies) {
			return fmt.Errorf("case: expected a case or a group but got: %q", name)
		}
	}
	p.Only = only
	return nil
}

// ParsePlan reads a plan. Unknown keys are errors.
func ParsePlan(text []byte) (p Plan, err error) {
	if err := yaml.Load(text, &p, yaml.WithKnownFields()); err != nil {
		return p, err
	}
	p.Timeout, p.speed = cmp.Or(p.Timeout, 30*time.Second), 60
	for _, option := range p.Options {
		if !slices.Contains([]string{"cancel", "destroy", "resend"}, option) {
			return p, fmt.Errorf("options: expected cancel, destroy or resend but got: %q", option)
		}
	}
	switch {
	case p.Form != "v2" && p.Form != "legacy":
		return p, fmt.Errorf("form: expected v2 or legacy but got: %q", p.Form)
	case p.Key == "" || len(p.Key) > 32:
		return p, errors.New("api_key: expected 1 to 32 characters")
	case min(p.Timeout, p.Reconcile) < 0 || p.Reconcile > 20*time.Minute:
		return p, errors.New("timeout, reconcile: expected times above zero, and at most 20m for reconcile")
	}
	return p, nil
}

// lacks returns the first need that the plan does not declare, or "".
func (p Plan) lacks(needs []string) string {
	for _, need := range needs {
		if need != p.Form && !slices.Contains(p.Options, need) && (need != "reconcile" || p.Reconcile == 0) {
			return need
		}
	}
	return ""
}

// wait is how long the desk waits instead of a time of a case.
func (p Plan) wait(d time.Duration) time.Duration {
	return max(d/time.Duration(p.speed), react)
}

// within is wait for what the partner has to do: it includes a call that gets no reply.
func (p Plan) within(d time.Duration) time.Duration {
	return max(p.wait(d), 2*p.Timeout+react)
}

// duration returns a time of a case: 5m, or "reconcile" for the interval of the plan and a call.
func (p Plan) duration(text string) (d, within time.Duration) {
	if text == "reconcile" {
		d = p.Reconcile + 2*p.Timeout + react
		return d, d
	}
	d, _ = time.ParseDuration(text) // a test reads those of all cases
	return d, p.within(d)
}

// applies reports whether the run has a case.
func (p Plan) applies(c Case) bool {
	return len(p.Only) == 0 || slices.Contains(p.Only, c.ID) || slices.Contains(p.Only, c.Group())
}

// words returns the words of a step or a condition, and the order that it is about: "b" at the end, else "a".
func words(text string) (list []string, order string) {
	list, order = strings.Fields(text), "a"
	if n := len(list) - 1; n > 0 && list[n] == "b" {
		return list[:n], "b"
	}
	return list, order
}
