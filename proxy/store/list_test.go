package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/store"
)

// various are six callbacks in all states, of two partners and two upstreams, a minute apart.
func various(t *testing.T, s *store.Store) {
	t.Helper()
	for i, state := range []store.State{store.Waiting, store.Delivered, store.Dead, store.Dropped, store.Dead, store.Dead} {
		c := callback(fmt.Sprint("c", i), fmt.Sprint("b", i/2))
		c.Order, c.Received, c.Next = c.ID, noon.Add(time.Duration(i)*time.Minute), noon
		if i%2 == 1 {
			c.Upstream = "old"
		}
		if i > 3 {
			c.Partner = partner.Of("two")
		}
		become(t, s, c, state)
	}
}

func TestList(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		various(t, s)
		for name, want := range map[string]struct {
			filter store.Filter
			ids    string
		}{
			"all":               {store.Filter{}, "c5 c4 c3 c2 c1 c0"},
			"waiting":           {store.Filter{State: store.Waiting}, "c0"},
			"delivered":         {store.Filter{State: store.Delivered}, "c1"},
			"dead":              {store.Filter{State: store.Dead}, "c5 c4 c2"},
			"dropped":           {store.Filter{State: store.Dropped}, "c3"},
			"a partner":         {store.Filter{PartnerPrefix: partner.Of("two")[:12]}, "c5 c4"},
			"by the whole hash": {store.Filter{PartnerPrefix: partner.Of("one")}, "c3 c2 c1 c0"},
			"no partner":        {store.Filter{PartnerPrefix: partner.Of("three")[:12]}, ""},
			"a bill":            {store.Filter{Bill: "b1"}, "c3 c2"},
			"an upstream":       {store.Filter{Upstream: "old"}, "c5 c3 c1"},
			"since":             {store.Filter{Since: noon.Add(4 * time.Minute)}, "c5 c4"},
			"until":             {store.Filter{Until: noon.Add(time.Minute)}, "c0"},
			"a limit":           {store.Filter{Limit: 2}, "c5 c4"},
			"all of them": {store.Filter{
				State: store.Dead, PartnerPrefix: partner.Of("one")[:12], Bill: "b1", Upstream: "new", Since: noon, Until: noon.Add(time.Hour), Limit: 9,
			}, "c2"},
		} {
			got, err := onePage(t, s, want.filter)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			equal(t, name, strings.Join(ids(got), " "), want.ids)
			if n, err := s.Count(t.Context(), want.filter); n != len(got) || err != nil {
				t.Errorf("%s: Count = %d, %v, want %d", name, n, err, len(got))
			}
			for _, c := range got {
				whole := get(t, s, c.ID)
				whole.Body = nil
				equal(t, "without its body", c, whole)
			}
		}
		// Page by page, while a row goes and one comes.
		var pages []string
		for f := (store.Filter{Limit: 2}); ; {
			page, err := onePage(t, s, f)
			must(t, err)
			if len(page) == 0 {
				break
			}
			pages = append(pages, strings.Join(ids(page), " "))
			f.After = page[len(page)-1].Cursor
			if len(pages) == 1 {
				accept(t, s, callback("new", "new"))
				if _, err := s.Sweep(t.Context(), noon.Add(time.Hour), time.Minute); err != nil { // c1 and c3
					t.Fatal(err)
				}
			}
		}
		equal(t, "pages", pages, []string{"c5 c4", "c2 c0"})
	})
}

func TestFilterRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		for _, f := range []store.Filter{
			{State: "lost"},
			{State: "dead' OR 'a'='a"},
			{PartnerPrefix: partner.Of("one")[:11]},
			{PartnerPrefix: upper(partner.Of("one"))},
			{PartnerPrefix: "%%%%%%%%%%%%"},
			{Limit: -1},
			{Bill: "\x00"},
			{Upstream: "\xff"},
		} {
			_, paged := s.Page(t.Context(), f)
			_, replayed := s.Decide(t.Context(), store.Replay, f, "tester", noon, nil)
			_, dropped := s.Decide(t.Context(), store.Drop, f, "tester", noon, nil)
			_, counted := s.Count(t.Context(), f)
			for _, err := range []error{paged, replayed, dropped, counted} {
				if !errors.Is(err, store.ErrFilter) {
					t.Errorf("%+v: %v", f, err)
				}
			}
		}
		if _, err := s.Decide(t.Context(), store.Replay, store.Filter{State: store.Delivered}, "tester", noon, nil); !errors.Is(err, store.ErrFilter) {
			t.Errorf("replaying all that was delivered: %v", err)
		}
	})
}

