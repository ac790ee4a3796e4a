package translate_test

import (
	"testing"

	"billbridge/translate"
)

// Nothing panics for a form that the table does not have. A failure is written in the first form then.
func TestUnknownForms(t *testing.T) {
	t.Parallel()
	table := shipped()
	read, c, none := table.Operation("bill.read"), table.Callback, translate.Form("none")
	envelope := table.Envelope(none)
	_, replaced := envelope.CodesOf("BILL_003")
	_, acknowledged := c.Answered(none, []byte(`{"code":"0000"}`))
	_, _, err := c.Translate(nil, []byte("{}"), none, "v2")
	equal(t, []any{
		read.Path(none), read.Translation(none, "v2") == nil, read.HasRole(translate.Reply, "state", none), read.PathOf(translate.Reply, "state", none),
		read.Schema(translate.Request, none).Type, c.Schema(none).Type, envelope.FailureSchema().Type, replaced, acknowledged, err != nil,
		string(c.Answer(none)), table.States("state").Of("F", none), envelope.Means("none", translate.NotFound), table.Code("9980", none, "v2"),
		table.Unpaired(none, "x"), len(table.WordsWithoutPairs(none)), table.PassThrough("x", none, "partner").Path(none), envelope.Text,
		string(envelope.AppendFailure(nil, "ERROR", "")), envelope.FailureStatus("ERROR", 400), table.SuccessCode(none), envelope.OtherCode,
	}, []any{
		"", true, false, "", nil, "object", "object", false, false, true, "", "", false, "9980", false, 0, "", "",
		`{"code":"ERROR","message":"","data":null}`, 400, "", "",
	})
}

// A reply can be translated without its request.
func TestReplyWithoutARequest(t *testing.T) {
	t.Parallel()
	call := shipped().Operation("bill.read").Translation("v2", "legacy").StartReply()
	out, err := call.Reply(nil, 200, []byte(`{"bill_id":"B1","appr_state":"F"}`))
	must(t, err)
	equal(t, string(out), `{"code":"0000","message":"성공하였습니다.","data":{"billId":"B1","apprState":"F"}}`)
	call.Release()
	call = shipped().Operation("bill.read").Translation("v2", "legacy").Start()
	defer call.Release()
	if _, err = call.Reply(nil, 200, []byte(`{"bill_id":"B1","appr_state":"F"}`)); err == nil {
		t.Error("a success without an envelope counts without a request")
	}
}
