package main

import (
	"strings"
	"testing"
)

// The status of a store that can be read but not written to says so, and why.
func TestRolloutStatusSaysThatTheStoreCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := newRolloutFaults(t)
	status := func() string {
		code, out, errs := runCommand(t, false, "rollout", "status", "--admin", "http://"+f.admin, "--token", alertToken)
		if code != exitOK {
			t.Fatalf("%d %s", code, errs)
		}
		return out
	}
	lacks(t, status(), "cannot be written to")
	execSQL(t, f.storeFile, "ALTER TABLE billbridge_callbacks RENAME TO callbacks_gone")
	if out := status(); !strings.Contains(out, "it cannot be written to: store: writing to the database: ") || !strings.Contains(out, "no such table: billbridge_callbacks") {
		t.Error(out)
	}
}
