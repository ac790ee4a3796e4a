package desk

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// The shops of the documentation pass: the first cases of each group, and in the long form all.
func TestExamplesPass(t *testing.T) {
	t.Parallel()
	for _, shop := range []struct{ form, interpreter, file string }{
		{"v2", "python3", "examples/shop.py"}, {"legacy", "node", "examples/shop.mjs"},
	} {
		t.Run(shop.file, func(t *testing.T) {
			t.Parallel()
			equal(t, strings.Count(string(proxytest.ReadFile(t, shop.file)), "\n") < 150, true, "lines")
			path, err := exec.LookPath(shop.interpreter)
			if err != nil {
				t.Skip("needs " + shop.interpreter)
			}
			desk, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			here, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			_, port, _ := net.SplitHostPort(here.Addr().String())
			must(t, here.Close())
			cmd := proxytest.Tie(exec.CommandContext(t.Context(), path, shop.file))
			cmd.Env = append(os.Environ(), "BILLING_KEY="+testKey, "BILLING_URL=http://"+desk.Addr().String(), "SHOP_PORT="+port,
				"SHOP_TIMEOUT=2", "SHOP_RECONCILE=2")
			cmd.Stderr = t.Output()
			must(t, cmd.Start())
			defer func() { _ = cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			proxytest.Eventually(t, func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					_ = c.Close()
				}
				return err == nil
			}, func() string { return "the shop does not listen" })
			plan, err := ParsePlan([]byte("{partner: example, form: "+shop.form+", api_key: "+testKey+", hook: 'http://127.0.0.1:"+port+
				"/desk', options: [callbacks, cancel, destroy, resend], timeout: 2s, reconcile: 2s}"), nil)
			must(t, err)
			if !proxytest.Long() {
				plan.Only = []string{"U1", "N4", "R4", "K1", "L1"}
			}
			server := http.Server{}
			defer func() { _ = server.Close() }()
			res := Run(t.Context(), Config{Plan: plan, Progress: func(v Verdict) { t.Log(v.Case, v.Result) }, Mount: func(h http.Handler) {
				server.Handler = h
				go func() { _ = server.Serve(desk) }()
			}})
			equal(t, failing(res.Verdicts), "", describe(res.Verdicts))
		})
	}
}
