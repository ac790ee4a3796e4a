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

// openWith opens a store with keys; the first encrypts, if it is not nil.
func openWith(t testing.TB, url string, key []byte, old ...[]byte) *store.Store {
	t.Helper()
	s, err := store.OpenSmall(t.Context(), url, 0, store.Keys{Key: key, Old: old})
	return closed(t, s, err)
}

// keyIDs are the keys of the rows of a database, by table.
func keyIDs(t testing.TB, url string) string {
	t.Helper()
	var all []string
	for _, table := range []string{"addresses", "callbacks"} {
		rows, err := raw(t, url).Query("SELECT DISTINCT key_id FROM billbridge_" + table + " ORDER BY key_id")
		must(t, err)
		for rows.Next() {
			var id string
			must(t, rows.Scan(&id))
			all = append(all, id)
		}
		_ = rows.Close()
	}
	return strings.Join(all, " ")
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
		fails(t, "the body of callback c1 cannot be decrypted", "a changed row")(s.Get(t.Context(), "c1"))
	})
}

// Without a key that rows need, Open fails, names the id of the key, and changes nothing.
func TestMissingKeyIsRefusedAtTheStart(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		s := openWith(t, url, keyA)
		bind(t, s, address("a", "b"))
		accept(t, s, callback("c1", "b"))
		for _, keys := range []store.Keys{{}, {Key: keyB}, {Old: [][]byte{keyB}}} {
			_, opened := store.Open(ctx, url, store.Options{Keys: keys})
			for _, err := range []error{opened, store.Probe(ctx, url, store.Options{Keys: keys})} {
				if err == nil || !strings.Contains(err.Error(), "encrypted with the key "+store.KeyID(keyA)+", which is neither store.key nor one of store.old_keys (given: ") ||
					keys.Key != nil && !strings.Contains(err.Error(), store.KeyID(keyB)) {
					t.Errorf("%v", err)
				}
			}
		}
		for _, key := range [][]byte{{}, keyA[1:], bytes.Repeat(keyA, 2)} {
			fails(t, "but must have 32", len(key))(store.Open(ctx, url, store.Options{Keys: store.Keys{Key: key}}))
		}
		for _, keys := range []store.Keys{{Key: keyA}, {Key: keyB, Old: [][]byte{keyA}}, {Old: [][]byte{keyB, keyA}}} {
			must(t, store.Probe(ctx, url, store.Options{Keys: keys}))
			again := openWith(t, url, keys.Key, keys.Old...)
			equal(t, string(get(t, again, "c1").Body), `{"id":"c1"}`, "the body")
		}
	})
}

// Recrypt encrypts all rows with the current key; without a current key it decrypts them.
func TestKeysCanBeChanged(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		const many = 25 // more than two batches
		s := open(t, url)
		for i := range many {
			bind(t, s, address(fmt.Sprintf("a%03d", i), "b"))
			accept(t, s, callback(fmt.Sprintf("c%03d", i), fmt.Sprint("b", i)))
		}
		bind(t, s, registration("r", "s", noon))
		become(t, s, callback("erased", "e"), store.Delivered)
		if n, err := s.SweepBodies(t.Context(), noon.Add(time.Hour), time.Minute); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		a, b := store.KeyID(keyA), store.KeyID(keyB)
		for _, step := range []struct {
			key  []byte
			old  [][]byte
			n    int
			want string
		}{
			{nil, nil, 0, " "},
			{keyA, nil, 2*many + 2, a + " " + a},
			{keyB, [][]byte{keyA}, 2*many + 2, b + " " + b},
			{keyB, nil, 0, b + " " + b},
			{nil, [][]byte{keyB}, 2*many + 2, " "},
		} {
			s := openWith(t, url, step.key, step.old...)
			for _, want := range []int{step.n, 0} {
				gives(t, want, "Recrypt")(s.Recrypt(t.Context()))
			}
			equal(t, keyIDs(t, url), step.want, "the keys")
			for _, i := range []int{0, 9, 10, many - 1} {
				c := get(t, s, fmt.Sprintf("c%03d", i))
				equal(t, string(c.Body), string(callback(c.ID, "b").Body), "body")
				equal(t, c.URL, callback("", "").URL, "url")
				if got, err := s.Address(t.Context(), fmt.Sprintf("a%03d", i)); err != nil || got.URL != address("", "").URL {
					t.Errorf("%s, %v", got.URL, err)
				}
			}
			if c := get(t, s, "erased"); len(c.Body) > 0 || c.Erased.IsZero() {
				t.Errorf("%+v", c)
			}
		}
	})
}

