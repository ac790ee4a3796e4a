package translate_test

import (
	"strings"
	"testing"
)

// Whatever changes a message of an operation, or what it says, changes its version: what was counted before does not count.
// An overlay without effect, or with one on another operation, does not.
func TestVersionOfAnOperation(t *testing.T) {
	t.Parallel()
	type row struct{ Name, Overlay, Changed string } // the operations with another version, of these three
	for _, row := range cases[row](t, "version") {
		table := overlaid(t, row.Overlay)
		var changed []string
		for _, o := range []string{"bill.create", "bill.read", "bill.resend"} {
			if table.Operation(o).Version() != shipped().Operation(o).Version() {
				changed = append(changed, o)
			}
		}
		equal(t, strings.Join(changed, " "), row.Changed, row.Name)
	}
}

// Of several statuses with one code the first is written, so their order is no order of keys.
func TestVersionHasTheOrderOfStatuses(t *testing.T) {
	t.Parallel()
	one := overlaid(t, "forms: {v2: {status: {404: BILL_003, 410: BILL_003}}}").Operation("bill.read").Version()
	if one == overlaid(t, "forms: {v2: {status: {410: BILL_003, 404: BILL_003}}}").Operation("bill.read").Version() {
		t.Error("another first status has the same version")
	}
}
