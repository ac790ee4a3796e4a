package proxytest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/partner"
	"billbridge/proxy/store"
	"billbridge/translate"
)

// ParseConfig reads the text of a config file. No variable of the environment is set. Texts for partners are English,
// unless the text has a language.
func ParseConfig(text string) (*config.Config, error) {
	file := translate.File{Name: "billbridge.yaml", Data: []byte(text)}
	c, err := config.Parse(file, func(string) (string, bool) { return "", false })
	if err == nil && !strings.Contains(text, "language:") {
		c.Failures.Language = config.English
	}
	if err == nil {
		tune(c, text)
	}
	return c, err
}

// Config is ParseConfig of a text without mistakes.
func Config(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := ParseConfig(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return c
}

// Must ends a test at an error.
func Must(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Works ends a test whose call in the second parentheses returns an error after its other results.
func Works(t interface {
	Helper()
	Fatal(args ...any)
},
) func(results ...any) {
	return func(results ...any) {
		t.Helper()
		Must(t, errorIn(results))
	}
}

// Open opens a store, which is closed with the test.
func Open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// BeginRollout opens a store in which a rollout has begun. The settling period of the partners is over.
func BeginRollout(t testing.TB, url string, partners ...partner.ID) *store.Store {
	t.Helper()
	s, now := Open(t, url), time.Now()
	err := s.Change(t.Context(), store.Change{Action: store.Begun, By: "test", At: now})
	for _, id := range partners {
		err = errors.Join(err, s.Seen(t.Context(), id, now.Add(-time.Hour)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A Log keeps what was written to it. Goroutines can share it.
type Log struct {
	mu  sync.Mutex
	all bytes.Buffer
	end int // of the line that Next has returned
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Take returns what Next has not returned, and forgets everything.
func (l *Log) Take() (rest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest = l.all.String()[l.end:]
	l.all.Reset()
	l.end = 0
	return rest
}

// Next waits for the line after the one that it returned last.
func (l *Log) Next(t testing.TB) (line string) {
	t.Helper()
	Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		rest := l.all.Bytes()[l.end:]
		n := bytes.IndexByte(rest, '\n') + 1
		line, l.end = string(rest[:n]), l.end+n
		return n > 0
	}, func() string { return "no further line in the log:\n" + l.String() })
	return line
}

// Listen serves the connections to a new address of this machine until the test ends, and returns the address.
func Listen(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	Serve(t, l, serve)
	return l.Addr().String()
}

// Serve is Listen on a listener. It closes each connection when serve returns or the test ends.
func Serve(t testing.TB, l net.Listener, serve func(net.Conn)) {
	var serving sync.WaitGroup
	over := t.Context()
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				end := func() { _ = c.Close() }
				defer end()
				defer context.AfterFunc(over, end)()
				serve(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
}

// Forward connects the callers of a listener with what dial returns, until the test ends. cut ends the connections of
// that moment.
func Forward(t testing.TB, l net.Listener, dial func() (net.Conn, error)) (cut func()) {
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	Serve(t, l, func(caller net.Conn) {
		mu.Lock() // no cut between the two steps
		server, err := dial()
		if err == nil {
			open[caller], open[server] = true, true
		}
		mu.Unlock()
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		go func() {
			_, _ = io.Copy(server, caller)
			_ = server.Close()
		}()
		_, _ = io.Copy(caller, server)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for c := range open {
			_ = c.Close()
		}
		clear(open)
	}
}

// WriteFile writes a file that only its owner can read.
func WriteFile[Data string | []byte](t testing.TB, name string, data Data) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the content of a file. It fails the test if the file cannot be read.
func ReadFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
