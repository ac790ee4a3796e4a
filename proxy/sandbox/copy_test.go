package sandbox_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"

	"github.com/google/go-cmp/cmp"
)

// Each change of a bill is copied before it is answered, also one that a customer makes. A copy reads like the bill, sends no callback, and does
// not go back. A bill that the other service has created is not replaced.
func TestBillsAreCopied(t *testing.T) {
	t.Parallel()
	p := newPartner(t, answerWith(200, successAnswer))
	var log bytes.Buffer
	copies := start(t)
	r := start(t, sandbox.Options{CopyTo: copies.Service, Log: slog.New(slog.NewTextHandler(&log, nil))})
	same := func(when string) {
		t.Helper()
		equal(t, copies.must(newCall("legacy", "read")), r.must(newCall("legacy", "read")), when)
	}
	copies.must(newCall("v2", "create").with("billId", "OWN"))
	r.must(newCall("v2", "create").with("callbackUrl", p.url))
	same("created")
	must(t, r.Pay(demoKey, billID))
	same("paid")
	r.must(newCall("legacy", "cancel"))
	same("cancelled")
	if b, _ := copies.Bill(demoKey, billID); b.CallbackURL != "" || len(r.Callbacks()) != 1 || len(copies.Callbacks()) != 0 {
		t.Errorf("the copy has the callback address %q; callbacks: %+v and of copies %+v", b.CallbackURL, r.Callbacks(), copies.Callbacks())
	}
	if bills := r.Bills(); len(bills) != 1 {
		t.Errorf("bills went back: %+v", bills)
	}

	before, _ := copies.Bill(demoKey, "OWN")
	r.must(newCall("legacy", "create").with("billId", "OWN").with("price", "50000"))
	if after, _ := copies.Bill(demoKey, "OWN"); !cmp.Equal(before, after) || !strings.Contains(log.String(), "OWN") {
		t.Errorf("the bill of the other service was %+v and is %+v; the log has %q", before, after, &log)
	}
}
