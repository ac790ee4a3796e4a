package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A commit waits for the disk, and free pages are given back.
func TestR30_SettingsOfTheFile(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.SQLite(t))
	for pragma, want := range map[string]string{
		"synchronous": "2", "journal_mode": "wal", "auto_vacuum": "2", "busy_timeout": "5000",
	} {
		got, err := s.Ask(t.Context(), "PRAGMA "+pragma)
		if err != nil || got != want {
			t.Errorf("%s = %s, %v, want %s", pragma, got, err, want)
		}
	}
}

// A file of any name has all rows when it is opened again, and only its owner can read it.
func TestFileKeepsAllRows(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a b?c=#%41&.db")
	first := open(t, "sqlite:"+file)
	accept(t, first, callback("c1", "b"))
	bind(t, first, address("a1", "b"))
	want := get(t, first, "c1")
	must(t, first.Close())
	if err := first.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	for what, err := range map[string]error{
		"Bind": func() error { _, err := first.Bind(t.Context(), address("a2", "b")); return err }(), "Ping": first.Ping(t.Context()),
		"Address": func() error { _, err := first.Address(t.Context(), "a1"); return err }(),
	} {
		fails(t, store.ErrClosed, what)(err)
	}
	second := open(t, "sqlite:"+file)
	equal(t, get(t, second, "c1"), want, "the callback")
	equal(t, bound(t, second, "a1"), []string{"a1"}, "the address")
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// While the file is moved or replaced, nothing is acknowledged, as it would be lost with the process, and nothing is read from
// the file in its place. When the file is back, the store works again.
func TestR30_ReplacedFileIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, suffix := range map[string]string{"the file": "", "its log": "-wal"} {
		for _, replaced := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", replaced ", replaced), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				url := proxytest.SQLite(t)
				s := open(t, url)
				bind(t, s, address("a1", "b"))
				path := strings.TrimPrefix(url, "sqlite:") + suffix
				must(t, os.Rename(path, path+".away"))
				if replaced {
					text, err := os.ReadFile(path + ".away")
					must(t, err)
					must(t, os.WriteFile(path, text, 0o600))
				}
				fresh, accepted := isFresh(s.Accept(ctx, callback("c1", "b"), time.Minute))
				_, found := s.Address(ctx, "a1")
				_, taken := s.Bind(ctx, address("a2", "b"))
				for what, err := range map[string]error{
					"Accept": accepted, "Bind": taken, "Ping": s.Ping(ctx), "Address": found,
				} {
					fails(t, store.ErrReplaced, what)(err)
				}
				if fresh {
					t.Error("it was acknowledged")
				}
				must(t, os.Rename(path+".away", path))
				if fresh, err := isFresh(s.Accept(ctx, callback("c1", "b"), time.Minute)); err != nil || !fresh {
					t.Errorf("what was refused is in the file: %v, %v", fresh, err)
				}
				bind(t, s, address("a3", "b"))
			})
		}
	}
}

// A deleted file is not created again.
func TestR30_DeletedFileIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	for name, suffixes := range map[string][]string{"the file": {""}, "its log": {"-wal"}, "all of it": {"", "-wal", "-shm"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := proxytest.SQLite(t)
			s := open(t, url)
			accept(t, s, callback("c1", "b"))
			for _, suffix := range suffixes {
				must(t, os.Remove(strings.TrimPrefix(url, "sqlite:")+suffix))
			}
			for i := range 3 {
				fresh, err := isFresh(s.Accept(t.Context(), callback(fmt.Sprint("d", i), "b"), time.Minute))
				if !errors.Is(err, store.ErrReplaced) || fresh {
					t.Errorf("Accept = %v, %v", fresh, err)
				}
				// It repeats a callback that was lost with the file.
				if fresh, err = isFresh(s.Accept(t.Context(), callback(fmt.Sprint("d", i), "b"), time.Minute)); !errors.Is(err, store.ErrReplaced) || fresh {
					t.Errorf("Accept again = %v, %v", fresh, err)
				}
			}
			fails(t, os.ErrNotExist, suffixes[0])(os.Stat(strings.TrimPrefix(url, "sqlite:") + suffixes[0]))
		})
	}
}

