package translate_test

import (
	"testing"
)

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
