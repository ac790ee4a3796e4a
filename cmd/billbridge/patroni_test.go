package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tidwall/gjson"

	"billbridge/proxy/proxytest"
)

// A patroni is a cluster of three PostgreSQL nodes, one etcd and HAProxy, from the files that `billbridge assets`
// prints. Each node has an address of its own on loopback, so the ports are those of the files. All of it ends with
// the test, however that ends.
type patroni struct {
	t               *testing.T
	folder, network string // network is 127.x.y.; the nodes are 1 to 3, HAProxy is 4, etcd is 5
	account         *syscall.Credential
	client          *http.Client
	asynchronous    bool
}

var patroniNodes = []string{"pg1", "pg2", "pg3"}

// patroniLeash waits until its input ends, which it does when the test is killed, too. Then it ends every process that
// works in the folder.
const patroniLeash = `
read -r end || true
found=1
while [ -n "$found" ]; do
	found=
	for p in /proc/[0-9]*; do
		case $(readlink "$p/cwd") in "$1"/*) kill -KILL "${p#/proc/}" && found=1 ;; esac
	done
	sleep 0.1
done
rm -rf "$1"
`

// newPatroni starts a cluster. Each setting replaces a line of the bootstrap configuration.
func newPatroni(t *testing.T, settings ...string) *patroni {
	t.Helper()
	c := &patroni{t: t, network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250))}
	c.client = &http.Client{Timeout: time.Second}
	c.asynchronous = slices.Contains(settings, "synchronous_mode: false")
	bin, account, err := patroniNeeds()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
	c.account = account
	if c.folder, err = os.MkdirTemp("", "patroni"); err != nil {
		t.Fatal(err)
	}
	leash := exec.Command("setsid", "sh", "-c", patroniLeash, "sh", c.folder)
	leash.Dir = "/"
	end, err := leash.StdinPipe()
	if err == nil {
		err = leash.Start()
	}
	must(t, err)
	t.Cleanup(func() { _ = end.Close(); _ = leash.Wait() })
	for _, name := range append([]string{".", "etcd", "haproxy"}, patroniNodes...) {
		folder := filepath.Join(c.folder, name)
		must(t, errors.Join(os.MkdirAll(folder, 0o700), os.Chown(folder, int(account.Uid), int(account.Gid))))
	}
	for _, node := range patroniNodes {
		data := filepath.Join(c.folder, node)
		c.write(node, "patroni.yaml", append([]string{
			"name: pg1", "name: " + node, "pg1:", c.address(node) + ":", "0.0.0.0:", c.address(node) + ":",
			"10.0.0.0/8", "127.0.0.0/8",
			"etcd1:2379, etcd2:2379, etcd3:2379", c.address("etcd") + ":2379",
			"/usr/lib/postgresql/15/bin", bin, "/var/lib/postgresql/15", data, "/var/run/postgresql", data,
		}, settings...)...)
	}
	c.write("haproxy", "haproxy.cfg", "0.0.0.0:", c.address("haproxy")+":",
		" pg1:", " "+c.address("pg1")+":", " pg2:", " "+c.address("pg2")+":", " pg3:", " "+c.address("pg3")+":")
	for _, name := range append([]string{"etcd"}, append(patroniNodes, "haproxy")...) {
		c.start(name)
	}
	c.awaitHealthy()
	return c
}