// On a full disk writes fail, and all that was acknowledged is there. When there is space again, the store works again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	s := openSmall(t, url, 80)
	var kept []string
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		c := callback(fmt.Sprint("c", i), "b")
		c.Body = make([]byte, 3000)
		var fresh bool
		if fresh, full = isFresh(s.Accept(t.Context(), c, time.Minute)); fresh {
			kept = append([]string{c.ID}, kept...)
		}
	}
	if full == nil || !strings.Contains(full.Error(), "full") || len(kept) < 10 {
		t.Fatalf("after %d: %v", len(kept), full)
	}
	fails(t, "", "an address found room")(s.Bind(t.Context(), store.Address{ID: "a", URL: strings.Repeat("x", 9000), Created: noon}))
	there := func() {
		t.Helper()
		all, err := onePage(t, s, store.Filter{Limit: 1000})
		must(t, err)
		equal(t, ids(all), kept, "there")
	}
	there()
	must(t, s.Close())
	s = openSmall(t, url, 0)
	there()
	accept(t, s, callback("more", "b"))
}

// The space of removed rows is given back to the disk.
func TestFileShrinksAfterRowsAreRemoved(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(strings.TrimPrefix(url, "sqlite:"))
		must(t, err)
		return info.Size()
	}
	for _, state := range []store.State{store.Waiting, store.Dropped} {
		s := openSmall(t, url, 0)
		if state == store.Waiting {
			for i := range 40 {
				c := callback(fmt.Sprint("c", i), fmt.Sprint("b", i))
				c.Body = make([]byte, 20_000)
				accept(t, s, c)
			}
		} else {
			for _, c := range claim(t, s, noon) {
				finish(t, s, c, noon, state)
			}
			if n, err := s.Sweep(t.Context(), noon.Add(time.Hour), time.Minute); n != 40 || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := s.Close(); err != nil { // the log is carried over into the file
			t.Fatal(err)
		}
		equal(t, size() > 500_000, state == store.Waiting, state, size())
	}
}

// While another process keeps the lock of the file, writes fail in time; they work again after that.
func TestLockedFileMakesWritesFailInTime(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := proxytest.SQLite(t)
	s := openSmall(t, url, 0)
	other := raw(t, url)
	run(t, other, "BEGIN IMMEDIATE")
	var senders sync.WaitGroup
	for i := range 20 {
		senders.Go(func() {
			if fresh, err := isFresh(s.Accept(ctx, callback(fmt.Sprint("c", i), "b"), time.Minute)); err == nil || fresh {
				t.Errorf("a callback was accepted: %v", fresh)
			}
		})
	}
	senders.Wait()
	fails(t, "", "it is said to work")(s.Ping(ctx))
	fails(t, store.ErrNotFound, "reading")(s.Address(ctx, "a"))
	run(t, other, "ROLLBACK")
	accept(t, s, callback("c0", "b"))

	second := proxytest.SQLite(t)
	other = raw(t, second)
	run(t, other, "BEGIN EXCLUSIVE")
	fails(t, "another process has it locked", "opening")(store.OpenSmall(ctx, second, 0))
	run(t, other, "ROLLBACK")
	openSmall(t, second, 0)
}

// Two stores can use one file at the same time, for a restart without a gap.
func TestTwoStoresOnOneFile(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	first, second := open(t, url), open(t, url)
	for i, s := range []*store.Store{first, second, first, second} {
		accept(t, s, callback(fmt.Sprint("c", i), fmt.Sprint(i)))
	}
	claimed := claim(t, first, noon)
	equal(t, ids(claimed), []string{"c0", "c1", "c2", "c3"}, "the first")
	equal(t, ids(claim(t, second, noon)), nil, "the second")
	must(t, first.Close())
	finish(t, second, claimed[0], noon, store.Delivered)
	accept(t, second, callback("c4", "4"))
}

// A caller that cancels its write does not make others fail.
func TestCancelledCallerDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"file": proxytest.SQLite(t), "memory": "memory:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, url)
			release := s.Hold()
			patient, gone := context.Background(), make(chan error, 1)
			hasty, cancel := context.WithCancel(patient)
			stayed := make(chan error, 2)
			send := func(ctx context.Context, id string, answer chan error) {
				_, err := s.Accept(ctx, callback(id, id), time.Minute)
				answer <- err
			}
			go send(patient, "c1", stayed)
			go send(hasty, "c2", gone)
			go send(patient, "c3", stayed)
			proxytest.Eventually(t, func() bool { return s.Waiting() == 3 }, nil)
			cancel()
			fails(t, context.Canceled, "the one that went")(<-gone)
			release()
			for range 2 {
				must(t, <-stayed)
			}
			fails(t, context.Canceled, "reading")(s.Get(hasty, "c1"))
			equal(t, get(t, s, "c1").State, store.Waiting, "c1")
			equal(t, get(t, s, "c3").State, store.Waiting, "c3")
		})
	}
}
