package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"billbridge/proxy/partner"
)

// A Stage is how far a partner has moved from the old upstream to the new one.
type Stage string

// The stages, in their order. Creates of a partner go to the old upstream up to StageShadow, to either in StageCanary, and to the
// new one from StageNew on. In StageDrained nothing of the partner's is left on the old backend, so that it need not be asked.
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
	return "", fmt.Errorf("a stage is one of %v, not %q", Stages, word)
}

// later reports whether a stage comes after another.
func (s Stage) later(than Stage) bool { return slices.Index(Stages, s) > slices.Index(Stages, than) }

// A position is where a partner stands.
type position struct {
	stage   Stage
	percent int  // of StageCanary, 0 to 100: how much of what the partner creates goes to the new upstream; see config.Split
	forced  bool // somebody was warned and wanted it all the same: the partner leaves the old upstream also before its settling time is over
}

// share reports whether what is drawn, a bill or a merchant of a partner, is among the percent that canary sends to the new
// upstream. It is always answered the same way for one salt, at every replica, and whoever is in at a percentage is in at
// every higher one: raising it moves nobody back.
func inPercentage(salt string, partner partner.ID, drawn string, percent int) bool {
	// The lengths tell where each part ends, so that no two are one by the way they are joined.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%d:%s", len(salt), salt, len(partner), partner, len(drawn), drawn))
	return binary.BigEndian.Uint64(sum[:8])%100 < uint64(max(percent, 0))
}
