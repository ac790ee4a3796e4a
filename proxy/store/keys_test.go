package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

var (
	keyA = bytes.Repeat([]byte{0xA}, store.KeyLength)
	keyB = bytes.Repeat([]byte{0xB}, store.KeyLength)
)

// openWith opens a store with a key, nil for none.
func openWith(t testing.TB, url string, key []byte) *store.Store {
	t.Helper()
	s, err := store.OpenSmall(t.Context(), url, 0, key)
	return closed(t, s, err)
}

// With a key, addresses and bodies are encrypted in the database, and are read back unchanged.
func TestR35_KeyEncryptsWhatIsSent(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := openWith(t, url, keyA)
		a, c := address("a", "b"), callback("c1", "b")
		a.URL, c.URL, c.Body = "https://one.example.com/?canary-1", "https://one.example.com/?canary-2", []byte("canary-3")
		bind(t, s, a)
		accept(t, s, c)
		empty := callback("c2", "b2")
		empty.Body = nil
		accept(t, s, empty)
		got, err := s.Address(t.Context(), "a")
		must(t, err)
		equal(t, got, a, "address")
		list, err := onePage(t, s, store.Filter{Bill: "b"})
		if err != nil || len(list) != 1 || list[0].URL != c.URL {
			t.Errorf("List: %+v, %v", list, err)
		}
		for _, got := range []store.Callback{get(t, s, "c1"), claim(t, s, noon)[0].Callback} {
			if got.URL != c.URL || string(got.Body) != "canary-3" {
				t.Errorf("%+v", got)
			}
		}
		equal(t, len(get(t, s, "c2").Body), 0, "an empty body")
		var address, callback string
		var body []byte
		must(t, errors.Join(
			raw(t, url).QueryRow("SELECT url FROM billbridge_addresses").Scan(&address),
			raw(t, url).QueryRow("SELECT url, body FROM billbridge_callbacks WHERE id = 'c1'").Scan(&callback, &body),
		))
		for _, text := range []string{address, callback, string(body)} {
			if strings.Contains(text, "canary") || strings.Contains(text, "example") || text == "" {
				t.Errorf("the database has %q", text)
			}
		}
		// A value that was copied from another row is refused.
		run(t, raw(t, url), "UPDATE billbridge_callbacks SET body = (SELECT body FROM billbridge_callbacks WHERE id = 'c2') WHERE id = 'c1'")
		fails(t, "the body of callback c1 is not encrypted with the key "+store.KeyID(keyA)+": the row was changed", "a changed row")(s.Get(t.Context(), "c1"))
	})
}

// A store is encrypted with the key of its first start, or not at all. Another one, none, or one although there was none is refused at
// the start, with the command that changes it.
func TestAnotherKeyIsRefusedAtTheStart(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		refused := func(key []byte, want string) {
			t.Helper()
			_, opened := store.Open(ctx, url, store.Options{Key: key})
			for _, err := range []error{opened, store.Probe(ctx, url, store.Options{Key: key})} {
				fails(t, want)(err)
				fails(t, "stop all gateways and run billbridge store key")(err)
			}
		}
		must(t, store.Probe(ctx, url, store.Options{Key: keyA}))
		s := openWith(t, url, keyA)
		refused(nil, "the store is encrypted with the key "+store.KeyID(keyA)+", but store.key is not set: set it") // also without a row
		bind(t, s, address("a", "b"))
		accept(t, s, callback("c1", "b"))
		refused(nil, "the store is encrypted with the key "+store.KeyID(keyA)+", but store.key is not set: set it")
		refused(keyB, "the store is encrypted with the key "+store.KeyID(keyA)+", but store.key is the key "+store.KeyID(keyB)+": set the key "+store.KeyID(keyA))
		must(t, store.Probe(ctx, url, store.Options{Key: keyA}))
		equal(t, string(get(t, openWith(t, url, keyA), "c1").Body), `{"id":"c1"}`, "the body")
		for _, key := range [][]byte{{}, keyA[1:], bytes.Repeat(keyA, 2)} {
			fails(t, "but must have 32", len(key))(store.Open(ctx, url, store.Options{Key: key}))
		}
		_ = s.Close()
	})
	proxytest.Each(t, func(t *testing.T, url string) {
		accept(t, open(t, url), callback("c1", "b"))
		_, opened := store.Open(t.Context(), url, store.Options{Key: keyA})
		for _, err := range []error{opened, store.Probe(t.Context(), url, store.Options{Key: keyA})} {
			fails(t, "store.key is set, but the store is not encrypted: stop all gateways and run billbridge store key, which encrypts it")(err)
		}
	})
}

