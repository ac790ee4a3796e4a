package console

import (
	"net/http"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/upstream"
)

// A backend that does not answer is the first line of the overview, with the begin of its outage; one that answers again
// is in the past tense.
func TestOverviewBeginsWithTheBackends(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	since := now.Add(-100 * time.Second)
	config := proxytest.Config(t, testConfig)
	for _, row := range []struct {
		health       upstream.Health
		english      []string
		korean, lack string
	}{
		{
			upstream.Health{Breaker: "closed", Outage: &upstream.Outage{Since: since, Waiting: 8, Failed: 12, Partners: 8}},
			[]string{
				`<li class="problem"><a id="backend-old"`, "<b>no answer for 100\u00a0s</b> · 8 calls wait · 12 failed · 8 partners ",
				`since <time datetime="2026-11-22T08:58:20Z"`, "no call in 60 minutes",
			},
			"100초 동안 응답 없음", "breaker",
		},
		{
			upstream.Health{Breaker: "open", Outage: &upstream.Outage{Since: now, Waiting: 1, Partners: 1}},
			[]string{"no answer for 1\u00a0s</b> · 1 call waits · 1 partner ", "breaker open"},
			"차단기 열림", "12 failed",
		},
		{
			upstream.Health{Breaker: "closed", Last: &upstream.Outage{Since: since.Add(-10 * time.Minute), Until: since, Failed: 3}},
			[]string{"gave no answer for 10\u00a0min from <time"},
			"10분 동안 응답하지 않았음", `<li class="problem">`,
		},
		{
			upstream.Health{Breaker: "closed", Last: &upstream.Outage{Since: since, Until: now.Add(-endedLately)}},
			[]string{`<li class="panel">`},
			"60분 동안 호출 없음", "gave no answer",
		},
	} {
		gateway := stubGateway{config, proxy.UpstreamStatus{Health: row.health}}
		c := newConsole(t, Options{Gateway: gateway, Now: func() time.Time { return now }})
		status, body := get(t, c, "/", "en")
		equal(t, status, http.StatusOK)
		for _, text := range row.english {
			has(t, body, text)
		}
		lacks(t, body, row.lack)
		_, body = get(t, c, "/", "ko")
		has(t, body, row.korean)
	}
}

// The kill switch warns only while the new backend gives no answer.
func TestKillSwitchWarnsWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	out := func(name string) []backend {
		var one backend
		one.UpstreamStatus.Upstream = &config.Upstream{Name: name}
		one.Out = time.Minute
		return []backend{one}
	}
	for _, row := range []struct {
		rollout  *operate.Status
		backends []backend
		want     killSwitch
	}{
		{nil, out("new"), noSwitch},
		{&operate.Status{New: "new"}, nil, switchOff},
		{&operate.Status{New: "new"}, out("old"), switchOff},
		{&operate.Status{New: "new"}, out("new"), switchNeeded},
		{&operate.Status{New: "new", Declarations: operate.Declarations{Stopped: new(operate.Declared)}}, out("new"), switchOn},
	} {
		equal(t, switchOf(row.rollout, row.backends), row.want)
	}
}

// The pictures have the new bills and the time of the calls of both backends, and the differences, each in its slot.
func TestPictures(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 9, 59, 30, 0, time.UTC)
	for i, unit := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		w := newWindow(now.Add(-2*reaches[i].long()), reaches[i])
		add := func(ago int, operation, upstream string, o outcome) {
			f := proxy.Finished{
				Times:       proxy.Times{At: now.Add(-time.Duration(ago) * unit), Took: time.Second},
				Subject:     proxy.Subject{Operation: operation},
				Destination: proxy.Destination{Upstream: upstream}, Called: true, Succeeded: o == succeeded, Reason: map[bool]string{true: "reset"}[o == failed],
			}
			w.add(&f)
		}
		add(1, "bill.create", "old", succeeded)
		add(1, "bill.create", "new", succeeded)
		add(0, "bill.create", "new", succeeded)
		add(0, "bill.create", "new", failed)
		add(0, "bill.read", "new", succeeded)
		add(w.slots, "bill.create", "old", succeeded) // before the reach
		w.compared(now.Add(-unit), true)
		w.compared(now, false)
		all, last := w.pictures(now, [2]string{"old", "new"}, "bill.create"), w.slots-1
		bills, times, differences := all[0], all[1], all[2]
		equal(t, bills.Values[last-1], [2]float64{1, 1}, w.Name)
		equal(t, bills.Values[last], [2]float64{0, 1}, w.Name)
		equal(t, bills.Sum, [2]int{1, 2}, w.Name)
		equal(t, len(bills.Bars()), 3, w.Name)
		equal(t, times.Values[last][0], 0, w.Name)
		equal(t, times.TopTook(), "1.0 s", w.Name)
		equal(t, times.Path(0) != "" && times.Path(1) != "", true, w.Name)
		equal(t, differences.Values[last-1][1], 1, w.Name)
		equal(t, differences.Sum, [2]int{2, 1}, w.Name)
		equal(t, len(bills.Values), w.slots, w.Name)
		equal(t, bills.From, w.start(w.slotOf(now)-int64(last)), w.Name)
	}
}

// The pictures of a gateway leave out the time before its start.
func TestPicturesBeginWithTheGateway(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 9, 59, 30, 0, time.UTC)
	for minutes, slots := range map[int]int{0: fewestSlots, 20: 21, 59: 60, 300: 60} {
		w := newWindow(now.Add(-time.Duration(minutes)*time.Minute), reaches[0])
		equal(t, len(w.pictures(now, [2]string{"old", "new"}, "bill.create")[0].Values), slots, minutes)
	}
}

func TestDurationsInOneUnit(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for d, want := range map[time.Duration]string{
		time.Second + 999: "1\u00a0s", 119 * time.Second: "119\u00a0s", 2 * time.Minute: "2\u00a0min", 2 * time.Hour: "2\u00a0h", 49 * time.Hour: "2\u00a0days",
	} {
		equal(t, string(c.lasting("en", d)), want)
	}
}
