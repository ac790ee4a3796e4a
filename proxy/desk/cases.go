package desk

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"billbridge/proxy/sandbox"

	"go.yaml.in/yaml/v4"
)

// A Case is one test of a partner's integration.
type Case struct {
	ID    string   `yaml:"id"`
	Title string   `yaml:"title"`
	Needs []string `yaml:"needs"` // options of the plan, or a form
	// Faults are set by the step "fault". In their texts {a} and {b} stand for the bills of the orders, and {amount}
	// for the amount of a.
	Faults []caseFault `yaml:"faults"`
	Steps  []string    `yaml:"steps"` // see runner.step
	Watch  []string    `yaml:"watch"` // conditions, each a name and its parameters; see conditions
	Source string      `yaml:"source"`
	Repair string      `yaml:"repair"`
}

type caseFault struct {
	sandbox.Fault `yaml:",inline"`
	// Bodies are the bodies by the form of the plan.
	Bodies map[string]string `yaml:"bodies"`
	// Silence delays the reply until after the partner's time-out.
	Silence bool `yaml:"silence"`
}

// Group is the first letter of the id.
func (c Case) Group() string { return c.ID[:1] }

//go:embed cases/*.yaml
var caseFiles embed.FS

var cases = mustLoad()

// Cases returns the list of cases in their order. It must not be changed.
func Cases() []Case { return cases }

func mustLoad() (list []Case) {
	for _, name := range []string{"basics", "unknown", "nothing-sent", "failed-reads", "callbacks", "lost"} {
		text, err := caseFiles.ReadFile("cases/" + name + ".yaml")
		// The anchors of a file share steps and conditions.
		var file struct {
			Shared any    `yaml:"shared"`
			Cases  []Case `yaml:"cases"`
		}
		if err = errors.Join(err, yaml.Load(text, &file, yaml.WithKnownFields())); err != nil {
			panic(fmt.Errorf("%s: %w", name, err))
		}
		list = append(list, file.Cases...)
	}
	return list
}

// caseOf returns a case of the list.
func caseOf(id string) Case {
	return cases[slices.IndexFunc(cases, func(c Case) bool { return c.ID == id })]
}

// orderTime is the time in which an order has to reach a state.
const orderTime = 5 * time.Minute
