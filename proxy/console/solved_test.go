package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy"
	"billbridge/proxy/store"
)

func open(ids ...string) (list []attention) {
	for _, id := range ids {
		list = append(list, attention{ID: id, passes: id == "passes"})
	}
	return list
}

// What an overview showed and the next one does not is solved, for an hour, unless it is there again.
func TestWhatIsGoneIsSolvedForAnHour(t *testing.T) {
	t.Parallel()
	var s solutions
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	after := func(minute int, complete bool, want string, ids ...string) {
		t.Helper()
		got := ""
		for _, one := range s.after(at.Add(time.Duration(minute)*time.Minute), open(ids...), complete) {
			got += fmt.Sprintf("%s %d ", one.ID, int(one.At.Sub(at).Minutes()))
		}
		if got = strings.TrimSpace(got); got != want {
			t.Errorf("minute %d: %q, want %q", minute, got, want)
		}
	}
	after(0, true, "", "a", "b", "passes")
	after(5, true, "a 5", "b")
	after(6, true, "b 6 a 5")
	after(7, true, "b 6", "a") // it is there again
	after(8, false, "b 6")     // a may still be there
	after(9, false, "b 6")
	after(10, true, "a 10 b 6")
	after(65, true, "a 10 b 6")
	after(66, true, "a 10", "c")
	after(70, true, "c 70")
	after(71, true, "c 70", "d")
	after(131, true, "") // when d went is not known
}

// The memory does not grow, and many overviews at the same time do no harm.
func TestSolvedIsBounded(t *testing.T) {
	t.Parallel()
	var s solutions
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	var visitors sync.WaitGroup
	for visitor := range 8 {
		visitors.Go(func() {
			for i := range 200 {
				s.after(at, open(fmt.Sprint("id-", visitor, "-", i)), i%7 > 0)
			}
		})
	}
	visitors.Wait()
	if got := s.after(at, nil, true); len(got) != solvedMost || len(s.gone) != solvedMost || len(s.open) != 0 {
		t.Errorf("%d solved, %d kept, %d open", len(got), len(s.gone), len(s.open))
	}
}

// The overview shows what was solved below what needs a person, in the language of the visitor.
func TestOverviewShowsWhatWasSolved(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	c.Reloaded(errors.New("billbridge.yaml:1:1: wrong"))
	c.Finished(&proxy.Finished{At: time.Now(), Unknown: true})
	shows := func(language string, want bool, text string) {
		t.Helper()
		status, body := get(t, c, "/", language)
		if status != http.StatusOK || strings.Contains(body, text) != want {
			t.Errorf("%d, want %v for %q", status, want, text)
		}
	}
	shows("en", false, "Solved in the last hour")
	c.Reloaded(nil)
	shows("en", true, "Solved in the last hour")
	shows("en", true, "The last reload of the config was refused at <time")
	shows("ko", true, "최근 1시간 안에 해결된 항목")
	shows("ko", true, "에 설정을 다시 읽지 못했습니다")
	shows("en", false, "Nothing needs a person")
	c.Reloaded(errors.New("billbridge.yaml:1:1: wrong"))
	shows("en", false, "Solved in the last hour")
}

// What cannot be read while the store fails is not solved.
func TestNothingIsSolvedWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	s := newStored(t, "memory:", nil)
	s.add("one", "B1", store.Dead, time.Hour)
	s.unknown("one", "B3", "r1")
	s.page("/")
	must(t, s.store.Close())
	if body := s.page("/"); strings.Contains(body, "Solved") || !strings.Contains(body, "The rollout cannot be read") {
		t.Error(body)
	}
}
