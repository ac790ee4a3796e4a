package console

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy"
)

func every(*proxy.Finished) bool { return true }

// finished returns a successful read.
func finished(id string) *proxy.Finished {
	return &proxy.Finished{
		Subject:     proxy.Subject{ID: id, Partner: "5f7b2ed74a97", Bill: "BILL-1", Operation: "bill.read", Client: "legacy"},
		Times:       proxy.Times{At: time.Now(), Took: 3 * time.Millisecond, UpstreamTook: 2 * time.Millisecond},
		Destination: proxy.Destination{Upstream: "new", Form: "v2", Route: "owner"},
		Status:      200, Code: "0000", Called: true, Succeeded: true, Logged: true,
	}
}

func idsOf(calls []*call) string {
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return strings.Join(ids, " ")
}

// Each part of the ring holds the last calls up to its number and its bytes, and a page that has a call keeps it.
func TestRingIsBounded(t *testing.T) {
	t.Parallel()
	r := newRing(time.Now())
	var first, alsoFirst *call
	const most = maxCalls / 2
	for i := range most + 10 {
		f := finished(fmt.Sprint(i))
		f.Request = []byte(fmt.Sprintf("request %d", i))
		r.add(f)
		clear(f.Request) // the gateway uses its buffer again
		if i == 0 {
			found, _ := r.list(every, 0, 1)
			first, alsoFirst = found[0], r.find(found[0].Key())
		}
	}
	all, more := r.list(every, 0, maxCalls)
	if len(all) != most || more || all[0].ID != fmt.Sprint(most+9) || all[most-1].ID != "10" {
		t.Errorf("%d calls, more %t, from %s to %s", len(all), more, all[0].ID, all[len(all)-1].ID)
	}
	if all[0].Request != nil {
		t.Error("a list has copies of the messages")
	}
	equal(t, string(r.find(all[0].Key()).Request), fmt.Sprintf("request %d", most+9), "the newest request")
	if first.ID != "0" || string(alsoFirst.Request) != "request 0" || alsoFirst.ID != "0" || r.find(first.Key()) != nil {
		t.Errorf("the first call, which is not in the ring any more: %q, %v", alsoFirst.Request, r.find(first.Key()))
	}

	large := bytes.Repeat([]byte("x"), 2*proxy.MaxKept)
	for i := range most {
		f := finished(fmt.Sprint("large", i))
		f.Reply = large
		r.add(f)
	}
	held, p := 0, &r.parts[0]
	for i := range p.calls {
		held += cap(p.calls[i].buffer)
	}
	if held > maxBytes/2 || held != p.bytes || p.count < maxBytes/len(large)/4 {
		t.Errorf("%d bytes are held, %d are counted, in %d calls", held, p.bytes, p.count)
	}
	if newest := r.find(keyOf(r.newest())); newest == nil || newest.ID != fmt.Sprint("large", most-1) || !bytes.Equal(newest.Reply, large) {
		t.Errorf("the newest call is %+v", newest)
	}
}

// No number of successes removes a failure. A list has both in their order, and says since when it has them.
func TestRingKeepsFailures(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	r := newRing(start)
	for i := range maxCalls + 1 {
		f := finished(fmt.Sprint(i))
		f.At = start.Add(time.Duration(i) * time.Second)
		if f.Succeeded = i != 5 && i != maxCalls-1; !f.Succeeded {
			f.Code = "BILL_003"
		}
		r.add(f)
	}
	all, _ := r.list(every, 0, 4)
	notOK, _ := r.list(func(f *proxy.Finished) bool { return !f.Succeeded }, 0, maxCalls)
	equal(t, idsOf(all)+"|"+idsOf(notOK), "2000 1999 1998 1997|1999 5")
	for _, c := range append(all, notOK...) {
		if found := r.find(c.Key()); found == nil || found.ID != c.ID {
			t.Errorf("the key of %s finds %v", c.ID, found)
		}
	}
	for o, want := range map[outcome]string{
		"":        "[{ok 1000 2026-11-22 09:16:40 +0000 UTC true} {other 2 2026-11-22 09:00:00 +0000 UTC false}]",
		succeeded: "[{ok 1000 2026-11-22 09:16:40 +0000 UTC true}]",
		refused:   "[{other 2 2026-11-22 09:00:00 +0000 UTC false}]",
	} {
		equal(t, fmt.Sprint(r.spans(o)), want, o)
	}
}
