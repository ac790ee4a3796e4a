package translate_test

import "testing"

// A read that only one form has goes to the default upstream, as the writes that it reads back.
func TestReadsOfOneFormGoToTheDefault(t *testing.T) {
	t.Parallel()
	for name, byStage := range map[string]bool{"mapping.list": false, "bill.read": true, "bill.create": false} {
		equal(t, shipped().Operation(name).ByStage(), byStage, name)
	}
}
