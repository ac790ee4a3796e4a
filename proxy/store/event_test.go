package store_test

import (
	"testing"
	"time"
)

// An event of the gateway is stored once by its id, also when the time in which repetitions are recognised is over.
func TestEventIsStoredOnce(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s := open(t, url)
		event := callback("ev_1", "")
		event.Address, event.Upstream, event.Partner, event.Once = "", "notify", "", true
		accept(t, s, event)
		event.Received = noon.Add(48 * time.Hour)
		if fresh, _, err := s.Accept(t.Context(), event, time.Hour); fresh || err != nil {
			t.Error(fresh, err)
		}
	})
}
