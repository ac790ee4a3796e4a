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
	Of       int                // partners
	Waves    []operate.WaveInfo // that have not ended
	Pictures []picture
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
	if o.Store != nil {
		m.Waves = askNext(r, &err, o.Waves, operate.WaveFilter{Active: true})
	}
	for _, s := range stages {
		m.Of += s.Number
	}
	x := 0.
	for _, s := range stages {
		wide := 100 * float64(s.Number) / float64(max(m.Of, 1))
		m.Stages = append(m.Stages, stageBar{s.Stage, s.Number, x, wide})
		x += wide
	}
	return m, err
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
