package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// bridge is the name of the gateways: who calls it reaches one that is alive, or waits until one is. Each may have a
// port of its own, so that none has to be free again after a kill.
type bridge struct {
	folder string

	mu     sync.Mutex
	living []*gateway
	turn   int
	came   chan struct{} // closed when one comes, and then another
}

// bridgeURL resolves in a bridge's client alone.
const bridgeURL = "http://bridge.test"

// A gateway is one process of it.
type gateway struct {
	process            *process
	partners, operator string
}

func newBridge(t *testing.T) *bridge {
	t.Helper()
	return &bridge{folder: t.TempDir(), came: make(chan struct{})}
}

// start begins a process that serves by a config.
func (b *bridge) start(t *testing.T, config string) *gateway {
	t.Helper()
	file := filepath.Join(b.folder, "billbridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launch(b.folder, "billbridge", "serve", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	at, err := p.await("stdout", `partners on (?P<partners>\S+), admin on (?P<operator>\S+)\.$`)
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range p.lines { // it says more than the channels hold
		go func() {
			for range lines {
			}
		}()
	}
	g := &gateway{p, at["partners"], at["operator"]}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.living = append(b.living, g)
	close(b.came)
	b.came = make(chan struct{})
	return g
}

func (b *bridge) leaves(g *gateway) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.living {
		if one == g {
			b.living = append(b.living[:i:i], b.living[i+1:]...)
			return
		}
	}
}

// kill ends a gateway by kill -9.
func (b *bridge) kill(t *testing.T, g *gateway) {
	t.Helper()
	b.leaves(g)
	g.process.kill()
	if code, err := g.process.end(); err != nil || code != -1 {
		t.Fatalf("it was to be killed, and ended with %d, %v:\n%s", code, err, g.process.all("stdout", "stderr"))
	}
}

// client calls the bridge.
func (b *bridge) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		for {
			b.mu.Lock()
			came, at := b.came, ""
			if n := len(b.living); n > 0 {
				b.turn++
				at = b.living[b.turn%n].partners
			}
			b.mu.Unlock()
			if at != "" {
				return new(net.Dialer).DialContext(ctx, network, at)
			}
			select {
			case <-came:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// issue makes bills, every other in the legacy form, each with the partner's address.
func (b *bridge) issue(t *testing.T, client *http.Client, p *partnerServer, bills []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var workers sync.WaitGroup
	defer workers.Wait()
	todo := make(chan string)
	defer close(todo)
	for range 64 {
		workers.Go(func() {
			for bill := range todo {
				path, shape := "/bill", `{"apiKey":"%s","member":"m","merchant":"s","bill":{"billId":"%s","sendType":"TALK","price":20000,"hash":"h","callbackUrl":"%s"}}`
				if formOf(bill) == "legacy" {
					path, shape = "/if/bill/send", `{"apikey":"%s","member":"m","merchant":"s","bill":{"bill_id":"%s","price":"20000","hash":"h","callbackURL":"%s"}}`
				}
				status, answer, err := post(ctx, client, bridgeURL+path, fmt.Sprintf(shape, keyOf(bill), bill, p.url+"/paid/"+bill+"?"+partnerSecret))
				if err != nil || status != http.StatusOK || gjson.Get(answer, "code").String() != "0000" {
					t.Errorf("making %s: %d %s, %v", bill, status, answer, err)
				}
			}
		})
	}
	for _, bill := range bills {
		todo <- bill
	}
}