// patroniNeeds returns the folder of PostgreSQL's programs and the account that runs them.
func patroniNeeds() (bin string, account *syscall.Credential, err error) {
	for _, program := range []string{"patroni", "etcd", "haproxy", "setsid"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", nil, fmt.Errorf("not tested: a Debian package (patroni, etcd-server, haproxy) is missing: %w", err)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	postgres, err := user.Lookup("postgres")
	if err != nil || len(found) == 0 || os.Geteuid() != 0 {
		return "", nil, errors.New("not tested: it needs Debian's package postgresql, and root, to start programs as postgres")
	}
	uid, errUID := strconv.ParseUint(postgres.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(postgres.Gid, 10, 32)
	return slices.Max(found), &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}

// address is that of a node, of HAProxy or of etcd.
func (c *patroni) address(name string) string {
	return c.network + strconv.Itoa(1+slices.Index(append(patroniNodes, "haproxy", "etcd"), name))
}

// write writes an asset. Each text of replace must be in it, and is replaced by the next one.
func (c *patroni) write(name, asset string, replace ...string) {
	c.t.Helper()
	text := string(embeddedText(c.t, asset))
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			c.t.Fatalf("%s does not have %q", asset, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	must(c.t, os.WriteFile(filepath.Join(c.folder, name, asset), []byte(text), 0o644))
}

// start starts what has a folder of this name.
func (c *patroni) start(name string) {
	c.t.Helper()
	command := []string{"patroni", "patroni.yaml"}
	switch name {
	case "haproxy":
		command = []string{"haproxy", "-db", "-f", "haproxy.cfg"}
	case "etcd":
		clients, peers := "http://"+c.address(name)+":2379", "http://"+c.address(name)+":2380"
		command = []string{
			"etcd", "--data-dir", "data", "--listen-client-urls", clients, "--advertise-client-urls", clients,
			"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
		}
	}
	log, err := os.OpenFile(filepath.Join(c.folder, name, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(c.t, err)
	process := exec.Command(command[0], command[1:]...)
	process.Dir, process.Stdout, process.Stderr = filepath.Join(c.folder, name), log, log
	process.SysProcAttr = &syscall.SysProcAttr{Credential: c.account}
	err = process.Start()
	_ = log.Close()
	must(c.t, err)
	go func() { _ = process.Wait() }() // a fault or the leash ends it
}

// signal sends a signal to all processes that work in one of these folders, without those below them.
func (c *patroni) signal(s syscall.Signal, folders ...string) {
	c.t.Helper()
	sent := 0
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		at, err := os.Readlink(filepath.Join(p, "cwd"))
		pid, _ := strconv.Atoi(filepath.Base(p))
		if err == nil && slices.Contains(folders, strings.TrimPrefix(at, c.folder+"/")) && syscall.Kill(pid, s) == nil {
			sent++
		}
	}
	if sent == 0 {
		c.t.Errorf("no process of %s to send %s", folders, s)
	}
}

// killPostgres ends the main process of a node's PostgreSQL, as the kernel does when memory is short.
func (c *patroni) killPostgres(node string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, node, "billbridge", "postmaster.pid"))
	first, _, _ := strings.Cut(string(text), "\n")
	pid, errPID := strconv.Atoi(first)
	if err = errors.Join(err, errPID); err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	must(c.t, err)
}

// rest calls Patroni of a node.
func (c *patroni) rest(client *http.Client, method, node, path, body string) (int, string, error) {
	url := "http://" + c.address(node) + ":8008" + path
	request, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	reply, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(text), err
}

// order calls Patroni of a node, and waits until it has done what it was told.
func (c *patroni) order(method, node, path, body string) {
	c.t.Helper()
	status, text, err := c.rest(&http.Client{Timeout: proxytest.Patience}, method, node, path, body)
	if err != nil || status >= 300 {
		c.t.Errorf("%s %s at %s: %d %s, %v", method, path, node, status, text, err)
	}
}

// primaries are the nodes that are the primary, by their Patroni, and take writes.
func (c *patroni) primaries() string {
	found := make(chan string)
	for _, node := range patroniNodes {
		go func() {
			status, _, err := c.rest(c.client, http.MethodGet, node, "/primary", "")
			if err != nil || status != http.StatusOK || !c.takesWrites(node) {
				node = ""
			}
			found <- node
		}()
	}
	var all []string
	for range patroniNodes {
		if node := <-found; node != "" {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (c *patroni) takesWrites(node string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	db, err := pgx.Connect(ctx, c.superuser(node)+"/postgres?target_session_attrs=read-write")
	return err == nil && db.Close(ctx) == nil
}

// superuser is the beginning of the URL of a node's PostgreSQL.
func (c *patroni) superuser(node string) string {
	return "postgres://postgres:change-me-1@" + c.address(node)
}

func (c *patroni) replicas() []string {
	primary := c.primaries()
	return slices.DeleteFunc(slices.Clone(patroniNodes), func(node string) bool { return node == primary })
}

// healthy reports whether there is a primary, and two standbys follow it, one of them synchronously unless the cluster
// is asynchronous; if not, with the state of the cluster.
func (c *patroni) healthy() (yes bool, state string) {
	primary := c.primaries()
	if !slices.Contains(patroniNodes, primary) {
		return false, primary
	}
	_, state, _ = c.rest(c.client, http.MethodGet, primary, "/cluster", "")
	standbys := 0
	for _, m := range gjson.Get(state, "members").Array() {
		lag, running := m.Get("lag"), slices.Contains([]string{"running", "streaming"}, m.Get("state").String())
		if running && m.Get("role").String() != "leader" && lag.Type == gjson.Number && lag.Int() < 1<<20 {
			standbys++
		}
	}
	_, own, _ := c.rest(c.client, http.MethodGet, primary, "/patroni", "")
	following := len(gjson.Get(own, "replication").Array()) == 2
	return standbys == 2 && following && (c.asynchronous || strings.Contains(state, `"sync_standby"`)), state + own
}

func (c *patroni) awaitHealthy() {
	c.t.Helper()
	proxytest.Eventually(c.t, func() bool { yes, _ := c.healthy(); return yes },
		func() string { _, state := c.healthy(); return state + "\n" + c.logs() })
}

// logs are the last lines of all programs.
func (c *patroni) logs() (all string) {
	for _, name := range append([]string{"etcd", "haproxy"}, patroniNodes...) {
		text, _ := os.ReadFile(filepath.Join(c.folder, name, "log"))
		all += name + ":\n" + string(text[max(0, len(text)-2000):]) + "\n"
	}
	return all
}
