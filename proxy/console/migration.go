package console

import (
	"net/http"
	"slices"

	"billbridge/proxy/evidence"
	"billbridge/proxy/operate"
	"billbridge/proxy/routing"
	"billbridge/translate/billing"
)

// A migration is what Overview and Partners show of all partners together.
type migration struct {
	Stages   []stageBar
	Of       int       // partners
	Waves    []waveBar // that have not ended
	Pictures []picture
}

// A waveBar is a wave with its partners by stage.
type waveBar struct {
	operate.WaveInfo
	Bars []stageBar
}

// A stageBar is the partners of a stage as a part of a bar, in percent of it.
type stageBar struct {
	Stage   routing.Stage
	Number  int
	X, Wide float64
}

// migration returns how far the partners are, without pictures.
func (c *Console) migration(r *http.Request) (m migration, err error) {
	o := c.Operator
	stages := askNext(r, &err, o.StageCounts, struct{}{})
	m.Stages, m.Of = bars(stages)
	if o.Store == nil {
		return m, err
	}
	for _, wave := range askNext(r, &err, o.Waves, operate.WaveFilter{Active: true}) {
		var counts []operate.StageCount
		for _, at := range wave.At {
			counts = append(counts, operate.StageCount{Stage: at.Stage, Number: at.Number})
		}
		one := waveBar{WaveInfo: wave}
		one.Bars, _ = bars(counts)
		m.Waves = append(m.Waves, one)
	}
	return m, err
}

// bars returns a bar of stages, and how many partners it has.
func bars(counts []operate.StageCount) (all []stageBar, of int) {
	for _, s := range counts {
		of += s.Number
	}
	x := 0.
	for _, s := range counts {
		wide := 100 * float64(s.Number) / float64(max(of, 1))
		all = append(all, stageBar{s.Stage, s.Number, x, wide})
		x += wide
	}
	return all, of
}

// draw adds the pictures of a window.
func (m *migration) draw(c *Console, w *window) {
	backends := c.Operator.Rollout.Settings().Backends
	create := billing.CreateOperation(c.Config().Table)
	if create != nil {
		m.Pictures = w.pictures(c.Now(), [2]string{backends[evidence.Old], backends[evidence.New]}, create.Name)
	}
	if !slices.ContainsFunc(m.Pictures, func(p picture) bool { return p.Top() > 0 }) {
		m.Pictures = nil
	}
}
