package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/translate"
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

// The version is that of what the table says, in whatever way it is written: as the printed table, too.
func TestVersionsOfThePrintedTable(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "operations: {bill.create: {hash: {of: [bill.billId, bill.price]}}}")
	text, err := table.YAML()
	must(t, err)
	printed, err := translate.Compile(32, translate.File{Name: "printed.yaml", Data: text})
	must(t, err)
	for _, o := range table.Operations() {
		equal(t, printed.Operation(o.Name).Version(), o.Version(), o.Name)
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

// Rows of lists count as other rows do, without their descriptions.
func TestVersionWithLists(t *testing.T) {
	t.Parallel()
	const overlay = "operations: {order.add: {request: [%s]}}"
	version := func(row string) string {
		return orderTable(t, fmt.Sprintf(overlay, row)).Operation("order.add").Version()
	}
	same := orderTable(t).Operation("order.add").Version()
	equal(t, version("{old: nums, new: numbers, about: numbers}"), same)
	if version("{old: nums, new: numbers, as: null}") == same {
		t.Error("a changed list has the same version")
	}
}
