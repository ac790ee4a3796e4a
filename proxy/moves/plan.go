package moves

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/routing"
)

// A Plan is how a wave moves its partners.
type Plan struct {
	Steps Steps    `json:"steps,omitzero"`
	Stay  Duration `json:"stay,omitzero"` // a partner stays so long in a stage before its next step
	Each  Pace     `json:"each,omitzero"` // the most steps forward
}

// Complete sets what a plan lacks, and refuses a plan that cannot be carried out. shadow is whether there is a stage
// shadow.
func (p *Plan) Complete(shadow bool) error {
	if len(p.Steps) == 0 {
		p.Steps = Steps{
			{Stage: routing.StageShadow},
			{Stage: routing.StageCanary, Percent: 10},
			{Stage: routing.StageCanary, Percent: 50},
			{Stage: routing.StageNew},
		}
		if !shadow {
			p.Steps = p.Steps[1:]
		}
	}
	if p.Stay == 0 {
		p.Stay = Duration(24 * time.Hour)
	}
	if p.Each == (Pace{}) {
		p.Each = Pace{20, time.Hour}
	}
	if p.Steps[0].Stage == routing.StageShadow && !shadow {
		return errors.New("with bills: separate there is no stage shadow: leave this step out")
	}
	return nil
}

// Next returns the first step after a position; ok is false after the last one. It leaves out shadow if the bills have
// become separate since the wave was created: with a partner there no gateway would start.
func (p Plan) Next(at routing.Position, bills config.Bills) (to routing.Position, ok bool) {
	stages := routing.StagesWith(bills)
	i := slices.IndexFunc(p.Steps, func(to routing.Position) bool {
		return at.Before(to) && slices.Contains(stages, to.Stage)
	})
	if i < 0 {
		return at, false
	}
	return p.Steps[i], true
}

// A Mistake is the error for an invalid value in a wave's plan, worded for the operator.
type Mistake string

// Error returns the text.
func (m Mistake) Error() string { return string(m) }

func mistake(format string, args ...any) error { return Mistake(fmt.Sprintf(format, args...)) }

// A Duration is greater than 0, and written like 24h.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if *d = Duration(v); err != nil || v <= 0 {
		return mistake("must be a duration above 0s, such as 24h, but is %q", text)
	}
	return nil
}

// MarshalText writes a duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the duration without zeros at its end.
func (d Duration) String() string { return config.Duration(d).String() }

// Steps are stages in their order, written like shadow,canary:10,canary:50,new.
type Steps []routing.Position

// UnmarshalText reads steps.
func (s *Steps) UnmarshalText(text []byte) error {
	*s = nil
	for one := range strings.SplitSeq(string(text), ",") {
		name, percent, canary := strings.Cut(strings.TrimSpace(one), ":")
		p := routing.Position{Stage: routing.Stage(name)}
		if canary {
			n, err := strconv.Atoi(percent)
			if p.Percent = n; err != nil || n < 1 || n > 100 {
				return mistake("the percentage of a step must be 1 to 100: %q", one)
			}
		}
		switch {
		case !slices.Contains(routing.Stages[1:], p.Stage) || canary != (p.Stage == routing.StageCanary):
			return mistake("a step must be shadow, canary with a percentage such as canary:10, new or drained: %q", one)
		case len(*s) > 0 && !(*s)[len(*s)-1].Before(p):
			return mistake("the steps must be in the order of the stages: %q", one)
		}
		*s = append(*s, p)
	}
	return nil
}

// MarshalText writes steps.
func (s Steps) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the inverse of UnmarshalText.
func (s Steps) String() string {
	all := make([]string, len(s))
	for i, p := range s {
		if all[i] = string(p.Stage); p.Stage == routing.StageCanary {
			all[i] += ":" + strconv.Itoa(p.Percent)
		}
	}
	return strings.Join(all, ",")
}

// A Pace is the most steps in a time, written like 20/h. They are made at equal distances, so that a mistake meets few
// partners before it shows.
type Pace struct {
	Steps int
	Per   time.Duration
}

var paceUnits = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// UnmarshalText reads a pace.
func (p *Pace) UnmarshalText(text []byte) error {
	number, unit, _ := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(number)
	if *p = (Pace{n, paceUnits[unit]}); err != nil || n < 1 || p.Per == 0 || p.gap() < time.Second {
		return mistake("must be a number of steps per m, h or d, such as 20/h, at most 60/m, but is %q", text)
	}
	return nil
}

// MarshalText writes a pace.
func (p Pace) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String is the inverse of UnmarshalText.
func (p Pace) String() string {
	for unit, per := range paceUnits {
		if per == p.Per {
			return fmt.Sprintf("%d/%s", p.Steps, unit)
		}
	}
	return ""
}

func (p Pace) gap() time.Duration { return p.Per / time.Duration(p.Steps) }

// Read returns the plan of a wave in the store.
func Read(text string) (p Plan, err error) {
	err = json.Unmarshal([]byte(text), &p)
	return p, err
}
