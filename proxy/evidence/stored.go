package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// Stored are the counts of all replicas: those in the store, and those of this replica that are not in the store yet.
// It is safe for concurrent use.
type Stored struct {
	*Counts // of this replica, not in the store yet
	store   *store.Store
	limits  Limits

	keeping  context.Context // ends when Close gives up
	giveUp   context.CancelFunc
	flushing chan struct{} // holds one: a flush begins after the one before has put back what it could not add

	decoding sync.Mutex        // of decoded
	decoded  map[place]decoded // what was read last; nothing changes a count in it
}

// A decoded count has the digest of the data that it was decoded from: to decode the counts of hundreds of partners
// takes longer than all else for a page.
type decoded struct {
	from [sha256.Size]byte
	Count
}

// NewStored returns the counts in a store. If it is nil, only those of this replica are counted, and are lost at exit.
func NewStored(s *store.Store, now func() time.Time) *Stored {
	t := &Stored{Counts: NewCounts("", now), store: s, flushing: make(chan struct{}, 1)}
	t.keeping, t.giveUp = context.WithCancel(context.Background())
	return t
}

// Use takes the table and the limits of a config. What was counted with another table does not count for it.
func (t *Stored) Use(c *config.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table, t.has = c.Table.Version, c.Table.Operation
	v := c.Rollout.Verdict
	t.limits = Limits{
		v.Comparisons, v.Bills, v.Paid, float64(v.Mismatch), v.Unclear,
		c.Table.Envelope(c.Table.Forms()[0]).Success,
	}
}

// Limits returns the limits of verdicts, by the config in force.
func (t *Stored) Limits() Limits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limits
}

// closeWithin bounds a flush at the end of the process.
const closeWithin = 4 * time.Second

// Close stores the counts. If that takes too long, it gives up: a connection without an answer must not delay the end
// of the process.
func (t *Stored) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	err := t.Flush(ctx)
	if err != nil {
		t.giveUp()
	}
	return err
}

// Flush adds the counts of this replica to those in the store. When ctx ends it returns, but the write that has begun
// is not cancelled before Close: only after its end it is known which counts were not added and are kept for the next
// flush. A cancelled write might have been added, and would be counted again.
func (t *Stored) Flush(ctx context.Context) error {
	if t.store == nil {
		return nil
	}
	ended := make(chan error, 1) // the result may not be received
	select {
	case t.flushing <- struct{}{}:
		go func() {
			ended <- t.flush(t.keeping)
			<-t.flushing
		}()
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the counts are still being stored: %w", context.Cause(ctx))
	}
}

// flush adds the counts of this replica to the store. It must not run twice at once.
func (t *Stored) flush(ctx context.Context) (err error) {
	all := t.Drain()
	left := all
	for len(left) > 0 && err == nil {
		added := slices.IndexFunc(left, func(n Count) bool { return n.Version != left[0].Version })
		if added < 0 {
			added = len(left)
		}
		added, err = t.add(ctx, left[0].Version, left[:added])
		left = left[added:]
	}
	t.Return(all[:len(all)-len(left)])
	return err
}

// add adds counts of one version of the table to the store.
func (t *Stored) add(ctx context.Context, version string, counts []Count) (added int, err error) {
	more := make([]store.Counts, len(counts))
	for i, n := range counts {
		data, err := json.Marshal(n)
		if err != nil {
			return 0, err
		}
		more[i] = store.Counts{Partner: n.Partner, Operation: n.Operation, Data: data, Marked: n.Marked()}
	}
	return t.store.AddCounts(ctx, version, more, t.now(), MergeStored)
}

// MergeStored merges the data of two counts of an operation, as the store has it. What cannot be read stays until it is
// reset: an error would hold up the counts of all partners, and without it nobody would know that counts are missing.
func MergeStored(have, more []byte) ([]byte, error) {
	var n, m Count
	if json.Unmarshal(have, &n) != nil {
		return have, nil
	}
	if json.Unmarshal(more, &m) != nil {
		return more, nil
	}
	n.merge(m)
	return json.Marshal(n)
}

// Of returns what all replicas counted by the table in use, of some partners, or of all for nil or "". The last seconds
// of other replicas may be missing. It waits as long as ctx lasts: with hundreds of busy partners a flush takes seconds
// at a slow store, and a wave makes no step without it.
func (t *Stored) Of(ctx context.Context, ids ...partner.ID) ([]Count, error) {
	all := ids == nil || slices.Contains(ids, "")
	if t.store == nil {
		other := func(n Count) bool { return !all && !slices.Contains(ids, n.Partner) }
		return slices.DeleteFunc(t.Snapshot(), other), nil
	}
	if err := t.Flush(ctx); err != nil {
		return nil, err
	}
	if all {
		ids = nil
	}
	rows, err := t.store.Counts(ctx, store.CountsFilter{Version: t.Table(), Of: ids})
	return t.readCounts(rows), err
}

// Marked returns the marked counts of all partners, of all versions of the table (see [Count.Marked]). It does
// not read other counts, because an operator can be waiting for the kill switch.
func (t *Stored) Marked(ctx context.Context) (all []Count, err error) {
	unstored := t.unstored() // before the store is read: what is stored meanwhile can occur twice, but is not missed
	var rows []store.Counts
	if t.store != nil {
		rows, err = t.store.Counts(ctx, store.CountsFilter{Marked: true})
	}
	return t.readCounts(rows, unstored...), err
}

// decode returns the count in a row.
func (t *Stored) decode(row store.Counts) (n Count, err error) {
	at, from := place{row.Partner, row.Operation, ""}, sha256.Sum256(row.Data)
	t.decoding.Lock()
	defer t.decoding.Unlock()
	if was, ok := t.decoded[at]; ok && was.from == from {
		return was.Count, nil
	}
	if err = json.Unmarshal(row.Data, &n); err != nil {
		return n, err
	}
	if t.decoded == nil || len(t.decoded) >= maxCounts {
		t.decoded = map[place]decoded{}
	}
	t.decoded[at] = decoded{from, n}
	return n, nil
}

// readCounts returns rows of the store, merged with more, whatever the version of the table.
func (t *Stored) readCounts(rows []store.Counts, more ...Count) []Count {
	all := countSet{}
	for _, row := range rows {
		n, err := t.decode(row)
		if err != nil {
			n = Count{Operation: row.Operation, Since: row.Added, Unread: fmt.Errorf(
				"the counts of %s of %s cannot be read: %w", row.Operation, row.Partner.Short(), err)}
		}
		n.Partner, n.Last = row.Partner, row.Added // what was counted of a further key of the partner has the key
		all.merge(n)
	}
	for _, n := range more {
		n.Version = ""
		all.merge(n)
	}
	return all.sorted()
}