// Once all rows are encrypted, also at another start and whatever the state in the database was changed to, a row without encryption is refused
// and named, and is not encrypted. Others are delivered.
func TestRowsOfAnEncryptedStoreCannotBeMadePlain(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"a new store", "after its first key"} {
		for state, alter := range map[string]string{
			"as it was":   "UPDATE billbridge_secret SET plain = plain",
			"removed":     "UPDATE billbridge_secret SET plain = ''",
			"invented":    "UPDATE billbridge_secret SET plain = '9999999999999 0123456789abcdef'",
			"for another": "UPDATE billbridge_secret SET plain = replace(plain, '0 ', '9999999999999 ')",
		} {
			t.Run(way+", its state "+state, func(t *testing.T) {
				t.Parallel()
				proxytest.Each(t, func(t *testing.T, url string) {
					ctx := t.Context()
					key := [][]byte{nil, keyA}
					if way == "a new store" {
						key = key[1:]
					}
					var s *store.Store
					for i, k := range key {
						s = openWith(t, url, k)
						if i == 0 {
							bind(t, s, address("moved", "b1")) // a real id has more digits, of which the error shows some
							accept(t, s, callback("moved", "b1"))
							accept(t, s, callback("kept", "b2"))
						}
						works(t)(s.Recrypt(ctx))
						if i < len(key)-1 {
							_ = s.Close()
						}
					}
					db := raw(t, url)
					run(t, db, alter, "UPDATE billbridge_addresses SET url = 'https://thief.example.com', key_id = '' WHERE id = 'moved'",
						"UPDATE billbridge_callbacks SET url = 'https://thief.example.com', key_id = '' WHERE id = 'moved'")
					if _, err := s.Address(ctx, "moved"); err == nil || s.Refused() != 1 {
						t.Errorf("%v, %d are counted", err, s.Refused())
					}
					for _, s := range []*store.Store{openWith(t, url, keyA), openWith(t, url, keyB, keyA)} {
						run(t, db, "UPDATE billbridge_callbacks SET lease = '', due = next")
						_, addressed := s.Address(ctx, "moved")
						claimed, err := s.Claim(ctx, noon, time.Minute, 10, 10, 10, nil)
						equal(t, ids(claimed), []string{"kept"}, "claimed")
						_, recrypted := s.Recrypt(ctx)
						for _, err := range []error{addressed, err, recrypted} {
							fails(t, "moved is not encrypted, but the store is: the row was changed")(err)
						}
						equal(t, strings.Count(recrypted.Error(), "moved"), 2, recrypted)
						if s.Refused() < 4 {
							t.Errorf("%d are counted", s.Refused())
						}
						list, err := onePage(t, s, store.Filter{})
						if err != nil || len(list) != 2 || list[1].ID != "moved" || list[1].URL != "" {
							t.Errorf("%+v, %v", list, err)
						}
					}
					equal(t, keyIDs(t, url), " "+" "+store.KeyID(keyB), "the keys")
				})
			})
		}
	}
}

// Gateways get their first key one after the other: what one without a key writes until it ends is encrypted.
func TestFirstKeyAtOneGatewayAfterTheOther(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		behind := open(t, url)
		ahead := openWith(t, url, keyA)
		gives(t, 0)(ahead.Recrypt(ctx))
		bind(t, behind, address("a", "b"))
		works(t)(ahead.Address(ctx, "a"))
		must(t, behind.Close())
		again := openWith(t, url, keyA)
		for want := range 2 {
			gives(t, 1-want)(again.Recrypt(ctx))
		}
		equal(t, keyIDs(t, url), store.KeyID(keyA), "the keys")
		// Without a key rows are plain, and with one they are encrypted, as the first time.
		_, _ = ahead.Close(), again.Close()
		for _, key := range [][][]byte{{nil, keyA}, {keyA}} {
			s := openWith(t, url, key[0], key[1:]...)
			gives(t, 1)(s.Recrypt(ctx))
			_ = s.Close()
		}
	})
}

// A replica that does not have the new key claims only callbacks that it can decrypt.
func TestCallbackOfAnUnknownKeyIsNotClaimed(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		behind, ahead := openWith(t, url, keyA), openWith(t, url, keyB, keyA)
		accept(t, ahead, callback("new", "b1"))
		accept(t, behind, callback("old", "b2"))
		claimed, err := behind.Claim(t.Context(), noon, time.Minute, 10, 10, 10, nil)
		fails(t, store.KeyID(keyB))(err)
		equal(t, ids(claimed), []string{"old"}, "claimed")
		equal(t, ids(claim(t, ahead, noon.Add(2*time.Minute))), []string{"new", "old"}, "claimed by the other")
	})
}

// Rights of others to the file, its log and its index are removed and reported.
func TestFileOfTheStoreIsNarrowed(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	file := strings.TrimPrefix(url, "sqlite:")
	first := open(t, url)
	equal(t, first.Narrowed(), 0, "of a new file")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Chmod(file+suffix, 0o644))
	}
	link := file + ".link"
	must(t, os.Symlink(file, link))
	equal(t, open(t, "sqlite:"+link).Narrowed(), 0o644, "before")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(file + suffix)
		must(t, err)
		equal(t, info.Mode().Perm(), 0o600, suffix)
	}
	equal(t, open(t, url).Narrowed(), 0, "the next time")
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
