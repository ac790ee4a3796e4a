package translate_test

import (
	"errors"
	"strings"
	"testing"

	"billbridge/translate"
)

// Each form can have a code of its own for a success. The code of the other form is unusable: the client could take it for a success.
func TestCodeOfASuccessInEachForm(t *testing.T) {
	t.Parallel()
	table := overlaid(t, `success: {code: {v2: "0000", legacy: "00"}}`)
	codes := map[translate.Form]string{"v2": "0000", "legacy": "00"}
	for _, client := range forms {
		for _, upstream := range forms {
			call := table.Operation("bill.destroy").Translation(client, upstream).Start()
			if _, err := call.Request(nil, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			for _, code := range []string{"0000", "00", "BILL_003"} {
				out, err := call.Reply(nil, 200, []byte(`{"code":"`+code+`"}`))
				switch {
				case code == "BILL_003":
					if err != nil || call.Succeeded() || !strings.Contains(string(out), `"BILL_003"`) {
						t.Errorf("%s to %s: %s became %s, %v", upstream, client, code, out, err)
					}
				case code == codes[upstream]:
					if err != nil || !call.Succeeded() || call.Code() != "0000" || !strings.HasPrefix(string(out), `{"code":"`+codes[client]+`"`) {
						t.Errorf("%s to %s: %s became %s %q, %v", upstream, client, code, out, call.Code(), err)
					}
				case client == upstream && client == "v2": // to v2 clients 00 is a refusal like any other
					if err != nil || call.Succeeded() {
						t.Errorf("%s to %s: %s became %s, %v", upstream, client, code, out, err)
					}
				default:
					if unusable := (*translate.UnusableReply)(nil); !errors.As(err, &unusable) || call.Code() != "" {
						t.Errorf("%s to %s: %s became %s, %v", upstream, client, code, out, err)
					}
				}
			}
			call.Release()
		}
	}
}

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
