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
		At: time.Now(), Took: 3 * time.Millisecond, ID: id, Partner: "5f7b2ed74a97", Bill: "BILL-1", Operation: "bill.read", Client: "legacy", Form: "v2",
		Upstream: "new", Route: "owner", Status: 200, Code: "0000", Called: true, Succeeded: true, UpstreamTook: 2 * time.Millisecond, Logged: true,
	}
}

func idsOf(calls []*call) string {
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return strings.Join(ids, " ")
}

// The ring holds the last calls up to its number and its bytes, and a page that has a call keeps it.
func TestRingIsBounded(t *testing.T) {
	t.Parallel()
	r := newRing(time.Now())
	var first, alsoFirst *call
	for i := range maxCalls + 10 {
		f := finished(fmt.Sprint(i))
		f.Request = []byte(fmt.Sprintf("request %d", i))
		r.add(f)
		clear(f.Request) // the gateway uses its buffer again
		if i == 0 {
			found, _ := r.list(every, 0, 1)
			first, alsoFirst = found[0], r.find(found[0].Key())
		}
	}
	all, more := r.list(every, 0, maxCalls+1)
	if len(all) != maxCalls || more || r.holds() != maxCalls || all[0].ID != fmt.Sprint(maxCalls+9) || all[maxCalls-1].ID != "10" {
		t.Errorf("%d calls, more %t, from %s to %s", len(all), more, all[0].ID, all[len(all)-1].ID)
	}
	if all[0].Request != nil {
		t.Error("a list has copies of the messages")
	}
	if got := string(r.find(all[0].Key()).Request); got != fmt.Sprintf("request %d", maxCalls+9) {
		t.Errorf("the newest request is %q", got)
	}
	if first.ID != "0" || string(alsoFirst.Request) != "request 0" || alsoFirst.ID != "0" || r.find(first.Key()) != nil {
		t.Errorf("the first call, which is not in the ring any more: %q, %v", alsoFirst.Request, r.find(first.Key()))
	}

	large := bytes.Repeat([]byte("x"), 2*proxy.MaxKept)
	for i := range maxCalls {
		f := finished(fmt.Sprint("large", i))
		f.Reply = large
		r.add(f)
	}
	held := 0
	for i := range r.calls {
		held += cap(r.calls[i].buffer)
	}
	if held > maxBytes || held != r.bytes || r.holds() < maxBytes/len(large)/2 {
		t.Errorf("%d bytes are held, %d are counted, in %d calls", held, r.bytes, r.holds())
	}
	if newest := r.find(keyOf(r.newest())); newest == nil || newest.ID != fmt.Sprint("large", maxCalls-1) || !bytes.Equal(newest.Reply, large) {
		t.Errorf("the newest call is %+v", newest)
	}
}

func TestRingListsPages(t *testing.T) {
	t.Parallel()
	r := newRing(time.Now())
	for i := range 5 {
		r.add(finished(fmt.Sprint(i)))
	}
	one, more := r.list(every, 0, 2)
	two, moreThan := r.list(every, one[1].number, 2)
	three, over := r.list(every, two[1].number, 2)
	if got := idsOf(one) + "|" + idsOf(two) + "|" + idsOf(three); got != "4 3|2 1|0" || !more || !moreThan || over {
		t.Errorf("%s %t %t %t", got, more, moreThan, over)
	}
	for _, key := range []string{"", "x", "-1", strings.Repeat("z", 40), "0", keyOf(r.newest() + 1), keyOf(r.newest() - 5)} {
		if c := r.find(key); c != nil {
			t.Errorf("the key %q finds %s", key, c.ID)
		}
	}
}
