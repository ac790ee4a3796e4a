package operate

import (
	"context"

	"billbridge/proxy/routing"
	"billbridge/proxy/store"
)

// A StageCount is the number of partners in a stage.
type StageCount struct {
	Stage  routing.Stage `json:"stage"`
	Number int           `json:"number"`
}

// StageCounts returns how many of the partners that were seen, or have a stage of their own, are in each stage.
func (o *Operator) StageCounts(ctx context.Context, _ struct{}) (all []StageCount, err error) {
	decided, err := o.decided(ctx)
	if err != nil {
		return nil, err
	}
	var seen []store.SeenPartner
	if o.Store != nil {
		if seen, err = o.Store.SeenPartners(ctx, store.AllPartners); err != nil {
			return nil, err
		}
	}
	numbers := map[routing.Stage]int{}
	for _, one := range o.statuses(decided, "", store.AllPartners, seen, nil) {
		numbers[one.Stage]++
	}
	for _, stage := range routing.StagesWith(o.Rollout.Settings().Config.Bills) {
		all = append(all, StageCount{stage, numbers[stage]})
	}
	return all, nil
}
