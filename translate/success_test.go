package translate_test

import (
	"errors"
	"strings"
	"testing"

	"billbridge/translate"
)

// The code that one upstream has for a success is replaced by that of its form, and nothing else.
func TestNormaliseSuccess(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		`{"code":"00","msg":"ok","code2":"00"}`:    `{"code":"0000","msg":"ok","code2":"00"}`,
		` { "data":{"code":"00"}, "code" : "00" }`: ` { "data":{"code":"00"}, "code" : "0000" }`,
		`{"c\u006fde":"\u0030\u0030"}`:             `{"c\u006fde":"0000"}`,
		`{"code":"BILL_001","bill":"00"}`:          `{"code":"BILL_001","bill":"00"}`,
		`{"code":0}`:                               `{"code":0}`,
		`{"apikey":"k","bill_id":"00"}`:            `{"apikey":"k","bill_id":"00"}`,
		`["00"]`:                                   `["00"]`,
		`{"code":"00"`:                             `{"code":"00"`,
		`{"code":"0000"}`:                          "",
	} {
		got, err := shipped().NormaliseSuccess("legacy", "00", []byte(reply))
		if unusable := (*translate.UnusableReply)(nil); string(got) != want || (want == "") != errors.As(err, &unusable) {
			t.Errorf("%s became %s, %v", reply, got, err)
		}
	}
	for code, ok := range map[string]bool{"00": true, "0000": true, "OK": true, "BILL_001": false, "9980": false, "PAYMENT_001": false} {
		if err := shipped().CheckSuccess("legacy", code); (err == nil) != ok {
			t.Errorf("%s: %v", code, err)
		}
	}
}

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
