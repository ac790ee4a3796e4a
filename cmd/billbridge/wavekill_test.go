package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/rollout/wave"
	"billbridge/proxy/store"
)

// Two gateways on PostgreSQL have a wave. One that made steps is killed: the other one goes on, and each partner has made
// each step once.
func TestWaveGoesOnAtAnotherGateway(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	config := fmt.Sprintf(`listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
upstreams: {legacy: {form: legacy, url: "http://127.0.0.1:1"}, fresh: {form: v2, url: "http://127.0.0.1:1"}}
route: {default: legacy}
rollout: {old: legacy, new: fresh, bills: shared}
store: {url: %q}
`, url)
	b := newCluster(t)
	gateways := []*gateway{b.start(t, config), b.start(t, config)}
	const moves = "a wave moved a partner"
	order := operate.WaveOrder{Author: operate.Author{By: "anna"}, WaveName: operate.WaveName{Name: "autumn"}}
	order.Steps, order.Each = wave.Steps{{Stage: "shadow"}}, wave.Pace{Steps: 60, Per: time.Minute}
	for i := range 8 {
		order.Partners += string(partner.Of(fmt.Sprint("key", i))) + "\n"
	}
	flags := adminFlags{Admin: "http://" + gateways[0].operator}
	must(t, flags.send(t.Context(), http.MethodPost, wavePath, nil, order))
	moved := func(g *gateway) bool { return strings.Contains(g.process.all("stderr"), moves) }
	var first *gateway
	proxytest.Eventually(t, func() bool {
		for _, g := range gateways {
			if moved(g) {
				first = g
			}
		}
		return first != nil
	}, func() string { return "no gateway makes steps" })
	b.kill(t, first)
	other := gateways[0]
	if other == first {
		other = gateways[1]
	}
	flags.Admin = "http://" + other.operator
	var info operate.WaveInfo
	proxytest.Eventually(t, func() bool {
		must(t, flags.get(t.Context(), wavePath+"/autumn", &info))
		return info.State == store.WaveEnded
	}, func() string { return fmt.Sprintf("the wave did not end: %+v", info) })
	if !moved(other) {
		t.Error("the other gateway made no step")
	}
	var log []operate.Change
	must(t, flags.get(t.Context(), "/audit", &log))
	steps := map[string]int{}
	for _, c := range log {
		if c.By == wave.ByWave("autumn") && c.Action == string(store.Staged) {
			steps[c.Partner]++
		}
	}
	for id, n := range steps {
		equal(t, n, 1, id)
	}
	equal(t, len(steps), 8, "partners that were moved")
}
