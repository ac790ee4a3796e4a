package translate_test

import (
	"strings"
	"testing"
)

// A table of one's own refuses a request with a field that it does not have, unless it says otherwise.
func TestUnknownFieldsOfATableOfOnesOwnAreRefused(t *testing.T) {
	t.Parallel()
	text := strings.Replace(parcels, "unknown: {request: drop} # a field without a row is dropped and counted\n", "", 1)
	table := compiled(t, text)
	call := table.Operation("parcel.send").Translation("plain", "boxed").Start()
	defer call.Release()
	if out, err := call.Request(nil, []byte(`{"addressee":"Kim","parcels":[1]}`)); err == nil {
		t.Errorf("sent without its parcels: %s", out)
	}
}
