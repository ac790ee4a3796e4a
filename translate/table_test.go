package translate_test

import (
	"slices"
	"testing"

	"billbridge/translate"
)

// Only a path of the table, in the form of the client, may be logged.
func TestHasRequestField(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]bool{ // from v2, from legacy
		"apiKey": {true, false}, "apikey": {false, true}, "bill": {true, true}, "bill.price": {true, true}, "bill.tax": {true, false},
		"": {false, false}, "bill.": {false, false}, "bil": {false, false}, "bill.pri": {false, false}, "010-0000-0000": {false, false},
	} {
		for i, from := range forms {
			equal(t, shipped().Operation("bill.create").Translation(from, "v2").HasRequestField(path), want[i], path,
				from)
		}
	}
	for path, want := range map[string]bool{
		"rows[0].what": true, "rows[10000].what": true, "rows": true,
		"rows[].what": false, "rows[]": false, "rows[01].what": false, "rows[1012345678]": false,
	} {
		equal(t, orderTable(t).Operation("order.add").Translation("old", "new").HasRequestField(path), want, path)
	}
}

// A call checks a second reply by itself: the fields that show a success cannot come from two replies.
func TestSecondReplyIsCheckedAlone(t *testing.T) {
	t.Parallel()
	for _, client := range forms {
		call := shipped().Operation("bill.read").Translation(client, "legacy").Start()
		asked := map[translate.Form]string{"legacy": `{"bill_id":"1"}`, "v2": `{"bill":{"billId":"1"}}`}[client]
		if _, err := call.Request(nil, []byte(asked)); err != nil {
			t.Fatal(err)
		}
		if _, err := call.Reply(nil, 200, []byte(`{"bill_id":"1","msg":"x"}`)); err == nil {
			t.Error("a reply without a state is a success")
		}
		if out, err := call.Reply(nil, 200, []byte(`{"appr_state":"F"}`)); err == nil {
			t.Errorf("two replies together are a success: %s", out)
		}
		if _, err := call.Request(nil, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		if out, err := call.Reply(nil, 200, []byte(`{"bill_id":"1","appr_state":"F"}`)); err == nil {
			t.Errorf("a success by the request before: %s", out)
		}
		call.Release()
	}
}

// A report keeps a limited number of unknown names.
func TestUnknownNamesAreBounded(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"apikey":"k"`)
	for i := range 1000 {
		doc = append(doc, `,"`+string(rune('가'+i))+`":1`...)
	}
	call := shipped().Operation("bill.read").Translation("legacy", "v2").Start()
	defer call.Release()
	if _, err := call.Request(nil, append(doc, '}')); err != nil {
		t.Fatal(err)
	}
	if call.Report.Unknown != 1000 || len(call.Report.UnknownNames) != 16 || !slices.Contains(call.Report.UnknownNames, "각") {
		t.Errorf("%d unknown, names %q", call.Report.Unknown, call.Report.UnknownNames)
	}
}
