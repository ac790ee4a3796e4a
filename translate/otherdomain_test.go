package translate_test

import (
	"testing"

	"billbridge/translate"
)

// The package knows nothing of billing: a table of another domain has its own roles, meanings and rules.
func TestTableOfAnotherDomain(t *testing.T) {
	t.Parallel()
	table := tableOf(t, "library")
	reserve := table.Operation("book.reserve")
	if value, means := reserve.Sets("shelf"); reserve.Created != "book" || value != "L" || means != "lent" || !table.Operation("book.find").HasRole(translate.Reply, "shelf", "desk", "phone") {
		t.Errorf("%q %q %q", reserve.Created, value, means)
	}
	// The prefix of the first form can be longer than that of the other.
	swapped := tableOf(t, "library", "forms: {desk: {prefix: /longer/}}")
	for path, form := range map[string][2]translate.Form{
		"/tel/x": {"phone", "phone"}, "/tel": {"desk", "desk"}, "/reserve": {"desk", "desk"}, "/telephone/x": {"desk", "desk"}, "/longer/x": {"desk", "desk"},
	} {
		equal(t, [2]translate.Form{table.FormOf(path), swapped.FormOf(path)}, form, path)
	}
	if !table.Means("phone", "404", translate.NotFound) || table.Means("desk", "404", translate.NotFound) || !table.Means("desk", "NO_BOOK", translate.NotFound) {
		t.Error("404 is a code of the phone, NO_BOOK of both")
	}
}
