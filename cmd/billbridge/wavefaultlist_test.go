package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"

	"billbridge/proxy/partner"
)

// A waveFault is what happens at the new backend, or to the gateways, while two waves move partners.
type waveFault struct {
	name   string
	action func(*waveRun)             // once; nil for none
	reply  func(*waveRun, *faultCall) // of each call at the new backend; nil for none
	pauses *regexp.Regexp             // the reasons why the waves pause; nil if they do not
	until  func(*waveRun) bool        // instead: the end of the fault
	repair func(*waveRun)             // what a person does before the waves are resumed
}

// A faultCall is a call at the new backend.
type faultCall struct {
	partner, operation string
	serve              func() // the sandbox carries the call out
	code               int
	body               []byte
	context.Context
}

// victim is a partner whose creates the new backend refuses, in one of the faults.
const victim = "wave-key-3"

// waveFaults are one of each kind.
var waveFaults = []waveFault{
	{
		name:   "a gateway that makes steps is killed by kill -9",
		action: func(r *waveRun) { r.killGateway() },
		until:  func(r *waveRun) bool { return r.forward > r.before.forward+2 },
	},
	{
		name: "all creates of one partner are refused",
		reply: func(_ *waveRun, c *faultCall) {
			if c.partner == victim && c.operation == "create" {
				c.body = []byte(`{"code":"ERROR","message":"","data":null}`)
				return
			}
			c.serve()
		},
		until:  func(r *waveRun) bool { return slices.Contains(r.takenBack, partner.Of(victim).Short()) },
		repair: (*waveRun).reset,
	},
	{
		name:   "1 of 5 calls fails with 500",
		pauses: regexp.MustCompile("is FAIL|the breaker of"),
		reply: func(_ *waveRun, c *faultCall) {
			if rand.IntN(5) == 0 {
				c.code, c.body = 500, []byte("{}")
				return
			}
			c.serve()
		},
		repair: (*waveRun).reset,
	},
	{
		name:  "1 of 10 creates takes effect and has no answer",
		until: func(r *waveRun) bool { return r.forward > r.before.forward+20 },
		reply: func(_ *waveRun, c *faultCall) {
			c.serve()
			if c.operation == "create" && rand.IntN(10) == 0 {
				panic(http.ErrAbortHandler)
			}
		},
		repair: (*waveRun).reset,
	},
	{
		name:   "a digit of the amount is another one in 1 of 20 reads",
		pauses: regexp.MustCompile("an exact field differs"),
		reply: func(_ *waveRun, c *faultCall) {
			if c.serve(); c.operation == "read" && rand.IntN(20) == 0 {
				c.body = bytes.Replace(c.body, []byte("20000"), []byte("20001"), 1)
			}
		},
		repair: (*waveRun).reset,
	},
	{
		name:   "the kill switch",
		pauses: regexp.MustCompile("the kill switch is on"),
		action: func(r *waveRun) { r.post("/rollout/stop", nil) },
		repair: func(r *waveRun) { r.post("/rollout/resume", nil) },
	},
	{
		name:   "the store is declared to be restored from a backup",
		pauses: regexp.MustCompile("restored from a backup"),
		action: func(r *waveRun) { r.post("/rollout/restored", nil) },
	},
}
