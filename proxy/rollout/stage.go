package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"billbridge/proxy/partner"
)

// A Stage is how far a partner has moved from the old backend to the new one.
type Stage string

// The stages, in their order. Creates of a partner go to the old backend up to StageShadow, to either in StageCanary, and to the new
// one from StageNew on. In StageDrained the partner has no bills at the old backend, so that it need not be probed.
const (
	StageOld     Stage = "old"
	StageShadow  Stage = "shadow"
	StageCanary  Stage = "canary"
	StageNew     Stage = "new"
	StageDrained Stage = "drained"
)

// Stages are all of them, in their order.
var Stages = []Stage{StageOld, StageShadow, StageCanary, StageNew, StageDrained}

// parseStage reads one of the five words.
func parseStage(word string) (Stage, error) {
	if s := Stage(word); slices.Contains(Stages, s) {
		return s, nil
	}
	return "", fmt.Errorf("stage must be one of %v, but is %q", Stages, word)
}

// later reports whether a stage comes after another.
func (s Stage) later(than Stage) bool { return slices.Index(Stages, s) > slices.Index(Stages, than) }

// A position is the stage of a partner, with its percentage.
type position struct {
	stage   Stage
	percent int  // of StageCanary, 0 to 100: of the partner's new bills or merchants, see config.Split
	forced  bool // set in spite of blocking reasons: the settling period of the partner is skipped
}

func (p position) String() string { return InWords(string(p.stage), percentOf(p.stage, p.percent)) }

// canarySteps are the percentages of canary that a partner goes through, one after the other.
var canarySteps = []int{10, 25, 50}

// next is the position after this one. Unless shadow can compare anything, it is left out. ok is false for the last stage.
func (p position) next(shadow bool) (to position, ok bool) {
	if p.stage == StageCanary {
		for _, percent := range canarySteps {
			if percent > p.percent {
				return position{stage: StageCanary, percent: percent}, true
			}
		}
	}
	at := slices.Index(Stages, p.stage) + 1
	if at == len(Stages) {
		return p, false
	}
	if Stages[at] == StageShadow && !shadow {
		at++
	}
	if to = (position{stage: Stages[at]}); to.stage == StageCanary {
		to.percent = canarySteps[0]
	}
	return to, true
}

// inPercentage reports whether canary sends a bill or a merchant of a partner to the new backend. The result is the same on
// every replica. What is selected at a percentage is selected at every higher one: raising the percentage moves nothing back.
func inPercentage(partner partner.ID, drawn string, percent int) bool {
	// With the lengths, different parts cannot be joined to the same text.
	sum := sha256.Sum256(fmt.Appendf(nil, "10:billbridge%d:%s%d:%s", len(partner), partner, len(drawn), drawn))
	return binary.BigEndian.Uint64(sum[:8])%100 < uint64(max(percent, 0))
}
