package sandbox

import "errors"

var errNotACopy = errors.New("the other service has created a bill with this id")

// copyBills passes changed bills on to Options.CopyTo.
func (st *store) copyBills(changed []*Bill) {
	if st.copyTo == nil {
		return
	}
	for _, b := range changed {
		if err := st.copyTo.takeCopy(*b); err != nil {
			st.log.Error("a bill was not copied", "bill", b.ID, "err", err)
		}
	}
}

// takeCopy stores a bill of another service, as it is there now.
func (s *Service) takeCopy(b Bill) error {
	b.CallbackURL, b.Copied = "", true
	return s.store.update(func(t *tables) error {
		if before := t.bills.get(b.key()); before != nil && !before.Copied {
			return errNotACopy
		}
		t.bills.put(b)
		return nil
	})
}
