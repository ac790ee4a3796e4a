package operate_test

import (
	"testing"
	"time"

	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"

	"github.com/google/go-cmp/cmp"
)

// Decisions about callbacks are in the same audit log as those about the rollout, with their own actions.
func TestAuditHasDecisionsAboutCallbacks(t *testing.T) {
	t.Parallel()
	s := proxytest.Open(t, "memory:")
	d := newDesk(t, s, separate)
	at := time.Date(2026, 11, 21, 3, 34, 56, 0, time.UTC)
	c := store.Callback{ID: "cb_1", Address: "a", Upstream: "old", Partner: partner.Of("k"), Order: "a", Received: at}
	if _, err := s.Accept(t.Context(), c, time.Hour); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), at, time.Minute, 1, 1, 1, nil)
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	if err := s.Finish(t.Context(), claimed[0], store.Result{At: at, State: store.Dead}); err != nil {
		t.Fatal(err)
	}
	if err := s.DecideOne(t.Context(), store.Drop, "cb_1", "kim", at); err != nil {
		t.Fatal(err)
	}
	got := answers[[]operate.Change](d, "GET", "/audit?limit=1")[0]
	got.Revision = 0
	want := operate.Change{Action: "drop", By: "kim", At: at, Partner: hash("k")[:12], Subject: "cb_1", From: "dead", To: "dropped"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
