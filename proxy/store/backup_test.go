package store_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A backup has everything that was acknowledged before it began, as of one moment, also while others write. A plain copy of the
// file would lose rows that are in the log.
func TestBackupHasWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	s := open(t, url)
	var mu sync.Mutex
	var acknowledged []string
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				bill := fmt.Sprintf("%d-%06d", w, n)
				made(t, s, bill, "old", noon, noon.Add(24*time.Hour))
				mu.Lock()
				acknowledged = append(acknowledged, bill)
				mu.Unlock()
			}
		})
	}
	for round := range 3 {
		proxytest.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) >= 300*(round+1) }, nil)
		mu.Lock()
		before := append([]string(nil), acknowledged...)
		mu.Unlock()
		file := filepath.Join(t.TempDir(), "copy.db")
		c, err := store.Backup(t.Context(), url, file, func(int64, int64) {})
		must(t, err)
		restored := open(t, "sqlite:"+file)
		list, all, err := restored.Bills(t.Context(), store.BillFilter{Limit: 1 << 20, Now: noon})
		if err != nil || all != c.Bills || c.Size == 0 || c.Addresses != 0 || c.Callbacks != 0 {
			t.Errorf("%+v, %d bills, %v", c, all, err)
		}
		has, last := map[string]ledger.Ownership{}, map[string]int{}
		for _, b := range list {
			has[b.ID] = b.State
			var w string
			var n int
			_, _ = fmt.Sscanf(strings.Replace(b.ID, "-", " ", 1), "%s %d", &w, &n)
			if last[w] != n {
				t.Fatalf("%s is in it, and the one before is not", b.ID)
			}
			last[w]++
		}
		for _, bill := range before {
			if has[bill] != ledger.Owned {
				t.Fatalf("%s was acknowledged before the backup, and is %q in it", bill, has[bill])
			}
		}
		if v, err := restored.Ask(t.Context(), "PRAGMA auto_vacuum"); v != "2" || err != nil { // incremental, as a store that was made
			t.Errorf("auto_vacuum %s, %v", v, err)
		}
	}
	stop()
	writing.Wait()
}

// A refused backup replaces no file and leaves none behind, and the error says why the source is no SQLite store.
func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	_ = open(t, url)
	folder := t.TempDir()
	taken, link, other := filepath.Join(folder, "taken"), filepath.Join(folder, "link"), filepath.Join(folder, "other.db")
	for _, file := range []string{taken, other} {
		must(t, os.WriteFile(file, []byte("somebody's"), 0o600))
	}
	must(t, os.Symlink("nowhere", link))
	free := filepath.Join(folder, "free")
	for _, row := range []struct{ url, file, want string }{
		{url, taken, "taken exists already: name a new file"},
		{url, link, "link exists already: name a new file"},
		{url, filepath.Join(folder, "none", "copy.db"), "there is no folder"},
		{"sqlite:" + filepath.Join(folder, "none.db"), free, "no such file"},
		{"sqlite:" + other, free, "it is not a store of billbridge"},
		{"memory:", free, "it is not an SQLite file"},
		{"postgres://user:hidden@127.0.0.1:1/db", free, "it is not an SQLite file"},
	} {
		_, err := store.Backup(t.Context(), row.url, row.file, nil)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s to %s: %v, want %s", row.url, row.file, err, row.want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, context.Canceled, "cancelled")(store.Backup(cancelled, url, free, nil))
	if text, err := os.ReadFile(taken); string(text) != "somebody's" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 3 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	works(t)(store.Backup(t.Context(), url, free, nil))
	if info, err := os.Stat(free); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