// A short hash of two partners is refused: it shows and changes nothing.
func TestAmbiguousPartner(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		a, b := callback("a", "a"), callback("b", "b")
		b.Partner = a.Partner[:12] + partner.Of("two")[12:]
		become(t, s, a, store.Dead)
		become(t, s, b, store.Dead)
		short := store.Filter{PartnerPrefix: a.Partner[:12]}
		_, paged := s.Page(t.Context(), short)
		_, replayed := s.Decide(t.Context(), store.Replay, short, "tester", noon, nil)
		_, dropped := s.Decide(t.Context(), store.Drop, short, "tester", noon, nil)
		_, counted := s.Count(t.Context(), short)
		for _, err := range []error{paged, replayed, dropped, counted} {
			if !errors.Is(err, store.ErrAmbiguous) {
				t.Errorf("%v", err)
			}
		}
		equal(t, "it is", get(t, s, "a").State, store.Dead)
		long := store.Filter{PartnerPrefix: a.Partner[:13]}
		if n, err := s.Decide(t.Context(), store.Drop, long, "tester", noon, nil); n != 1 || err != nil {
			t.Errorf("with one more digit: %d, %v", n, err)
		}
		equal(t, "it is", get(t, s, "a").State, store.Dropped)
		equal(t, "the other is", get(t, s, "b").State, store.Dead)
	})
}

func TestReplayAndDrop(t *testing.T) {
	each(t, func(t *testing.T, s *store.Store) {
		various(t, s)
		later := noon.Add(time.Hour)
		if n, err := s.Decide(t.Context(), store.Replay, store.Filter{PartnerPrefix: partner.Of("two")[:12], Limit: 1}, "tester", later, nil); n != 1 || err != nil {
			t.Errorf("Replay = %d, %v", n, err)
		}
		got := get(t, s, "c4") // the first accepted goes first
		equal(t, "it is", got.State, store.Waiting)
		equal(t, "attempts", got.Attempts, 0)
		equal(t, "next", got.Next, later)
		equal(t, "what came of the last", got.LastOutcome, "made up")
		if n, err := s.Decide(t.Context(), store.Drop, store.Filter{State: store.Dead}, "tester", later, nil); n != 2 || err != nil {
			t.Errorf("Drop = %d, %v", n, err)
		}
		equal(t, "it is", get(t, s, "c2").State, store.Dropped)
		equal(t, "it is", get(t, s, "c5").State, store.Dropped)
		for name, step := range map[string]struct {
			do   func() error
			want error
		}{
			"replay of one that is waiting": {func() error { return s.DecideOne(t.Context(), store.Replay, "c0", "tester", later) }, store.ErrState},
			"replay of one that is dropped": {func() error { return s.DecideOne(t.Context(), store.Replay, "c3", "tester", later) }, store.ErrState},
			"replay of none":                {func() error { return s.DecideOne(t.Context(), store.Replay, "c9", "tester", later) }, store.ErrNotFound},
			"replay of what cannot be":      {func() error { return s.DecideOne(t.Context(), store.Replay, "\x00", "tester", later) }, store.ErrNotFound},
			"drop of one that is waiting":   {func() error { return s.DecideOne(t.Context(), store.Drop, "c0", "tester", later) }, store.ErrState},
			"drop of one that is delivered": {func() error { return s.DecideOne(t.Context(), store.Drop, "c1", "tester", later) }, store.ErrState},
			"drop of none":                  {func() error { return s.DecideOne(t.Context(), store.Drop, "c9", "tester", later) }, store.ErrNotFound},
		} {
			if err := step.do(); !errors.Is(err, step.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := s.DecideOne(t.Context(), store.Replay, "c1", "tester", later); err != nil {
			t.Errorf("replay of one that was delivered: %v", err)
		}
		// It is waiting again: Sweep does not remove it.
		if _, err := s.Sweep(t.Context(), later.Add(time.Hour), time.Minute); err != nil {
			t.Fatal(err)
		}
		equal(t, "waiting", ids(claim(t, s, later)), []string{"c0", "c1", "c4"})
	})
}
