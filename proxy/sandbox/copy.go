package sandbox

import "errors"

var errNotACopy = errors.New("the other service already has a bill of its own with this id")

// copyBills sends changed bills to Options.CopyTo.
func (st *store) copyBills(changed []*Bill) {
	if st.opt.CopyTo == nil {
		return
	}
	for _, b := range changed {
		if err := st.opt.CopyTo.takeCopy(*b); err != nil {
			st.opt.Log.Error("a bill was not copied", "bill", b.ID, "err", err)
		}
	}
}

// takeCopy stores a copy of a bill of another service.
func (s *Service) takeCopy(b Bill) error {
	b.CallbackURL, b.Copied = "", true
	return s.update(func(t *tables) error {
		if before := t.Bills.get(b.key()); before != nil && !before.Copied {
			return errNotACopy
		}
		t.Bills.put(b)
		return nil
	})
}
