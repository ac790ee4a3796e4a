package translate_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"billbridge/translate"
)

func orderTable(t testing.TB, overlays ...string) *translate.Table {
	t.Helper()
	return tableOf(t, "orders", overlays...)
}

// A message has at most 10000 items in all lists.
func TestItemsAreLimited(t *testing.T) {
	t.Parallel()
	o, c := orderTable(t).Operation("order.add"), orderTable(t).Callback
	items := func(item string) string { return strings.Repeat(item+",", 10_000) + item + "]" }
	for in, want := range map[string]string{
		`{"tags":[` + items(`"x"`) + `}`:                               `BAD tags[10000]: the lists of the message have more than 10000 items`,
		`{"rows":[{"subs":[` + strings.Repeat("{},", 9_999) + `{}]}]}`: `BAD rows[0].subs[9999]: the lists of the message have more than 10000 items`,
	} {
		_, err := o.Translation("old", "new").Start().Request(nil, []byte(in))
		equal(t, fmt.Sprint(err), want)
	}
	_, _, err := c.Translate(nil, []byte(`{"key":"k","no":"1","rows":[`+items("{}")+`}`), "old", "new")
	equal(t, fmt.Sprint(err), "BAD rows[10000]: the lists of the message have more than 10000 items")
	call := o.Translation("old", "new").StartReply()
	_, err = call.Reply(nil, 200, []byte(`{"code":"00","text":"ok","data":{"no":"1","lines":[`+items("{}")+`}}`))
	equal(t, fmt.Sprint(err), "unusable reply: the lists of the message have more than 10000 items")
	_, err = call.Reply(nil, 200, []byte(`{"code":"00","text":"ok","data":{"no":"1","lines":[`+strings.Repeat(`{"number":"x"},`, 9_999)+`{}]}}`))
	must(t, err)
	if n := len(call.Report.Mismatched); n > 100 {
		t.Errorf("%d fields are reported", n)
	}
}

// A call takes over the lists that another call has read, and both release them.
func TestListsOfACallThatAnotherHasRead(t *testing.T) {
	t.Parallel()
	o := orderTable(t).Operation("order.add")
	in := []byte(`{"rows":[{"what":"a"},{"what":"b"}],"phones":["1"]}`)
	first := o.Translation("old", "old").Start()
	must(t, first.Read(in))
	second := o.Translation("old", "new").StartWith(first)
	first.Release()
	out, err := second.Translate(nil)
	if want := `{"order":{"lines":[{"item":{"name":"a"},"unit":"piece"},{"item":{"name":"b"},"unit":"piece"}]},"recipients":[{"phone":"1"}]}`; err != nil || string(out) != want {
		t.Errorf("%s %v", out, err)
	}
	second.Release()
}

// Lists of two backends are compared in the first form, without fields that no row names.
func TestListsAreCompared(t *testing.T) {
	t.Parallel()
	o := orderTable(t, "unknown: {request: pass, reply: pass}").Operation("order.add")
	facts := func(client, upstream translate.Form, reply string) translate.Fact {
		call := o.Translation(client, upstream).Start()
		request := map[translate.Form]string{"old": `{"no":"1"}`, "new": `{"order":{"no":"1"}}`}[client]
		_, err := call.Request(nil, []byte(request))
		must(t, err)
		_, err = call.Reply(nil, 200, []byte(reply))
		must(t, err)
		for _, f := range call.Facts(true) {
			if f.Path == "rows" {
				return f
			}
		}
		t.Fatal("no fact")
		return translate.Fact{}
	}
	old := facts("old", "old", `{"rc":"00","rt":"x","no":"1","rows":[{"nr":"1","id":"a","zz":1}, {"id":"b","nr":"2"}]}`)
	for _, client := range []translate.Form{"old", "new"} {
		same := facts(client, "new", `{"code":"00","text":"x","data":{"no":"1","lines":[{"number":1,"id":"a","zz":"x"},{"number":2,"id":"b","extra":3}]}}`)
		other := facts(client, "new", `{"code":"00","text":"x","data":{"no":"1","lines":[{"number":1,"id":"a"},{"number":3,"id":"b"}]}}`)
		if !old.Alike(same) || old.Alike(other) || strings.Contains(same.JSON, "zz") {
			t.Errorf("%+v\n%+v\n%+v", old, same, other)
		}
	}
}

// oddName finds a name that is not plain.
var oddName = regexp.MustCompile(`"([^"]*[^A-Za-z0-9"][^"]*|)":|"[^"]{60,}":`)

// A report names at most 64 fields in lists.
func TestReportsOfListsAreBounded(t *testing.T) {
	t.Parallel()
	table := orderTable(t, "operations: {order.add: {reply: {rows: {each: {nr: {values: [{new: null, old: other}]}, id: {as: digits}}}}}}")
	call := table.Operation("order.add").Translation("new", "old").Start()
	defer call.Release()
	_, err := call.Request(nil, []byte(`{"order":{"no":"1"}}`))
	must(t, err)
	_, err = call.Reply(nil, 200, []byte(`{"rc":"00","no":"1","rows":[`+strings.TrimSuffix(strings.Repeat(`{"nr":"word","id":"x"},`, 100), ",")+`]}`))
	must(t, err)
	equal(t, fmt.Sprint(len(call.Report.Dropped), len(call.Report.Mismatched)), "64 64")
	if memory := call.ListMemory(); memory < 100*2*24 {
		t.Errorf("the items take %d bytes", memory)
	}
}
