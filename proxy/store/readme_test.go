package store_test

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// The commands in README.md copy a store and restore it unchanged.
func TestReadmeBackupOfPostgreSQL(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	must(t, err)
	dump := regexp.MustCompile(`(?m)^\$ (pg_dump .+)$`).FindSubmatch(readme)
	restore := regexp.MustCompile("`(dropdb [^`]+)`").FindSubmatch(readme)
	if dump == nil || restore == nil {
		t.Fatal("README.md does not say how to back up and restore PostgreSQL")
	}
	if _, err := exec.LookPath("pg_dump"); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	// The user of the store is an ordinary one, as that of PostgreSQL 15 it may not create tables in databases of others.
	at, server := database(t, "readme"), proxytest.Postgres(t)
	run(t, raw(t, server), "DROP ROLE IF EXISTS ordinary", "CREATE ROLE ordinary LOGIN", "ALTER DATABASE readme OWNER TO ordinary")
	u, err := url.Parse(at)
	must(t, err)
	u.User = url.User("ordinary")
	at = u.String()
	dir := t.TempDir()
	types := func(command []byte) {
		t.Helper()
		shell := exec.Command("sh", "-c", strings.NewReplacer("NAME", "readme", "=USER", "=ordinary").Replace(string(command)))
		shell.Dir, shell.Env = dir, append(os.Environ(), "STORE_URL="+at, "SERVER_URL="+strings.Replace(server, "search_path", "application_name", 1))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	s := open(t, at)
	settle(t, s, own(t, s, "before", "old"), ledger.Succeeded)
	types(dump[1])
	settle(t, s, own(t, s, "after", "old"), ledger.Succeeded)
	must(t, s.Close())
	types(restore[1])
	s = open(t, at)
	if o := ownerOf(t, s, "before"); o.State != ledger.Owned || o.Upstream != "old" {
		t.Errorf("a bill from before the backup is %+v", o)
	}
	if o, err := proxytest.On(s).Owner(t.Context(), partnerOne, "after"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a bill that was made after the backup is %+v, %v", o, err)
	}
}

// database makes a database of its own in the server of the tests: a restore would empty the one that they share.
func database(t *testing.T, name string) string {
	t.Helper()
	shared := proxytest.Postgres(t)
	run(t, raw(t, shared), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // with -count
	run(t, raw(t, shared), "CREATE DATABASE "+name)
	u, err := url.Parse(shared)
	must(t, err)
	u.Path, u.RawQuery = "/"+name, url.Values{"host": {u.Query().Get("host")}}.Encode()
	return u.String()
}
