// Package translate translates JSON messages between two forms, in both directions, by one declarative table.
//
// A table names two forms, and those that are like one of them, and says, per operation, which field of one form is
// which field of the other. [Compile] compiles it into an immutable [Table]. A [Translation] is one operation between
// the form of a client and the form of an upstream. A [Call] translates one exchange: first the request, then the
// reply.
//
//	table, err := translate.Compile(32, translate.File{Name: "courier.yaml", Data: data})
//	translation := table.Operation("label.read").Translation("v1", "v2")
//	call := translation.Start()
//	defer call.Release()
//	toUpstream, err := call.Request(nil, body)         // *Refusal: send nothing, answer the client with it
//	toClient, err := call.Reply(nil, 200, replyBody)   // *UnusableReply: the outcome is unknown
//
// Requests are strict: a value that the other form cannot represent exactly is refused, with a code and the name of
// the field. Replies are lenient: a value that does not fit its documented type passes unchanged and is counted in
// the [Report]. Numbers and strings keep their raw text. Nothing is rounded, trimmed, padded or printed anew. The
// output is built from the table. A field that no row names is dropped, unless the table says unknown: pass.
//
// [Translation.ExplainRequest], [Translation.ExplainReply] and [Callback.Explain] translate a message and say what
// became of each field, and by which row of the table. They are for people who look at one message.
//
// A table can describe fields with other names, places, types and values, lists (10,000 items in a message), and
// other envelopes. The keys of a table are in README.md, and tables for three other interfaces are in examples.
//
// A form that is not one of the table's is an error. Functions without an error return nil, "" or false for it.
//
// The package does no I/O. A table declares roles, such as "amount". Callers ask for the value of a role ([Call.Value])
// and for the meaning of a code or a value ([Envelope.Means], [Call.ReplyMeaning]). An upstream that writes a form in
// another way has a form of its own, which is like that one ([Table.BackendForms]).
package translate
