package translate_test

import (
	"testing"

	"billbridge/translate"
)

// A table of which an overlay has removed rows and keys, shared ones too, can be written and read again.
func TestWrittenWithoutWhatWasRemoved(t *testing.T) {
	t.Parallel()
	const rows = "operations: {bill.create: {request: {bill.message: null, member: null, apiKey: {code: null}}, reply: {shortUrl: {role: null}}}}"
	written(t, overlaid(t, rows))
}

// A read that only one form has goes to the default upstream, as the writes that it reads back.
func TestReadsOfOneFormGoToTheDefault(t *testing.T) {
	t.Parallel()
	for name, byStage := range map[string]bool{"mapping.list": false, "bill.read": true, "bill.create": false} {
		equal(t, shipped().Operation(name).ByStage(), byStage, name)
	}
}

// A callback takes a row of a reply as the overlays have left it.
func TestCallbackTakesARowAsItIsNow(t *testing.T) {
	t.Parallel()
	table := overlaid(t, "operations: {bill.read: {reply: {+x: {v2: null, legacy: x, fill: $member}}}}",
		"operations: {bill.read: {reply: {x: {v2: x, fill: null}}}}")
	fields := table.Callback.Fields()
	equal(t, fields[len(fields)-1].Class, translate.Exact)
}
