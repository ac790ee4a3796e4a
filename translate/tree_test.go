package translate_test

import "testing"

// A table of which an overlay has removed rows and keys, shared ones too, can be written and read again.
func TestWrittenWithoutWhatWasRemoved(t *testing.T) {
	t.Parallel()
	const rows = "operations: {bill.create: {request: {bill.message: null, member: null, apiKey: {code: null}}, reply: {shortUrl: {role: null}}}}"
	written(t, overlaid(t, rows))
}
