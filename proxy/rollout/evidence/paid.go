package evidence

import (
	"bytes"
	"crypto/sha256"

	"billbridge/proxy/partner"
	"billbridge/translate"
)

// A billKey is a hash of a partner and a bill.
type billKey [16]byte

func keyOf(partner partner.ID, bill string) billKey {
	sum := sha256.Sum256([]byte(string(partner) + " " + bill))
	return billKey(sum[:])
}

// A created is a bill that was read back unpaid: it is compared once more when it is paid.
type created struct{ operation, amount string }

// maxUnpaid is the number of bills that are kept until they are paid, in the memory of this gateway. A few paid ones
// are enough.
const maxUnpaid = 1 << 14

// keepUnpaid keeps a bill until it is paid. The lock is held.
func (s *Shadow) keepUnpaid(c Checked) {
	key := keyOf(c.Partner, c.Asked.Bill)
	if s.unpaid == nil {
		s.unpaid = map[billKey]created{}
	}
	if _, known := s.unpaid[key]; !known {
		s.oldest = append(s.oldest, key)
	}
	s.unpaid[key] = created{c.Operation, c.Asked.Amount}
	if len(s.oldest) > maxUnpaid {
		delete(s.unpaid, s.oldest[0])
		s.oldest = s.oldest[1:]
	}
}

// AwaitsPaid reports whether CheckPaid would compare the bill if it is paid.
func (s *Shadow) AwaitsPaid(partner partner.ID, bill string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.unpaid[keyOf(partner, bill)]
	return ok
}

// CheckPaid compares a bill that Check has read back, and that a read of the partner has shown paid, with its create
// and with another read, once, in the background. It does not wait. If there is no place, the next read of the
// partner can do it. c.Asked needs the bill alone, and c.Operation is not used. Shadow copies the bytes of paid.
func (s *Shadow) CheckPaid(c Checked, paid Answer) (taken bool) {
	key, held := keyOf(c.Partner, c.Asked.Bill), int64(len(paid.Body)+len(paid.Request))+mostShown
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.unpaid[key]
	if !ok || !s.take(held) {
		return false
	}
	delete(s.unpaid, key)
	paid.Body, paid.Request = bytes.Clone(paid.Body), bytes.Clone(paid.Request)
	c.Asked.Amount = made.amount
	s.begin(held, c.ID, c.At, c.Partner, made.operation, s.read, func(ignore []string) Comparison {
		again, err := c.Show(s.run, mostShown)
		if err != nil {
			return Comparison{Class: NoAnswer, Succeeded: [2]bool{true, true}, ReadBack: true}
		}
		return comparePaid(c.Read, c.Asked, paid, again, ignore)
	})
	return true
}

// comparePaid compares two answers about a paid bill with its create and with each other. An approval does not
// change, so that two answers of one backend with another number, time or amount are a difference, whichever is
// wrong.
func comparePaid(op *translate.Operation, asked Created, first, again Answer, ignore []string) Comparison {
	if c := compareCreated(op, asked, first); c.Class != Same {
		return c
	}
	c := compareCreated(op, asked, again)
	if c.Class != Same || !c.Paid {
		return c
	}
	for _, d := range compareFacts(op.Table(), read(op, first, false), read(op, again, false), ignore) {
		if d.Kind.grave() {
			c.Class, c.Differences = Differs, append(c.Differences, d)
		}
	}
	return c
}
