package translate_test

import (
	"fmt"
	"testing"

	"billbridge/translate"
)

// A form that the table does not have is an error. Functions without an error return nothing.
func TestUnknownForms(t *testing.T) {
	t.Parallel()
	table, none := shipped(), translate.Form("v3")
	callback, read := table.Callback(), table.Operation("bill.read")
	const want = `the table has no form "v3", only v2 and legacy`
	_, _, translated := callback.Translate(nil, []byte(`{}`), none, "v2")
	_, _, to := callback.Translate(nil, []byte(`{}`), "v2", none)
	for _, err := range []error{translated, to, callback.Explain([]byte(`{}`), none, "v2").Err} {
		equal(t, fmt.Sprint(err), want)
	}
	if _, err := read.Compose(nil, none, nil); err == nil {
		t.Error("a request in no form was composed")
	}
	equal(t, fmt.Sprint(table.Unknown(translate.Request, none), table.TextName(none), table.SuccessCode(none), string(table.AppendFailure(nil, none, "ERROR", "x")),
		table.FailureStatus(none, "ERROR", 503), table.WordsWithoutPairs(none), callback.Answer(none), callback.Succeeded(none, 200, []byte(`{"code":"0000"}`)),
		callback.AnsweredCode(none, []byte(`{"code":"0000"}`)), read.Path(none), read.Translation(none, "v2") == nil, read.PathOf(translate.Reply, "state", none),
		read.HasRole(translate.Reply, "state", none), table.Means(none, "BILL_003", translate.NotFound), table.Unpaired(none, "x"), table.Code("BILL_003", none, "v2"),
		table.Code("BILL_003", "v2", none)), "503 [] [] falsetruefalse false falseBILL_003BILL_003")
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
