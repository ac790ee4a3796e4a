package store

import "context"

// An entry records the create of a bill that has no row, or the success of a create that is the only one of its bill.
// Nearly every create is like that, and nothing else of the row need be read. If the row is not like that, the entry
// changes nothing, and the create needs a transaction of its own.
type entry struct {
	Create         // the row after the entry
	estimated bool // its end
	completes bool // a create that was recorded before
	applied   bool // the row was as expected, and the entry is in the ledger
}

// record applies an entry, and reports whether the row was as expected.
func (s *Store) record(ctx context.Context, n *entry) (applied bool, err error) {
	err = s.engine.record(ctx, n)
	if err != nil || n.applied { // else a transaction of its own follows
		s.recent.observe(err)
	}
	if err != nil {
		doing := "recording the owner of a bill"
		if n.completes {
			doing = "recording how a create ended"
		}
		return false, failed(doing, err)
	}
	return n.applied, nil
}

// statement is what applies an entry. It changes one row, or none.
func (n *entry) statement() (statement string, args []any) {
	if n.completes {
		return `
			UPDATE billbridge_owners SET creates = '', state = 'owned', changed = $4
			WHERE partner = $1 AND bill = $2 AND creates = $3 AND state = 'pending' AND uncertain = 0 AND ends = $5
				AND tried = $6`,
			[]any{n.Partner, n.Bill, n.token, n.Changed, n.Ends, n.Tried}
	}
	return `
		INSERT INTO billbridge_owners (partner, bill, upstream, state, creates, uncertain, changed, tried, ends,
			estimated)
		VALUES ($1, $2, $3, 'pending', $4, 0, $5, $5, $6, $7) ON CONFLICT (partner, bill) DO NOTHING`,
		[]any{n.Partner, n.Bill, n.Upstream, n.token, n.Tried, n.Ends, n.estimated}
}

// apply applies an entry in a transaction.
func (n *entry) apply(q tx) {
	statement, args := n.statement()
	n.applied = q.exec(statement, args...) == 1
}
