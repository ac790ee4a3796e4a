package routing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"billbridge/config"
	"billbridge/proxy/partner"
)

// A Stage is how far a partner has moved from the old backend to the new one.
type Stage string

// The stages, in their order. Creates of a partner go to the old backend up to StageShadow, to either in StageCanary,
// and to the new one from StageNew on. In StageDrained the partner has no bills at the old backend, so that it need
// not be probed.
const (
	StageOld     Stage = "old"
	StageShadow  Stage = "shadow"
	StageCanary  Stage = "canary"
	StageNew     Stage = "new"
	StageDrained Stage = "drained"
)

// Stages are all of them, in their order.
var Stages = []Stage{StageOld, StageShadow, StageCanary, StageNew, StageDrained}

// StagesWith returns the stages of a rollout, in their order. In StageShadow the answers of both backends are compared,
// which needs backends that see the same bills.
func StagesWith(bills config.Bills) []Stage {
	if bills == config.Shared {
		return Stages
	}
	return slices.DeleteFunc(slices.Clone(Stages), func(s Stage) bool { return s == StageShadow })
}

// Later reports whether a stage comes after another.
func (s Stage) Later(than Stage) bool { return slices.Index(Stages, s) > slices.Index(Stages, than) }

// A Position is the stage of a partner, with its percentage.
type Position struct {
	Stage   Stage
	Percent int  // of StageCanary, 0 to 100: of the partner's new bills
	Forced  bool // set in spite of blocking reasons: the settling period of the partner is skipped
}

// At returns a stage of the store.
func At(stage string, percent int) Position { return Position{Stage: Stage(stage), Percent: percent} }

// Before reports whether p comes before q on the way of a partner.
func (p Position) Before(q Position) bool {
	return q.Stage.Later(p.Stage) || p.Stage == q.Stage && p.Percent < q.Percent
}

// String returns the stage and, of canary, its percentage.
func (p Position) String() string {
	if p.Stage == StageCanary {
		return fmt.Sprintf("%s %d %%", p.Stage, p.Percent)
	}
	return string(p.Stage)
}

// AtNew returns how much of what a partner creates goes to the new backend.
func (p Position) AtNew() int {
	switch p.Stage {
	case StageCanary:
		return p.Percent
	case StageNew, StageDrained:
		return 100
	case StageOld, StageShadow:
	}
	return 0
}

// canarySteps are the percentages of canary that a partner goes through, one after the other.
var canarySteps = []int{10, 25, 50}

// Next returns the position after this one. ok is false for the last stage.
func (p Position) Next(bills config.Bills) (to Position, ok bool) {
	if p.Stage == StageCanary {
		for _, percent := range canarySteps {
			if percent > p.Percent {
				return Position{Stage: StageCanary, Percent: percent}, true
			}
		}
	}
	stages := StagesWith(bills)
	at := slices.IndexFunc(stages, func(s Stage) bool { return s.Later(p.Stage) })
	if at < 0 {
		return p, false
	}
	if to = (Position{Stage: stages[at]}); to.Stage == StageCanary {
		to.Percent = canarySteps[0]
	}
	return to, true
}

// inPercentage reports whether canary sends a new bill of a partner to the new backend. The result is the same on every
// replica, and for ids that differ only in case or in surrounding space: a backend may take them for one bill. A bill
// that is selected at a percentage is selected at every higher one: raising the percentage moves nothing back.
func inPercentage(partner partner.ID, bill string, percent int) bool {
	drawn := strings.ToLower(strings.TrimSpace(bill))
	// With the lengths, different parts cannot be joined to the same text.
	sum := sha256.Sum256(fmt.Appendf(nil, "10:billbridge%d:%s%d:%s", len(partner), partner, len(drawn), drawn))
	return binary.BigEndian.Uint64(sum[:8])%100 < uint64(max(percent, 0))
}
