package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"

	"billbridge/config"
	"billbridge/proxy/store"
)

// Count counts how a call ended that Route routed.
func (r *Router) Count(c Call, w Route, end evidence.End) {
	backend, ok := r.current.Load().backend(w.Upstream)
	if !ok || c.Partner == "" {
		return
	}
	end.Creates, end.Merchant = c.Creates, c.Merchant
	r.counts.Ended(c.Partner, c.Operation, backend, end)
}

// flush adds the counts of this replica to those in the store. When ctx ends it returns, but the write that has begun is not
// cancelled before Close: only after its end it is known which counts were not added and are kept for the next flush. A cancelled write might
// have been added, and would be counted again.
func (r *Router) flush(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	select {
	case r.flushing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the counts are still being stored: %w", context.Cause(ctx))
	}
	ended := make(chan error, 1) // the result may not be received
	go func() {
		err := r.keep(r.keeping)
		<-r.flushing
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the counts are still being stored: %w", context.Cause(ctx))
	}
}

// keep adds the counts of this replica to the store. It must not run twice at once.
func (r *Router) keep(ctx context.Context) error {
	counted := r.counts.Drain()
	counted.Sort() // as the store takes them
	r.lost.Add(int64(counted.Lost))
	counted.Lost = 0
	// Each operation has its own version, so that a change of the table starts only the counts of the operations that it changes.
	slices.SortStableFunc(counted.Counts, func(a, b evidence.Count) int { return strings.Compare(a.Operation, b.Operation) })
	for len(counted.Counts) > 0 {
		operation := counted.Counts[0].Operation
		others := slices.IndexFunc(counted.Counts, func(n evidence.Count) bool { return n.Operation != operation })
		if others < 0 {
			others = len(counted.Counts)
		}
		added, err := r.add(ctx, r.operations(counted.Table)[operation], counted.Counts[:others])
		counted.Counts = counted.Counts[added:]
		if err != nil {
			_ = r.counts.Merge(counted) // it fails if the table has changed, and these counts are not needed then
			return err
		}
	}
	return nil
}

// operations are the versions of the operations of a table, by their names.
func (r *Router) operations(table string) map[string]string {
	versions, _ := r.tables.Load(table)
	byName, _ := versions.(map[string]string)
	return byName
}

// add adds counts of one operation to the store.
func (r *Router) add(ctx context.Context, version string, counts []evidence.Count) (added int, err error) {
	more := make([]store.Counts, len(counts))
	for i, n := range counts {
		data, err := json.Marshal(n)
		if err != nil {
			return 0, err
		}
		more[i] = store.Counts{Partner: n.Partner, Operation: n.Operation, Data: data, Marked: n.Marked()}
	}
	return r.store.AddCounts(ctx, version, more, r.now(), func(have, more []byte) ([]byte, error) {
		var n, m evidence.Count
		if err := json.Unmarshal(have, &n); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(more, &m); err != nil {
			return nil, err
		}
		n.Merge(m)
		return json.Marshal(n)
	})
}

// counted is what all replicas counted by the table in use, of one partner, or of all for "". The last seconds of other replicas may
// be missing.
func (r *Router) counted(ctx context.Context, partner partner.ID) (evidence.Snapshot, error) {
	if r.store == nil {
		return r.unstored(partner), nil
	}
	keep, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	if err := r.flush(keep); err != nil {
		return evidence.Snapshot{}, err
	}
	return r.fromStore(ctx, r.counts.Table(), store.AllPartners.Of(partner))
}

// ofAllTables is what was counted of the partners of a range by any version of the table: with the last seconds of this replica, but
// not of others.
func (r *Router) ofAllTables(ctx context.Context, in store.Range) (evidence.Snapshot, error) {
	counted := r.unstored("")
	counted.Counts = slices.DeleteFunc(counted.Counts, func(n evidence.Count) bool { return !in.Has(n.Partner) })
	if r.store == nil {
		return counted, nil
	}
	return r.fromStore(ctx, "", in, counted.Counts...)
}

// markedCounts returns the marked counts of all partners, of all versions of the table (see [evidence.Count.Marked]). It does not read
// other counts, because an operator can be waiting for the kill switch.
func (r *Router) markedCounts(ctx context.Context) (evidence.Snapshot, error) {
	unstored := r.unstored("").Counts // before the store: counts that are stored meanwhile can occur twice, but are not missed
	rows, err := r.store.MarkedCounts(ctx)
	if err != nil {
		return evidence.Snapshot{}, err
	}
	return r.merged("", rows, unstored)
}

// unstored is what this replica counted that is not in the store yet.
func (r *Router) unstored(partner partner.ID) evidence.Snapshot {
	s := r.counts.Snapshot()
	s.Counts = slices.DeleteFunc(s.Counts, func(n evidence.Count) bool { return partner != "" && n.Partner != partner })
	return s
}

// fromStore is what the store has for the operations of a table, or for all versions of them for "", merged with more.
func (r *Router) fromStore(ctx context.Context, table string, in store.Range, more ...evidence.Count) (evidence.Snapshot, error) {
	versions := []string{""}
	if table != "" {
		versions = slices.Collect(maps.Values(r.operations(table)))
	}
	var rows []store.Counts
	for _, version := range versions {
		some, err := r.store.CountsIn(ctx, version, in)
		if err != nil {
			return evidence.Snapshot{}, err
		}
		rows = append(rows, some...)
	}
	return r.merged(table, rows, more)
}

// merged returns rows of the store, merged with more.
func (r *Router) merged(version string, rows []store.Counts, more []evidence.Count) (evidence.Snapshot, error) {
	s := evidence.NewSnapshot(version, r.now().UTC().Truncate(time.Second))
	s.Lost = int(r.lost.Load())
	for _, row := range rows {
		var n evidence.Count
		if err := json.Unmarshal(row.Data, &n); err != nil {
			return evidence.Snapshot{}, fmt.Errorf("the counts of %s of %s: %w", row.Operation, row.Partner.Short(), err)
		}
		if n.Since.Before(s.Since) {
			s.Since = n.Since
		}
		s.Merge(n)
	}
	for _, n := range more {
		s.Merge(n)
	}
	s.Sort()
	return s, nil
}

// report is for GET /rollout/report.
func (r *Router) report(ctx context.Context, query string) (answer Report, err error) {
	q, err := parseQuery(query, "partner")
	if err != nil {
		return answer, err
	}
	only, err := r.oneOrAll(ctx, q)
	if err != nil {
		return answer, err
	}
	decided, err := r.all(ctx)
	if err != nil {
		return answer, err
	}
	partnerStatuses, uncounted, err := r.partnerStatuses(ctx, decided, only, store.AllPartners)
	if err != nil {
		return answer, err
	}
	counted, err := r.counted(ctx, only)
	if err != nil {
		return answer, err
	}
	answer = newReport(counted, r.limits(), r.now(), partnerStatuses)
	for i := range answer.Verdicts {
		answer.Verdicts[i].Name = r.name(answer.Verdicts[i].Partner)
	}
	answer.Uncounted, answer.Ignored = uncounted.String(), r.current.Load().config.Shadow.Ignore
	return answer, nil
}

func (r *Router) limits() evidence.Limits {
	c := r.current.Load().config
	v := c.Verdict
	if v.Paid == 0 {
		v.Paid = -1 // in Limits 0 is the default
	}
	return evidence.Limits{Comparisons: v.Comparisons, Bills: v.Bills, Paid: v.Paid, Mismatch: float64(v.Mismatch), Unclear: float64(v.Unclear), Shared: c.Bills == config.Shared}
}
