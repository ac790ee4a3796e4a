package translate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"billbridge/translate"
)

// checkExplained checks that an explanation has the output and the error of the engine, and each leaf of both documents once.
func checkExplained(t testing.TB, e *translate.Explanation, out []byte, err error) {
	t.Helper()
	if string(e.Output) != string(out) || fmt.Sprint(e.Err) != fmt.Sprint(err) {
		t.Fatalf("the explanation has %s, %v, but the engine %s, %v", e.Output, e.Err, out, err)
	}
	targets, passed, dropped, unknown := map[string]bool{}, 0, 0, 0
	for _, f := range e.Fields {
		if f.Target != "" && targets[f.Target] {
			t.Fatalf("%s is explained twice", f.Target)
		}
		targets[f.Target] = true
		switch {
		case f.Outcome == translate.OutcomePassed:
			passed++
		case f.Outcome == translate.OutcomeDropped && f.Unknown:
			unknown++
		case f.Outcome == translate.OutcomeDropped && f.Row != nil:
			dropped++
		}
	}
	if err != nil {
		return
	}
	mismatched := 0
	for _, m := range e.Report.Mismatches {
		if m.Format != translate.IsMissing {
			mismatched++
		}
	}
	if got, want := []int{passed, dropped, unknown}, []int{mismatched, len(e.Report.Dropped), e.Report.Unknown}; !slices.Equal(got, want) {
		t.Fatalf("%s: passed, dropped, unknown: %v in the explanation, %v in the report %+v\n%+v", out, got, want, e.Report, e.Fields)
	}
	for path := range leafPaths("", out) {
		explained := targets[path] || oddName.Match(out) // names of the sender are quoted and cut
		for target := range targets {                    // what the table does not look into is one leaf
			explained = explained || target != "" && (strings.HasPrefix(path, target+".") || strings.HasPrefix(path, target+"["))
		}
		if !explained {
			t.Fatalf("%s of the output %s is not explained: %v", path, out, targets)
		}
	}
}

// leafPaths returns the paths of the scalars of a document.
func leafPaths(parent string, doc []byte) map[string]bool {
	all := map[string]bool{}
	var members map[string]json.RawMessage
	var items []json.RawMessage
	add := func(path string, raw []byte) {
		for p := range leafPaths(path, raw) {
			all[p] = true
		}
	}
	switch {
	case json.Unmarshal(doc, &members) == nil && members != nil:
		for name, raw := range members {
			add(strings.TrimPrefix(parent+"."+name, "."), raw)
		}
	case json.Unmarshal(doc, &items) == nil && items != nil:
		for i, raw := range items {
			add(fmt.Sprintf("%s[%d]", parent, i), raw)
		}
	default:
		all[parent] = true
	}
	return all
}

// Lists go there and back unchanged, whatever is in them; a reply with lists too. The scanner reads what its reference reads.
func FuzzLists(f *testing.F) {
	tables := []*translate.Table{orderTable(f), orderTable(f, "unknown: {request: pass, reply: pass}"), orderTable(f, "bounds: enforce")}
	for i, doc := range []string{
		`{"no":"1","rows":[{"nr":"1","what":"a","size":"2","subs":[{"n":"3"},{"x":1}]},{"note":1}],"tags":["x"],"nums":["1","2"],"phones":["1"]}`,
		`{"order":{"lines":[{"number":1,"item":{"name":"a","size":"L"},"unit":"piece","parts":[]},null]},"recipients":[{"phone":"1"},{},7]}`,
		`{"rc":"00","rt":"x","no":"1","rows":[{"nr":"1","id":"a"},7,[],{"id":null}],"nums":[1,"2",[3]]}`,
		`{"code":"00","text":"x","data":{"no":"1","lines":[{"number":1,"extra":2},{"Number":1}],"numbers":null}}`,
		`{"rows":[[[]]],"tags":[{}],"nums":[],"phones":[[]]}`,
	} {
		for direction := range uint8(4) {
			f.Add(direction+uint8(i)<<2, []byte(doc))
		}
	}
	for _, doc := range corpus(f, "*") {
		if len(doc.data) < 1000 {
			f.Add(uint8(1), fmt.Appendf(nil, `{"rows":[%s,{"what":%[1]s,"subs":[{"n":%[1]s}]}],"tags":%[1]s}`, doc.data))
			f.Add(uint8(2), fmt.Appendf(nil, `{"order":{"lines":%s},"recipients":[%[1]s],"numbers":[%[1]s,{"phone":%[1]s}]}`, doc.data))
		}
	}
	f.Fuzz(func(t *testing.T, direction uint8, doc []byte) {
		table := tables[int(direction>>2)%len(tables)]
		from, to := table.Forms()[direction>>1&1], table.Forms()[direction&1]
		o := table.Operation("order.add")
		there, back := o.Translation(from, to), o.Translation(to, from)
		checkScan(t, there, doc)
		out, err := there.Start().Request(nil, doc)
		checkExplained(t, there.ExplainRequest(doc), out, err)
		if err == nil && strict(out) != nil {
			t.Fatalf("%q became %q", doc, out)
		}
		if err == nil && from != to {
			again, err := back.Start().Request(nil, out)
			if err != nil {
				t.Fatalf("%q became %q, which does not come back: %v", doc, out, err)
			}
			sameLists(t, from, doc, again)
		}
		call := back.Start()
		_, _ = call.Request(nil, []byte(`{}`))
		reply, err := call.Reply(nil, 200, doc)
		checkExplained(t, back.ExplainReply([]byte(`{}`), 200, doc), reply, err)
		if err == nil && strict(reply) != nil {
			t.Fatalf("%q became %q", doc, reply)
		}
		called, _, err := table.Callback.Translate(nil, doc, from, to)
		if err == nil && json.Valid(doc) && strict(called) != nil {
			t.Fatalf("%q became %q", doc, called)
		}
	})
}

// sameLists compares what a round trip keeps of the lists of a request.
func sameLists(t *testing.T, from translate.Form, before, after []byte) {
	t.Helper()
	for _, path := range map[translate.Form][]string{
		"old": {"no", "rows#nr", "rows#what", "rows#size", "rows#subs#n", "tags#", "nums#", "phones#"},
		"new": {"order.no", "order.lines#number", "order.lines#item.name", "order.lines#item.size", "order.lines#parts#count", "tags#", "numbers#", "recipients#phone"},
	}[from] {
		if was, is := pick(before, path), pick(after, path); !slices.Equal(was, is) {
			t.Fatalf("%s was %q and came back as %q, in %q and %q", path, was, is, before, after)
		}
	}
}

// pick returns the contents at a path; # stands for each item of a list. It does not use the parser of the package.
func pick(doc []byte, path string) (found []string) {
	if path == "" {
		return []string{content(strings.TrimSpace(string(doc)))}
	}
	if path[0] == '#' {
		var items []json.RawMessage
		if json.Unmarshal(doc, &items) != nil {
			return []string{"no list"}
		}
		for _, item := range items {
			found = append(found, pick(item, path[1:])...)
		}
		return found
	}
	end := strings.IndexAny(path, ".#")
	name, rest := path, ""
	if end >= 0 {
		name, rest = path[:end], strings.TrimPrefix(path[end:], ".")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil {
		return []string{"no object"}
	}
	raw, ok := members[name]
	if !ok {
		return []string{"missing"}
	}
	return pick(raw, rest)
}
