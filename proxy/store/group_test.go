package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// A claim whose caller has gone before it runs claims nothing: its callbacks would wait for the end of a lease without a holder.
func TestCancelledClaimTakesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, proxytest.SQLite(t))
	accept(t, s, callback("c1", "first"), callback("c2", "second"))
	release := s.Hold()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	for range 2 {
		go func() {
			_, err := s.Claim(ctx, noon, time.Minute, 1, 1, 1, nil)
			left <- err
		}()
	}
	proxytest.Eventually(t, func() bool { return s.Waiting() == 2 }, nil)
	leave()
	for range 2 {
		fails(t, context.Canceled)(<-left)
	}
	release()
	if err := s.Ping(t.Context()); err != nil { // which comes after them
		t.Fatal(err)
	}
	equal(t, ids(claim(t, s, noon)), []string{"c1", "c2"}, "claimed")
}

// If one write of a transaction fails, the others are committed.
func TestFailedWriteDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"file": proxytest.SQLite(t), "memory": "memory:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, url)
			accept(t, s, callback("c3", "first"))
			release := s.Hold()
			answers := make([]error, 7)
			var senders sync.WaitGroup
			for i := range answers {
				senders.Go(func() {
					c := callback(fmt.Sprint("c", i), fmt.Sprint(i))
					c.Address = "other"
					var fresh bool
					if fresh, answers[i] = isFresh(s.Accept(context.Background(), c, time.Minute)); fresh == (i == 3) {
						t.Errorf("c%d: %v", i, fresh) // a part of the transaction was committed
					}
				})
			}
			proxytest.Eventually(t, func() bool { return s.Waiting() == len(answers) }, nil)
			release()
			senders.Wait()
			for i, err := range answers {
				equal(t, err != nil, i == 3, i)
				get(t, s, fmt.Sprint("c", i))
			}
			equal(t, get(t, s, "c3").Bill, "first", "the bill of the first")
		})
	}
}

// Close runs the waiting writes and refuses later ones.
func TestCloseUnderLoad(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		var mutex sync.Mutex
		var kept []string
		var senders sync.WaitGroup
		started := make(chan struct{}, 16)
		for n := range 16 {
			senders.Go(func() {
				for i := 0; ; i++ {
					c := callback(fmt.Sprintf("%d-%d", n, i), fmt.Sprint(n))
					_, err := s.Accept(context.Background(), c, time.Minute)
					if i == 0 {
						started <- struct{}{}
					}
					if err != nil {
						fails(t, store.ErrClosed)(err)
						return
					}
					mutex.Lock()
					kept = append(kept, c.ID)
					mutex.Unlock()
				}
			})
		}
		for range 16 {
			<-started
		}
		must(t, s.Close())
		senders.Wait()
		s = open(t, url)
		for _, id := range kept {
			get(t, s, id)
		}
	})
}

// The environment variables that make the test binary a process to be killed: the database, and the kind of rows that it writes.
const (
	victim = "BILLBRIDGE_TEST_STORE"
	duty   = "BILLBRIDGE_TEST_KEEPS"
)

// duties are the kinds of rows that a victim may write, each with an id.
var duties = map[string]func(ctx context.Context, s *store.Store, id string) error{
	"callbacks": func(ctx context.Context, s *store.Store, id string) error {
		fresh, err := isFresh(s.Accept(ctx, callback(id, id), time.Minute))
		if err == nil && !fresh {
			err = errors.New("it was there")
		}
		return err
	},
	"bills": func(ctx context.Context, s *store.Store, id string) error {
		_, err := proxytest.On(s).Own(ctx, partnerOne, id, "new", noon, time.Time{}, "")
		return err
	},
}

func TestMain(m *testing.M) {
	if url := os.Getenv(victim); url != "" {
		keepUntilKilled(url, duties[os.Getenv(duty)])
	}
	os.Exit(proxytest.Tests{M: m}.Run())
}

// keepUntilKilled writes rows and prints the id of each that was acknowledged.
func keepUntilKilled(url string, keep func(context.Context, *store.Store, string) error) {
	s, err := store.Open(context.Background(), url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var senders sync.WaitGroup
	for n := range 16 {
		senders.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), n, i)
				if err := keep(context.Background(), s, id); err != nil {
					fmt.Fprintln(os.Stderr, id, err)
					os.Exit(1)
				}
				fmt.Println(id)
			}
		})
	}
	senders.Wait()
}

// After a kill, every callback that the process acknowledged is in the store.
func TestR30_KilledWhileAccepting(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		killedWhileKeeping(t, url, "callbacks", func(s *store.Store, id string) { get(t, s, id) })
	})
}

// After a kill, every create that the process was allowed to send is in the ledger.
func TestCreatesAreRecordedBeforeAKill(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		killedWhileKeeping(t, url, "bills", func(s *store.Store, id string) {
			equal(t, ownerOf(t, s, id), proxytest.Owner{
				Partner: partnerOne, Bill: id, Upstream: "new", State: ledger.Pending, Open: 1, Changed: noon, Tried: noon,
				Ends: noon.Add(365 * 24 * time.Hour),
			}, id)
		})
	})
}

func killedWhileKeeping(t *testing.T, url, what string, there func(*store.Store, string)) {
	var acknowledged []string
	for round := range 4 {
		process, said := startVictim(t, url, what)
		n := 0
		for ; said.Scan(); n++ {
			acknowledged = append(acknowledged, said.Text())
			if n == 30+7*round {
				must(t, process.Kill())
			}
		}
		s := open(t, url)
		for _, id := range acknowledged {
			there(s, id)
		}
		must(t, s.Close())
		if n < 30 {
			t.Errorf("only %d were acknowledged", n)
		}
	}
}

// startVictim starts a process that writes rows until it is killed, at the end of the test at the latest, and returns its output.
func startVictim(t *testing.T, url, what string) (*os.Process, *bufio.Scanner) {
	t.Helper()
	command := proxytest.Tie(exec.Command(os.Args[0]))
	command.Env = append(os.Environ(), victim+"="+url, duty+"="+what)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill() // unless it was before
		_ = command.Wait()
	})
	return command.Process, bufio.NewScanner(output)
}
