package console

import (
	"net/http"
	"net/url"

	"billbridge/proxy/operate"
	"billbridge/proxy/routing"
)

// A moveHead is what a change of the rollout is about: a partner as in the address, "" for stop and resume; with set a
// stage that the visitor chose.
type moveHead struct {
	operate.Move
	Stages []routing.Stage
}

// move decides about the stage of a partner, or about the kill switch.
func (c *Console) move(do string) handler {
	return func(r *http.Request) (answer, error) {
		m := operate.Move{PartnerRef: operate.PartnerRef{Partner: r.PathValue("partner")}, Do: do}
		d := decision{Of: "move", Fields: url.Values{}}
		if m.Partner == operate.Default {
			d.Back = "/partners"
		}
		switch stage := r.FormValue("stage"); {
		case do == "unset":
			m.Stage = operate.Unset
		case do == "set":
			d.Fields.Set("stage", stage)
			if stage == string(routing.StageCanary) {
				d.Fields.Set("percent", r.FormValue("percent"))
			}
		}
		return d.decide(r, func() error {
			err := operate.Decode(without(d.Fields), &m)
			d.Head = moveHead{m, c.stages()}
			if d.Nothing = do == "set" && m.Stage == ""; d.Nothing || err != nil {
				return err
			}
			m.Preview = true
			preview, err := c.change(r, m)
			d.About, d.Reasons, d.Nothing = preview, preview.Reasons, preview.Already
			d.Seen = url.Values{"from": {preview.Old()}, "to": {preview.New()}}
			if do == "next" { // to the stage that the visitor has seen, and to no other one
				m.Stage, m.Percent = routing.Stage(preview.To), preview.ToPercent
			}
			return err
		}, func(by operate.Decision) error {
			m.Switch = operate.Switch{Decision: by}
			changed, err := c.change(r, m)
			if changed.Unstored != "" {
				d.Result = changed.Unstored
			}
			return err
		})
	}
}

// change makes a change, or shows it.
func (c *Console) change(r *http.Request, m operate.Move) (operate.Change, error) {
	switch m.Do {
	case "stop":
		return ask(r, c.Operator.Stop, m.Switch)
	case "resume":
		return ask(r, c.Operator.Resume, m.Switch)
	}
	return ask(r, c.Operator.Move, m)
}

// stages are those that the page offers.
func (c *Console) stages() []routing.Stage {
	return routing.StagesWith(c.Operator.Rollout.Settings().Config.Bills)
}
