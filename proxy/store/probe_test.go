package store_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// refused is an error of both Open and Probe, with a text in it.
func refused(t *testing.T, url, want string) {
	t.Helper()
	s, opened := store.OpenSmall(t.Context(), url, 0)
	if opened == nil {
		_ = s.Close()
	}
	for what, err := range map[string]error{"Open": opened, "Probe": store.ProbeSmall(t.Context(), url)} {
		if err == nil || !strings.HasPrefix(err.Error(), "store") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of %s: %v, want %s", what, url, err, want)
		}
	}
}

// contents are the files of a folder.
func contents(t testing.TB, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		must(t, err)
		files[entry.Name()] = string(text)
	}
	return files
}

// asLeft copies an open database and its log: the files of a process that is killed now.
func asLeft(t testing.TB, file, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(file + suffix)
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %d bytes, %v", file+suffix, len(text), err)
		}
		must(t, os.WriteFile(to+suffix, text, 0o600))
	}
}

func TestOpenRefusesPaths(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	dangling := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Join(folder, "nothing"), dangling))
	for url, want := range map[string]string{
		"":                                  "must begin with",
		"mysql://root:hidden@example.com/x": "must begin with",
		"memory:x":                          "takes nothing",
		"sqlite:":                           "needs the path",
		"sqlite:" + folder:                  "not a file",
		"sqlite:" + folder + "/none/store":  "no folder " + folder + "/none",
		"sqlite:" + dangling:                "no such file",
	} {
		refused(t, url, want)
	}
	equal(t, contents(t, folder), map[string]string{}, "left behind")
}

// A file of another program is refused, and neither it nor its folder changes.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, path string){
		"a database":              func(t *testing.T, path string) { run(t, raw(t, "sqlite:"+path), "CREATE TABLE t (a)") },
		"a database with a mark":  func(t *testing.T, path string) { run(t, raw(t, "sqlite:"+path), "PRAGMA application_id = 5") },
		"a database with a count": func(t *testing.T, path string) { run(t, raw(t, "sqlite:"+path), "PRAGMA user_version = 5") },
		"a database with a log": func(t *testing.T, path string) {
			file := filepath.Join(t.TempDir(), "file")
			run(t, raw(t, "sqlite:"+file), "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)", "PRAGMA wal_checkpoint", "INSERT INTO t VALUES (1)")
			asLeft(t, file, path)
		},
		"a text": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("not a database\n", 1000)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			make(t, filepath.Join(folder, "file"))
			before := contents(t, folder)
			refused(t, "sqlite:"+filepath.Join(folder, "file"), "it is not a store of billbridge")
			if after := contents(t, folder); len(before["file"]) == 0 || !maps.Equal(before, after) {
				t.Error("something changed")
			}
		})
	}
}

// Probe succeeds for a store that could be opened, existing or not, and changes nothing.
func TestProbe(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		probe := func() {
			t.Helper()
			must(t, store.Probe(t.Context(), url))
		}
		file, lite := strings.CutPrefix(url, "sqlite:")
		tables := func() (n int) {
			t.Helper()
			must(t, raw(t, url).QueryRow("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").Scan(&n))
			return n
		}
		probe()
		if lite {
			equal(t, contents(t, filepath.Dir(file)), map[string]string{}, "files")
			must(t, os.WriteFile(file, nil, 0o600))
			probe()
			equal(t, contents(t, filepath.Dir(file)), map[string]string{"store.db": ""}, "files")
		} else {
			equal(t, tables(), 0, "tables")
		}

		s := open(t, url)
		accept(t, s, callback("c1", "b"))
		probe() // while another process has it open
		accept(t, s, callback("c2", "b"))
		must(t, s.Close())
		if lite {
			before := contents(t, filepath.Dir(file))
			probe()
			if after := contents(t, filepath.Dir(file)); len(after) != 1 || after["store.db"] != before["store.db"] {
				t.Errorf("something changed: %d files", len(after))
			}
		}
		probe()
		equal(t, ids(claim(t, open(t, url), noon)), []string{"c1"})
	})
	must(t, store.Probe(t.Context(), "memory:"))
}

// Rows in the log of a killed process are there after a probe.
func TestProbeAfterAKill(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	s := open(t, url)
	accept(t, s, callback("c1", "b"))
	left := filepath.Join(t.TempDir(), "store.db")
	asLeft(t, strings.TrimPrefix(url, "sqlite:"), left)
	copied := "sqlite:" + left
	must(t, store.Probe(t.Context(), copied))
	get(t, open(t, copied), "c1")
}

// Neither a probe nor the process that writes fails, however fast the file changes.
func TestProbeDuringWrites(t *testing.T) {
	t.Parallel()
	url := proxytest.SQLite(t)
	process, said := startVictim(t, url, "callbacks")
	var acknowledged []string
	probed := make(chan error, 1)
	for said.Scan() {
		acknowledged = append(acknowledged, said.Text())
		switch len(acknowledged) {
		case 1:
			go func() {
				for range 200 {
					// The writer never pauses, so on a busy machine a probe may not get the lock in its time.
					err := store.Probe(t.Context(), url)
					if err != nil && !strings.Contains(err.Error(), "another process has it locked") {
						probed <- err
						return
					}
				}
				probed <- nil
			}()
		default:
			if len(probed) == 1 {
				_ = process.Kill() // it says no more
			}
		}
	}
	must(t, <-probed)
	s := open(t, url)
	for _, id := range acknowledged {
		get(t, s, id)
	}
}

// A probe of a locked file waits for a limited time.
func TestProbeOfALockedFile(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"IMMEDIATE", "EXCLUSIVE"} {
		url := proxytest.SQLite(t)
		must(t, open(t, url).Close())
		other := raw(t, url)
		run(t, other, "BEGIN "+lock)
		refused(t, url, "another process has it locked")
		run(t, other, "ROLLBACK")
		if err := store.ProbeSmall(t.Context(), url); err != nil {
			t.Errorf("when it is free: %v", err)
		}
	}
}

