package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// A cluster is a group of gateways with one name. A call reaches a gateway that is alive, or waits until one is. Gateways
// can have different ports, since a port may not be free after a kill.
type cluster struct {
	folder string

	mu        sync.Mutex
	alive     []*gateway
	nextIndex int
	started   chan struct{} // closed and replaced when a gateway starts
}

// clusterURL works with a client of the cluster only.
const clusterURL = "http://bridge.test"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{folder: t.TempDir(), started: make(chan struct{})}
}

// start starts a gateway with a config.
func (b *cluster) start(t *testing.T, config string) *gateway {
	t.Helper()
	g := serve(t, b.folder, nil, config)
	for _, lines := range g.lines { // the output is larger than the channels
		go func() {
			for range lines {
			}
		}()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alive = append(b.alive, g)
	close(b.started)
	b.started = make(chan struct{})
	return g
}

func (b *cluster) remove(g *gateway) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.alive {
		if one == g {
			b.alive = append(b.alive[:i:i], b.alive[i+1:]...)
			return
		}
	}
}

// kill ends a gateway by kill -9.
func (b *cluster) kill(t *testing.T, g *gateway) {
	t.Helper()
	b.remove(g)
	g.process.kill()
	g.process.ends(t, -1)
}

// client returns an HTTP client for the cluster.
func (b *cluster) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		for {
			b.mu.Lock()
			started, at := b.started, ""
			if n := len(b.alive); n > 0 {
				b.nextIndex++
				at = b.alive[b.nextIndex%n].partners
			}
			b.mu.Unlock()
			if at != "" {
				return new(net.Dialer).DialContext(ctx, network, at)
			}
			select {
			case <-started:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// createBills creates bills with callback addresses, every other one in the legacy form.
func (b *cluster) createBills(t *testing.T, client *http.Client, p *partnerServer, bills []string) {
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
				form := formOf(bill)
				body := createBody(form, billRef{keyOf(bill), bill}, p.url+"/paid/"+bill+"?"+partnerSecret)
				status, answer, err := post(ctx, client, clusterURL+operationPath(form, "create"), body)
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
