package desk

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
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
	// Options are what the partner uses besides create and read: callbacks, cancel, destroy, resend. A case that needs
	// another one is skipped.
	Options []string `yaml:"options"`
	// Timeout is the longest time that the partner waits for a reply; 30 s if 0.
	Timeout time.Duration `yaml:"timeout"`
	// Reconcile is the interval of the partner's own reads of its bills; none if 0.
	Reconcile time.Duration `yaml:"reconcile"`

	// Hook is the base URL of the order hook.
	Hook string `yaml:"hook"`
	// Only are the cases or groups of the run, beside the first case; all if empty.
	Only []string `yaml:"case"`

	Run string `yaml:"-"` // the name of the run, which Run sets
	// speed divides the waiting times of cases, but not the times above. The clock of the service is advanced instead.
	speed int
}

// react is the longest pause before a partner acts again.
const react = 2 * time.Second

// CheckOnly checks the names of Only. One that is neither a case nor a group is an error: a run without cases would
// pass.
func (p Plan) CheckOnly() error {
	for _, name := range p.Only {
		if !slices.ContainsFunc(all().Cases, func(c Case) bool { return c.in([]string{name}) }) {
			return fmt.Errorf("case: expected a case or a group but got: %q", name)
		}
	}
	return nil
}

var (
	options = []string{"callbacks", "cancel", "destroy", "resend"}
	goodKey = regexp.MustCompile(`^[!-z|-~]{1,32}$`) // without {, as in ${env:NAME}
)

// ParsePlan reads a plan. Unknown keys are errors. It calls lookup for ${env:NAME}, unless lookup is nil.
func ParsePlan(text []byte, lookup func(string) (string, bool)) (p Plan, err error) {
	if err := yaml.Load(text, &p, yaml.WithKnownFields()); err != nil {
		if strings.Contains(err.Error(), "time.Duration") {
			err = fmt.Errorf("timeout, reconcile: expected a time such as 10s: %w", err)
		}
		return p, err
	}
	if name, ok := strings.CutPrefix(p.Key, "${env:"); ok && lookup != nil {
		p.Key, _ = lookup(strings.TrimSuffix(name, "}"))
	}
	p.Timeout, p.speed = cmp.Or(p.Timeout, 30*time.Second), 60
	u, _ := url.Parse(p.Hook)
	other := slices.IndexFunc(p.Options, func(o string) bool { return !slices.Contains(options, o) })
	wrong := ""
	switch {
	case strings.TrimSpace(p.Partner) == "":
		wrong = "partner: expected a name"
	case p.Form != "v2" && p.Form != "legacy":
		wrong = "form: expected v2 or legacy but got: " + p.Form
	case !goodKey.MatchString(p.Key):
		wrong = "api_key: expected 1 to 32 characters, or in a file ${env:NAME} with the name of a " +
			"variable that has them"
	case u == nil || u.Host == "":
		wrong = "hook: expected the URL of the order hook but got: " + p.Hook
	case other >= 0:
		wrong = "options: expected " + strings.Join(options, ", ") + " but got: " + p.Options[other]
	case min(p.Timeout, cmp.Or(p.Reconcile, time.Second)) < time.Second, p.Timeout > time.Minute,
		p.Reconcile > 20*time.Minute:
		wrong = "timeout, reconcile: expected times of at least 1s, and at most 1m and 20m"
	case p.polls() && p.Reconcile == 0:
		wrong = "options: expected callbacks, or a time for reconcile: else the partner learns of no payment"
	default:
		return p, p.CheckOnly()
	}
	return p, errors.New(wrong)
}

// polls reports whether the partner gets no callbacks.
func (p Plan) polls() bool { return !slices.Contains(p.Options, "callbacks") }

// lacks returns the first need that the plan does not declare, or "".
func (p Plan) lacks(needs []string) string {
	for _, need := range needs {
		if need != p.Form && !slices.Contains(p.Options, need) && (need != "reconcile" || p.Reconcile == 0) {
			return need
		}
	}
	return ""
}

// wait is how long the desk waits instead of a time of a case. If that is a minute or more, a partner that polls reads
// its bills in that time.
func (p Plan) wait(d time.Duration) time.Duration {
	real := max(d/time.Duration(p.speed), react)
	if p.polls() && d >= time.Minute {
		real = max(real, p.Reconcile+react)
	}
	return real
}

// limit is how long the desk waits for what the partner has to do: wait for a time of a case such as 5m, and a call
// that gets no reply, or for "reconcile" twice the interval of the plan: a job that reads many bills takes its time.
func (p Plan) limit(text string) time.Duration {
	call := 2*p.Timeout + react
	if text == "reconcile" || p.polls() {
		return 2 * (p.Reconcile + call)
	}
	d, _ := time.ParseDuration(text) // a test reads those of all cases
	return max(p.wait(d), call)
}

// words returns the words of a step or a condition, and the order that it is about: "b" at the end, else "a".
func words(text string) (list []string, order string) {
	list, order = strings.Fields(text), "a"
	if n := len(list) - 1; n > 0 && list[n] == "b" {
		return list[:n], "b"
	}
	return list, order
}
