package store_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// An invented version that follows the last one. Like every new version it only adds.
const addition = `-- Readable from version 1.
ALTER TABLE billbridge_bills ADD COLUMN invented INTEGER NOT NULL DEFAULT 7;
ALTER TABLE billbridge_callbacks ADD COLUMN invented TEXT;
CREATE TABLE billbridge_invented (name TEXT PRIMARY KEY);
CREATE INDEX billbridge_bills_invented ON billbridge_bills (invented);`

// openNewer opens a store with the program of the version that has the addition.
func openNewer(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.OpenNewer(t.Context(), url, addition)
	return closed(t, s, err)
}

// use makes a gateway create a bill, record a callback and deliver it, and change a stage: none may be refused.
func use(t *testing.T, s *store.Store, bill string) {
	t.Helper()
	settle(t, s, own(t, s, bill, "old"), ledger.Succeeded)
	become(t, s, callback("callback of "+bill, bill), store.Delivered)
	must(t, s.Change(t.Context(), store.Change{Action: store.Staged, By: "anna", At: noon, Partner: partnerOne, To: bill}))
	equal(t, ownerOf(t, s, bill).State, ledger.Owned, bill)
}

// A gateway of the version before works beside one of a newer version, is started again, and sees what that one wrote: going back needs
// no restore.
func TestVersionBeforeRunsBesideANewerOne(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		before := open(t, url)
		create := own(t, before, "under way", "old")
		newer := openNewer(t, url)
		settle(t, before, create, ledger.Succeeded)
		for i, s := range []*store.Store{before, newer, open(t, url)} {
			use(t, s, fmt.Sprint("bill ", i))
			for earlier := range i {
				equal(t, ownerOf(t, s, fmt.Sprint("bill ", earlier)).State, ledger.Owned, "a bill of another gateway")
			}
		}
		must(t, store.Probe(t.Context(), url))
		equal(t, versionOf(t, url), [2]int{newest(t) + 1, 1}, "the version, and from which it can be used")
	})
}

// A database that this version cannot use is refused and not changed.
func TestNewerSchemaIsRefused(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		must(t, open(t, url).Close())
		next := newest(t) + 1
		newer, err := store.OpenNewer(t.Context(), url, fmt.Sprintf("-- Readable from version %d.\nALTER TABLE billbridge_seen RENAME COLUMN seen TO invented", next))
		must(t, err)
		must(t, newer.Close())
		_, opened := store.Open(t.Context(), url)
		for _, err := range []error{opened, store.Probe(t.Context(), url)} {
			fails(t, fmt.Sprintf("its schema has version %d, which versions from %d on can use, and this billbridge knows versions up to %d: a newer billbridge created it",
				next, next, newest(t)))(err)
		}
		equal(t, versionOf(t, url), [2]int{next, next}, "the version")
	})
}

// If a migration fails, the database stays at the version before. A migration must say which versions can use the tables.
func TestMigrationFails(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		use(t, s, "b")
		for want, migration := range map[string]string{
			fmt.Sprintf("migration %d: ", newest(t)+1):          addition + "CREATE TABLE billbridge_bills (twice INTEGER);",
			"does not say from which version on it is readable": "CREATE TABLE billbridge_invented (name TEXT)",
		} {
			fails(t, want)(store.OpenNewer(t.Context(), url, migration))
			equal(t, versionOf(t, url), [2]int{newest(t), 1}, "the version")
			fails(t, "", "a table of it was left")(raw(t, url).Exec("SELECT * FROM billbridge_invented"))
		}
		use(t, s, "c")
		use(t, openNewer(t, url), "d")
	})
}