// A folder without the right to create files, and a read-only file, are refused.
func TestProbeWithoutRights(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		if _, err := os.Stat("/proc/self"); err != nil {
			t.Skip("root may write everywhere")
		}
		// But for where nobody may.
		fails(t, "no file can be made in the folder /proc")(store.Probe(t.Context(), "sqlite:/proc/store.db"))
		t.Skip("the rest is not for root, who may write everywhere")
	}
	url := proxytest.SQLite(t)
	must(t, open(t, url).Close())
	file := strings.TrimPrefix(url, "sqlite:")
	mode := func(path string, mode os.FileMode) {
		t.Helper()
		must(t, os.Chmod(path, mode))
	}
	t.Cleanup(func() { mode(filepath.Dir(file), 0o700) })
	mode(file, 0o400)
	refused(t, url, "it cannot be written to")
	equal(t, len(contents(t, filepath.Dir(file))), 1, "files")
	mode(file, 0o600)
	empty := filepath.Join(filepath.Dir(file), "empty")
	must(t, os.WriteFile(empty, nil, 0o600))
	mode(filepath.Dir(file), 0o500)
	refused(t, "sqlite:"+empty, "")
	refused(t, url, "")
	err := store.Probe(t.Context(), "sqlite:"+filepath.Join(filepath.Dir(file), "missing"))
	fails(t, "no file can be made in the folder")(err)
	mode(filepath.Dir(file), 0o700)
	mode(file, 0)
	refused(t, url, "")
	mode(file, 0o600)
	must(t, store.Probe(t.Context(), url))
}

// Probe reports each error that Open or the first write would have.
func TestProbeOfPostgres(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	must(t, open(t, url).Close())
	db := raw(t, url)
	var schema string
	must(t, db.QueryRow("SELECT current_schema()").Scan(&schema))
	empty, guest, encoding := schema+"_empty", schema+"_guest", schema+"_encoding"
	run(t, db,
		"CREATE SCHEMA "+empty,
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'hidden'", guest),
		fmt.Sprintf("GRANT USAGE ON SCHEMA %s, %s TO %s", schema, empty, guest),
		fmt.Sprintf("GRANT SELECT ON billbridge_schema TO %s", guest),
		fmt.Sprintf("CREATE DATABASE %s ENCODING 'SQL_ASCII' TEMPLATE template0", encoding))
	t.Cleanup(func() { run(t, db, "DROP DATABASE "+encoding) })
	asGuest := strings.Replace(url, "postgres@", guest+":hidden@", 1)
	inEmpty := func(url string) string { return strings.Replace(url, "search_path="+schema, "search_path="+empty, 1) }
	for want, url := range map[string]string{
		"the encoding of the database must be UTF8":     strings.Replace(url, "/postgres?", "/"+encoding+"?", 1),
		"/.s.PGSQL.5432 is read-only: a standby":        url + "&default_transaction_read_only=on",
		"may not do so in the schema \"" + empty + "\"": inEmpty(asGuest),
		"may not do so in the schema \"\"":              strings.Replace(url, "search_path="+schema, "search_path=none", 1),
		"on billbridge_":                                asGuest,
		"does not exist":                                strings.Replace(url, "/postgres?", "/none?", 1),
		"127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused (store in PostgreSQL)": "postgres://bridge:hidden@127.0.0.1:1/db?sslmode=prefer", // twice, with TLS and without
	} {
		if err := store.Probe(t.Context(), url); err == nil || !strings.HasPrefix(err.Error(), "store in PostgreSQL: ") && !strings.HasSuffix(err.Error(), " (store in PostgreSQL)") ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	tables := append(tablesOfPartners(t, url), "billbridge_partner_keys", "billbridge_upstreams", "billbridge_rollout", "billbridge_attempts", "billbridge_waves",
		"billbridge_clock", "billbridge_gateways", "billbridge_announced", "billbridge_secret")
	for i, table := range tables {
		run(t, db, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s", table, guest))
		err := store.Probe(t.Context(), asGuest)
		if left := i+1 < len(tables); (err != nil) != left || left && !slices.ContainsFunc(tables[i+1:], func(name string) bool {
			return strings.Contains(err.Error(), "on "+name)
		}) {
			t.Errorf("with rights to %s: %v", tables[:i+1], err)
		}
	}
	run(t, db, fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s", empty, guest))
	if err := store.Probe(t.Context(), inEmpty(asGuest)); err != nil {
		t.Errorf("with the right to make tables: %v", err)
	}
}

// A store that takes the write of a ping and refuses most others, as on a disk that is nearly full, is not ready.
func TestPingFollowsTheWritesOfCalls(t *testing.T) {
	t.Parallel()
	url := proxytest.Postgres(t)
	s := open(t, url)
	own(t, s, "before", "new")
	run(t, raw(t, url), `CREATE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$ LANGUAGE plpgsql`,
		"CREATE TRIGGER full_disk BEFORE INSERT ON billbridge_bills FOR EACH ROW WHEN (NEW.partner <> '') EXECUTE FUNCTION full_disk()")
	for n := range 4 {
		fails(t, "", "a create was recorded")(proxytest.On(s).Own(t.Context(), partnerOne, fmt.Sprint("full-", n), "new", time.Now(), time.Time{}, ""))
	}
	fails(t, "no space left", "Ping")(s.Ping(t.Context()))
	run(t, raw(t, url), "DROP TRIGGER full_disk ON billbridge_bills")
	for n := range 6 {
		own(t, s, fmt.Sprint("room-", n), "new")
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
