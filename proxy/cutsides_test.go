package proxy_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"billbridge/proxy/proxytest"
)

// onCutStages runs a test for each of the fifteen requests and each form of an upstream that has its operation.
func onCutStages(t *testing.T, run func(t *testing.T, r wireRequest, upstream string)) {
	t.Parallel()
	for _, r := range wireRequests() {
		for _, upstream := range []string{"v2", "legacy"} {
			if upstream == "legacy" && !strings.Contains(r.path, "bill") {
				continue
			}
			t.Run(strings.ReplaceAll(r.path[1:], "/", " ")+"/"+upstream, func(t *testing.T) {
				t.Parallel()
				run(t, r, upstream)
			})
		}
	}
}

func cutConfig(form, url string) string {
	return anyPort + fmt.Sprintf("upstreams: {up: {form: %s, url: %q, timeout: 30s}}\nfailures: {explain: 0s}\n", form, url)
}

// inLength and inChunks are the whole request.
func (r wireRequest) inLength() string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", r.path, len(r.body), r.body)
}

func (r wireRequest) inChunks() string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", r.path, wireChunks(r.body, 30))
}

// TestR10_RequestsAreCutAtEveryByte: the caller ends its side within the request. In the head it gets no
// answer or 400, in the body 400, and no upstream of either form gets a byte of it.
func TestR10_RequestsAreCutAtEveryByte(t *testing.T) {
	var cuts atomic.Int64
	t.Cleanup(func() { t.Logf("%d cuts", cuts.Load()) })
	onCutStages(t, func(t *testing.T, r wireRequest, form string) {
		u := newWireUpstream(t, form)
		g := newProcess(t, cutConfig(form, u.url))
		before := strings.Replace(r.inLength(), "Host: a\r\n", "Host: a\r\nX-Request-Id: before\r\n", 1) // so that the connection is accepted
		for _, whole := range []string{r.inLength(), r.inChunks()} {
			head := strings.Index(whole, "\r\n\r\n") + 4
			for cut := range proxytest.Places(len(whole)) {
				cuts.Add(1)
				answers, _ := wireAnswers(wireExchange(t, g.Address(), true, before, whole[:cut]))
				calls, violations := u.seen()
				if len(calls) != 1 || calls[0].id != "before" || len(violations) > 0 {
					t.Fatalf("cut at byte %d of %d: calls %v, violations %q", cut, len(whole), calls, violations)
				}
				if len(answers) == 0 || len(answers) > 2 || len(answers) == 2 && answers[1].status != 400 ||
					cut >= head && (len(answers) != 2 || !strings.Contains(answers[1].body, "VALIDATION_001")) {
					t.Fatalf("cut at byte %d of %d: %+v", cut, len(whole), answers)
				}
			}
		}
	})
}