// ChangeKey encrypts all rows with another key, or decrypts them, and says what does not fit.
func TestKeyCanBeChanged(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		const many = 2*store.RecryptAtOnce + 1
		ctx := t.Context()
		s := open(t, url)
		for i := range many {
			bind(t, s, address(fmt.Sprintf("a%03d", i), "b"))
			accept(t, s, callback(fmt.Sprintf("c%03d", i), fmt.Sprint("b", i)))
		}
		bind(t, s, registration("r", "s", noon))
		become(t, s, callback("erased", "e"), store.Delivered)
		if n, err := s.SweepBodies(ctx, noon.Add(time.Hour), time.Minute); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		fails(t, "a gateway has written to the store in the last 2m0s: stop all gateways")(store.ChangeKey(ctx, url, nil, keyA))
		must(t, s.Close())
		a, b := store.KeyID(keyA), store.KeyID(keyB)
		for _, step := range []struct {
			from, to []byte
			refused  string
		}{
			{keyA, keyB, "the store is not encrypted: give no old key"},
			{nil, nil, "there is nothing to change: the store has the key of the config already"},
			{nil, keyA, ""},
			{nil, keyA, "there is nothing to change: the store has the key of the config already"},
			{nil, keyB, "the store is encrypted with the key " + a + ": give it as the old key"},
			{keyB, nil, "the store is encrypted with the key " + a + ", but the old key is " + b},
			{keyA, keyB[1:], "a key has 31 bytes"},
			{keyA, keyB, ""},
			{keyB, nil, ""},
		} {
			if step.refused != "" {
				fails(t, step.refused)(store.ChangeKey(ctx, url, step.from, step.to))
				continue
			}
			gives(t, 2*many+2)(store.ChangeKey(ctx, url, step.from, step.to))
			s := openWith(t, url, step.to)
			for _, i := range []int{0, store.RecryptAtOnce - 1, store.RecryptAtOnce, many - 1} {
				c := get(t, s, fmt.Sprintf("c%03d", i))
				equal(t, string(c.Body), string(callback(c.ID, "b").Body), "body")
				equal(t, c.URL, callback("", "").URL, "url")
				if got, err := s.Address(ctx, fmt.Sprintf("a%03d", i)); err != nil || got.URL != address("", "").URL {
					t.Errorf("%s, %v", got.URL, err)
				}
			}
			if c := get(t, s, "erased"); len(c.Body) > 0 || c.Erased.IsZero() {
				t.Errorf("%+v", c)
			}
			must(t, s.Close())
		}
	})
}

// A gateway that was asleep while the key was changed writes no row with the old one when it wakes.
func TestSleepingGatewayNoticesANewKey(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		asleep := openWith(t, url, keyA)
		run(t, raw(t, url), "UPDATE billbridge_gateways SET at = 0")
		gives(t, 0)(store.ChangeKey(t.Context(), url, keyA, keyB))
		for range 2 {
			if fresh, err := isFresh(asleep.Accept(t.Context(), callback("c1", "b"), 0)); fresh || err == nil {
				t.Errorf("%v, %v", fresh, err)
			}
		}
		list, err := onePage(t, openWith(t, url, keyB), store.Filter{})
		if err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// A row that was changed by somebody without the key is refused and named, and others are delivered. The key is not changed then, nor
// removed: without a key the row would be believed.
func TestRowsOfAnEncryptedStoreCannotBeMadePlain(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := openWith(t, url, keyA)
		bind(t, s, address("moved", "b1")) // a real id has more digits, of which the error shows some
		accept(t, s, callback("moved", "b1"))
		accept(t, s, callback("kept", "b2"))
		db := raw(t, url)
		run(t, db, "UPDATE billbridge_addresses SET url = 'https://thief.example.com' WHERE id = 'moved'",
			"UPDATE billbridge_callbacks SET url = 'https://thief.example.com' WHERE id = 'moved'")
		for again := range 2 {
			if again == 1 {
				must(t, s.Close())
				for _, to := range [][]byte{keyB, nil} {
					fails(t, "nothing was changed: restore or delete these rows first: the url of address moved is not encrypted with the key "+store.KeyID(keyA)+
						": the row was changed\nthe url of callback moved is not ")(store.ChangeKey(ctx, url, keyA, to))
				}
				s = openWith(t, url, keyA)
			}
			run(t, db, "UPDATE billbridge_callbacks SET lease = '', due = next")
			_, addressed := s.Address(ctx, "moved")
			claimed, err := s.Claim(ctx, noon, time.Minute, 10, 10, 10, nil)
			equal(t, ids(claimed), []string{"kept"}, "claimed")
			for _, err := range []error{addressed, err} {
				fails(t, "moved is not encrypted with the key "+store.KeyID(keyA)+": the row was changed")(err)
			}
			list, err := onePage(t, s, store.Filter{})
			if err != nil || len(list) != 2 || list[1].ID != "moved" || list[1].URL != "" {
				t.Errorf("%+v, %v", list, err)
			}
			equal(t, s.Refused(), 3, "counted")
		}
	})
}

// Rights of others to the file, its log and its index are removed and reported.
func TestFileOfTheStoreIsNarrowed(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	file := strings.TrimPrefix(url, "sqlite:")
	first := open(t, url)
	equal(t, first.Narrowed, 0, "of a new file")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Chmod(file+suffix, 0o644))
	}
	link := file + ".link"
	must(t, os.Symlink(file, link))
	equal(t, open(t, "sqlite:"+link).Narrowed, 0o644, "before")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(file + suffix)
		must(t, err)
		equal(t, info.Mode().Perm(), 0o600, suffix)
	}
	equal(t, open(t, url).Narrowed, 0, "the next time")
}

// What is not there was not changed without the key: anybody can ask for it.
func TestMissingRowIsNoChangedRow(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := openWith(t, url, keyA)
		bind(t, s, address("a", "b"))
		accept(t, s, callback("c1", "b"))
		for _, id := range []string{"", "none", strings.Repeat("0", 32)} {
			if _, err := s.Address(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the address %q: %v", id, err)
			}
			if _, err := s.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the callback %q: %v", id, err)
			}
		}
		// A statement that fails has read nothing either.
		run(t, raw(t, url), "ALTER TABLE billbridge_callbacks RENAME COLUMN says TO said")
		if _, err := s.Claim(t.Context(), noon, time.Minute, 1, 1, 1, nil); err == nil {
			t.Error("the claim did not fail")
		}
		equal(t, s.Refused(), 0, "changed rows")
	})
}