// The store that the first version left is upgraded, with a newer version too, and used. Then it has the tables of a new store.
func TestStoreOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	for engine, unpacked := range map[string]func(t *testing.T) (url, fresh string){
		"sqlite": func(t *testing.T) (string, string) {
			url := proxytest.SQLite(t)
			if *update {
				writeFirstVersion(t, url)
				packed := &bytes.Buffer{}
				w := gzip.NewWriter(packed)
				data, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:"))
				must(t, err)
				works(t)(w.Write(data))
				must(t, errors.Join(w.Close(), os.WriteFile("testdata/versions/v1.db.gz", packed.Bytes(), 0o644)))
			}
			packed, err := os.ReadFile("testdata/versions/v1.db.gz")
			must(t, err)
			r, err := gzip.NewReader(bytes.NewReader(packed))
			must(t, err)
			data, err := io.ReadAll(r)
			must(t, errors.Join(err, os.WriteFile(strings.TrimPrefix(url, "sqlite:"), data, 0o600)))
			return url, proxytest.SQLite(t)
		},
		"postgres": func(t *testing.T) (string, string) {
			if _, err := exec.LookPath("pg_restore"); err != nil && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			runs := func(name string, arguments ...string) {
				t.Helper()
				if out, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", name, err, out)
				}
			}
			url := database(t, "version1")
			if *update {
				writeFirstVersion(t, url)
				runs("pg_dump", "-Fc", "--no-owner", "-f", "testdata/versions/v1.dump", url)
				url = database(t, "version1")
			}
			runs("pg_restore", "--no-owner", "--exit-on-error", "--single-transaction", "-d", url, "testdata/versions/v1.dump")
			return url, proxytest.Postgres(t)
		},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url, fresh := unpacked(t)
			equal(t, versionOf(t, url), [2]int{1, 1}, "the version")
			for i, opened := range []func(*testing.T, string) *store.Store{
				func(t *testing.T, url string) *store.Store { return open(t, url) }, openNewer,
				func(t *testing.T, url string) *store.Store { return open(t, url) },
			} {
				s := opened(t, url)
				use(t, s, fmt.Sprint("later ", i))
				equal(t, ownerOf(t, s, "first").State, ledger.Owned, "a bill of the first version")
				equal(t, string(get(t, s, "waiting").Body), `{"id":"waiting"}`, "its callback")
			}
			_ = openNewer(t, fresh)
			equal(t, tablesOf(t, url), tablesOf(t, fresh), "the tables; if no version was released since, write the dumps anew with -update")
		})
	}
}

// writeFirstVersion writes the store that testdata/versions keeps.
func writeFirstVersion(t *testing.T, url string) {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	must(t, err)
	use(t, s, "first")
	accept(t, s, callback("waiting", "second"))
	must(t, s.Close())
}

// versionOf is the version of a database, and from which version on it can be used.
func versionOf(t *testing.T, url string) (is [2]int) {
	t.Helper()
	must(t, raw(t, url).QueryRow("SELECT max(version), max(readable_from) FROM billbridge_schema").Scan(&is[0], &is[1]))
	return is
}

// tablesOf are the columns and the indexes of a database.
func tablesOf(t *testing.T, url string) (all []string) {
	t.Helper()
	query := `SELECT m.name || '.' || c.name || ' ' || c.type || c."notnull" || coalesce(c.dflt_value, '')
		FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'
		UNION SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL`
	if strings.HasPrefix(url, "postgres") {
		query = `SELECT table_name || '.' || column_name || ' ' || data_type || is_nullable || coalesce(column_default, '')
			FROM information_schema.columns WHERE table_schema = current_schema()
			UNION SELECT replace(indexdef, ' ' || schemaname || '.', ' ') FROM pg_indexes WHERE schemaname = current_schema()`
	}
	rows, err := raw(t, url).Query(query)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var one string
		must(t, rows.Scan(&one))
		all = append(all, one)
	}
	must(t, rows.Err())
	slices.Sort(all)
	return all
}

// TestEnginesHaveTheSameTables: both engines have the same columns.
func TestEnginesHaveTheSameTables(t *testing.T) {
	t.Parallel()
	columns := func(url string) (all []string) {
		_ = open(t, url)
		for _, one := range tablesOf(t, url) {
			if name := regexp.MustCompile(`^(billbridge_\w+\.\w+) `).FindStringSubmatch(one); name != nil {
				all = append(all, name[1])
			}
		}
		return all
	}
	equal(t, columns(proxytest.Postgres(t)), columns(proxytest.SQLite(t)), "columns")
}
