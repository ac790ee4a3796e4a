package main

import (
	"database/sql"
	"testing"
)

// The status of a store that can be read but not written to says so, and why.
func TestRolloutStatusSaysThatTheStoreCannotBeWritten(t *testing.T) {
	t.Parallel()
	_, upstreams := startBackends(t, "legacy", "v2", "", nil, nil)
	folder := t.TempDir()
	g := serve(t, folder, nil, upstreams+`listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
route: {default: old}
rollout: {old: old, new: new}
store: {url: "sqlite:bridge.db"}
`)
	status := func() string {
		code, out, errs := runCommand(t, false, "rollout", "status", "--admin", "http://"+g.operator)
		equal(t, code, exitOK, errs)
		return out
	}
	lacks(t, status(), "cannot be written to")
	db, err := sql.Open("sqlite", "file:"+folder+"/bridge.db?_pragma=busy_timeout(5000)")
	must(t, err)
	works(t)(db.Exec("ALTER TABLE billbridge_callbacks RENAME TO callbacks_gone"))
	must(t, db.Close())
	has(t, status(), "it cannot be written to: store: writing to the database: ")
}
