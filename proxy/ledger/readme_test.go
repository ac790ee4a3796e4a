package ledger_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/ledger"
)

var update = flag.Bool("update", false, "write the table of README.md")

// transitions is the table of what an event makes of a bill whose owner is in a state.
func transitions(t *testing.T) string {
	t.Helper()
	at := func(upstream string, after time.Duration) ledger.Call {
		return ledger.Call{At: noon.Add(after), Upstream: upstream, Merchant: "shop"}
	}
	follow := func(b ledger.Bill, events ...ledger.Event) (ledger.Bill, error) {
		var err error
		for _, e := range events {
			if b, _, err = ledger.Next(env, b, e); err != nil {
				return b, err
			}
		}
		return b, nil
	}
	begun := ledger.Event{Call: at("old", 0), What: ledger.CreateBegun{Token: "t"}}
	ended := func(outcome ledger.Outcome) ledger.Event {
		return ledger.Event{Call: at("old", time.Second), What: ledger.CreateEnded{Token: "t", Outcome: outcome}}
	}
	states := []struct {
		name   string
		events []ledger.Event
	}{
		{"nothing is known", nil},
		{"a create is open", []ledger.Event{begun}},
		{"its outcome is unknown", []ledger.Event{begun, ended(ledger.Unknown)}},
		{"owned", []ledger.Event{begun, ended(ledger.Succeeded)}},
		{"released", []ledger.Event{begun, ended(ledger.Refused)}},
		{"denied", []ledger.Event{{Call: at("old", 5*time.Minute), What: ledger.Denied{UnderWay: time.Minute}}}},
	}
	text := "| event |"
	for _, s := range states {
		text += " " + s.name + " |"
	}
	text += "\n|" + strings.Repeat("---|", len(states)+1)
	for _, row := range []struct {
		name string
		ledger.Event
	}{
		{"another create, for new", ledger.Event{Call: at("new", 2*time.Second), What: ledger.CreateBegun{Token: "u"}}},
		{"the create succeeded", ended(ledger.Succeeded)},
		{"it was refused, or not sent", ended(ledger.Refused)},
		{"its outcome is unknown", ended(ledger.Unknown)},
		{"old shows the bill", ledger.Event{Call: at("old", 2*time.Second), What: ledger.Found{}}},
		{"new shows the bill", ledger.Event{Call: at("new", 2*time.Second), What: ledger.Found{}}},
		{"no such bill, is to be answered", ledger.Event{Call: at("old", 2*time.Second), What: ledger.Denied{UnderWay: time.Minute}}},
		{"a person assigns it to new", ledger.Event{Call: at("new", 2*time.Second), What: ledger.Assigned{}}},
	} {
		text += "\n| " + row.name + " |"
		for _, s := range states {
			before, err := follow(ledger.Bill{ID: "b"}, s.events...)
			if err != nil {
				t.Fatal(err)
			}
			after, err := follow(before, row.Event)
			is := strings.TrimSpace(fmt.Sprint(cmp.Or(string(after.State), "nothing"), " ", after.Upstream))
			switch {
			case err != nil:
				is = "**" + err.Error() + "**"
			case after.Same(before):
				is = "–"
			}
			text += " " + is + " |"
		}
	}
	return text + "\n"
}

// README.md has the table of the transitions.
func TestReadmeHasTheTransitions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- go test ./proxy/ledger -run TestReadme -update -->\n\n")
	was, after, found := strings.Cut(rest, "\n\n")
	want := transitions(t)
	if *update {
		err = os.WriteFile("README.md", []byte(before+"<!-- go test ./proxy/ledger -run TestReadme -update -->\n\n"+strings.TrimSuffix(want, "\n")+"\n\n"+after), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if !found || was+"\n" != want {
		t.Errorf("got\n%s\nwant\n%s", was, want)
	}
}
