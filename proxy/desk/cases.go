package desk

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"billbridge/proxy/sandbox"

	"go.yaml.in/yaml/v4"
)

// A Case is one test of a partner's integration.
type Case struct {
	ID    string   `yaml:"id"`
	Title string   `yaml:"title"`
	Needs []string `yaml:"needs"` // options of the plan, or a form
	// Faults are set by the step "fault". In their texts {bill} and {amount} are those of order a.
	Faults []caseFault `yaml:"faults"`
	Steps  []string    `yaml:"steps"` // see runner.step
	Watch  []string    `yaml:"watch"` // conditions, each a name and its parameters; see conditions
	Rule   `yaml:",inline"`
}

// A Rule says what to repair.
type Rule struct {
	// Source is an anchor of translate/billing/INTERFACE.md and a sentence of it.
	Source string `yaml:"source" json:"source,omitempty"`
	Repair string `yaml:"repair" json:"repair,omitempty"`
}

// forms are the texts of each form.
type forms map[string]string

type caseFault struct {
	sandbox.Fault `yaml:",inline"`
	// Bodies are the bodies by the form of the plan.
	Bodies forms `yaml:"bodies"`
	// Silence delays the reply until after the partner's time-out.
	Silence bool `yaml:"silence"`
}

// in reports whether a list has the case or its group, the first letter of its id; nil has all.
func (c Case) in(list []string) bool {
	return len(list) == 0 || slices.Contains(list, c.ID) || slices.Contains(list, c.ID[:1])
}

//go:embed cases/*.yaml junit.xml report.html
var files embed.FS

// A caseFile has cases, or what they share.
type caseFile struct {
	Shared any    `yaml:"shared"` // its anchors
	Every  []Case `yaml:"every"`  // conditions of every case
	Cases  []Case `yaml:"cases"`
	// Forged are the bodies of callbacks that the service would not send, by name and form.
	Forged map[string]forms `yaml:"forged"`
}

// all loads the cases once, when the first one is needed: most commands need none.
var all = sync.OnceValue(func() (all caseFile) {
	for _, name := range []string{"every", "basics", "unknown", "nothing-sent", "failed-reads", "callbacks", "lost"} {
		text, err := files.ReadFile("cases/" + name + ".yaml")
		before := all.Cases
		all.Cases = nil
		if err = errors.Join(err, yaml.Load(text, &all, yaml.WithKnownFields())); err != nil {
			panic(fmt.Errorf("%s: %w", name, err))
		}
		all.Cases = append(before, all.Cases...)
	}
	return all
})

// Cases returns the list of cases in their order. It must not be changed.
func Cases() []Case { return all().Cases }

// orderTime is the time in which an order has to reach a state.
const orderTime = 5 * time.Minute
