// Package translate turns JSON of one form into JSON of another, both ways, from one declarative table.
//
// A table names two forms and, per operation, which field of the one is which field of the other. It is
// compiled once into an immutable [Table]; a [Translation] of it is one operation between a client's form and an
// upstream's form, and a [Call] carries one exchange over that translation: first the request, then its reply.
//
//	table, err := translate.Compile(32, billing.Table())
//	translation := table.Operation("bill.read").Translation("legacy", "v2")
//	call := translation.Start()
//	defer call.Release()
//	toUpstream, err := call.Request(nil, body)         // *Refusal: what the client is told, nothing was sent
//	toClient, err := call.Reply(nil, 200, replyBody)   // *NoAnswer: no readable code, the outcome is unknown
//
// Requests are strict: a field that cannot be carried exactly is refused with a code and its name. Replies are
// lenient: a value that does not fit its documented type passes as it is and is counted in the [Report].
// Numbers and strings move as the raw text they came as; nothing is rounded, trimmed, padded or re-printed.
// The output is built from the table alone, so a field that no row names gets in only where the table says so.
//
// The engine knows nothing of billing and does no I/O. A table declares roles, such as "amount"; callers ask for the value of a
// role ([Call.Value]), and for what a code or a state means ([Table.Means], [Call.ReplyMeaning]). The billing table and the names
// by which the gateway asks it are in package billing.
package translate
