package proxytest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that makes the schemas
)

// Each runs a test on every engine, in parallel, each time with a URL of a new, empty database.
func Each(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", SQLite}, {"postgres", Postgres}} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			test(t, engine.url(t))
		})
	}
}

// SQLite returns the URL of an SQLite file that does not exist yet, in a folder of the test's own.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "store.db")
}

// Postgres returns the URL of an empty schema in a private PostgreSQL server. The first call in a process starts the
// server; it ends with the process, however that ends. Without PostgreSQL on this machine the test is skipped, unless
// CI=true: then it fails. In a benchmark the server waits for its disk, as a real one does; in a test it does not.
func Postgres(t testing.TB) string {
	t.Helper()
	start := forTests
	if _, ok := t.(*testing.B); ok {
		start = forBenchmarks
	}
	server, err := start()
	if errors.Is(err, errMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal("starting PostgreSQL: ", err)
	}
	schema, err := server.empty(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// DurablePostgres is what Postgres is in a benchmark, for a program that measures and has no testing.TB.
func DurablePostgres(ctx context.Context) (string, error) {
	server, err := forBenchmarks()
	if err != nil {
		return "", err
	}
	return server.empty(ctx)
}

type server struct {
	folder  string
	schemas atomic.Int64
	leash   io.Closer // its end is the server's
}

// empty creates a schema and returns its URL. Tests share the server and its database.
func (s *server) empty(ctx context.Context) (string, error) {
	schema := fmt.Sprintf("test_%d", s.schemas.Add(1))
	db, err := sql.Open("pgx", s.url("public"))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return "", err
	}
	return s.url(schema), nil
}

func (s *server) url(schema string) string {
	// Longer than the default of two seconds, as a busy machine can take longer.
	options := url.Values{"host": {s.folder}, "search_path": {schema}, "connect_timeout": {"20"}}
	return "postgres://postgres@/postgres?" + options.Encode()
}

var (
	forTests      = sync.OnceValues(func() (*server, error) { return start("off", newData) })
	forBenchmarks = sync.OnceValues(func() (*server, error) { return start("on", newData) })

	// Data that no server has used.
	template = sync.OnceValues(func() (*server, error) { return start("", newData) })

	errMissing = errors.New(
		"PostgreSQL is not installed here: initdb is neither in PATH nor in /usr/lib/postgresql/*/bin")
)

// What makes the data of a server: initdb, or a copy of the template, whose folder is $5. A copy costs a quarter of
// initdb, and a tenth of pg_basebackup. A copy that is a standby follows the primary in the folder $6.
const (
	newData     = `"$2/initdb" -D data -U postgres -A trust -E UTF8 --no-locale --no-sync >initdb.log </dev/null`
	copyData    = `cp -r "$5/data" data`
	standbyData = copyData + `; touch data/standby.signal; ` +
		`echo "primary_conninfo = 'host=$6 user=postgres'" >>data/postgresql.auto.conf`
)

// The server hangs on the shell, and the shell on its input: when the process at the other end is gone, killed even,
// also during the start, it stops the server and removes the folder, with its shared memory (mmap).
const script = `
set -e
cd "$1"
eval "$4"
[ -z "$3" ] || "$2/pg_ctl" -D data -s -w -t 120 -l server.log \
	-o "-c fsync=$3 -c full_page_writes=$3 -c max_connections=800 -c dynamic_shared_memory_type=mmap" \
	-o "-c listen_addresses='' -c unix_socket_directories='$1'" start </dev/null
trap '' PIPE # our end may be gone already
echo ready || true
read -r end || true
"$2/pg_ctl" -D data -s -m immediate stop </dev/null || true
rm -rf "$1"
`

// start starts a server. Without fsync it makes the data only.
func start(fsync, data string, from ...string) (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "pg") // a short name: it is part of a socket's
	if err != nil {
		return nil, err
	}
	command := append([]string{"sh", "-c", script, "sh", folder, bin, fsync, data}, from...)
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		if err := exec.Command("chown", "postgres", folder).Run(); err != nil {
			return nil, err
		}
		command = append([]string{"runuser", "-u", "postgres", "--"}, command...)
	}
	if _, err := exec.LookPath("setsid"); err == nil { // Ctrl-C would end the shell before it can stop the server
		command = append([]string{"setsid"}, command...)
	}
	report, err := os.Create(filepath.Join(folder, "errors.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = report.Close() }()
	process := exec.Command(command[0], command[1:]...)
	process.Dir = "/" // ours may be closed to it
	process.Stderr = report
	leash, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		_ = leash.Close()
		said := ""
		for _, name := range []string{"errors.log", "server.log"} {
			text, _ := os.ReadFile(filepath.Join(folder, name))
			said += string(text)
		}
		return nil, errors.Join(process.Wait(), errors.New(strings.TrimSpace(said)), os.RemoveAll(folder))
	}
	return &server{folder: folder, leash: leash}, nil
}

// binaries is the folder of the newest PostgreSQL here.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	newest, folder := -1, ""
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	for _, path := range found {
		bin := filepath.Dir(path)
		if version, err := strconv.Atoi(filepath.Base(filepath.Dir(bin))); err == nil && version > newest {
			newest, folder = version, bin
		}
	}
	if folder == "" {
		return "", errMissing
	}
	return folder, nil
}
