package store_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// The stores that every earlier version left can be backed up by this version while they are old, upgraded, used, and gone back to.
// To go back with PostgreSQL is to restore a dump, as at first.
func TestStoresOfEveryVersion(t *testing.T) {
	t.Parallel()
	versions := 0
	for v := 2; ; v++ {
		file := fmt.Sprintf("testdata/versions/v%d", v)
		if _, err := os.Stat(file + ".dump"); errors.Is(err, os.ErrNotExist) {
			break
		}
		versions++
		t.Run(fmt.Sprintf("sqlite/%d", v), func(t *testing.T) {
			t.Parallel()
			url, dir := proxytest.SQLite(t), t.TempDir()
			unpack(t, file+".db.gz", url[len("sqlite:"):])
			backup := filepath.Join(dir, "backup.db")
			works(t)(store.Backup(t.Context(), url, backup, nil))
			equal(t, versionOf(t, url), v, "the version before")
			useStoreOfVersion(t, url, v)
			must(t, os.Rename(backup, url[len("sqlite:"):]))
			equal(t, versionOf(t, url), v, "the version after going back")
			useStoreOfVersion(t, url, v)
		})
		t.Run(fmt.Sprintf("postgres/%d", v), func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("pg_restore"); err != nil && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			at := database(t, fmt.Sprintf("version%d", v))
			command := exec.Command("pg_restore", "--no-owner", "--exit-on-error", "--single-transaction", "-d", at, file+".dump")
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("pg_restore: %v\n%s", err, out)
			}
			equal(t, versionOf(t, at), v, "the version")
			useStoreOfVersion(t, at, v)
		})
	}
	current, err := os.ReadDir("migrations/sqlite")
	if err != nil || versions != len(current)-2 {
		t.Errorf("stores of %d versions, want one of each from 2 to %d (%v)", versions, len(current)-1, err)
	}
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.ReadFile(from)
	must(t, err)
	r, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	data, err := io.ReadAll(r)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	must(t, err)
}

func versionOf(t *testing.T, url string) (version int) {
	t.Helper()
	db := raw(t, url)
	must(t, errors.Join(db.QueryRow("SELECT max(version) FROM billbridge_schema").Scan(&version), db.Close()))
	return version
}

// useStoreOfVersion upgrades a store of testdata/versions, finds what is in it, and uses it.
func useStoreOfVersion(t *testing.T, url string, version int) {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	must(t, err)
	demo := partner.Of("demo-partner-key")
	for _, bill := range []string{"A", "B", "C", "N"} {
		o, err := s.Owner(t.Context(), demo, fmt.Sprintf("V%d%s", version, bill))
		if err != nil || o.State != store.Owned || o.Upstream != "old" {
			t.Errorf("bill %s is %+v, %v", bill, o, err)
		}
	}
	waiting := claim(t, s, time.Now())
	if len(waiting) != 1 || waiting[0].Bill != fmt.Sprintf("V%dA", version) || !bytes.Contains(waiting[0].Body, []byte(`"20000"`)) {
		t.Errorf("callbacks that wait: %+v", waiting)
	}
	rollout, err := s.Rollout(t.Context())
	if err != nil || len(rollout.Stages) != 1 || rollout.Stages[0].Stage != "new" {
		t.Errorf("%+v, %v", rollout, err)
	}
	settle(t, s, own(t, s, "later", "new"), store.Succeeded)
	must(t, s.Close())
}
