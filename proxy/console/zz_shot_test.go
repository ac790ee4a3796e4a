package console

import (
	"os"
	"strings"
	"testing"
	"time"

	"billbridge/proxy/store"
)

func TestShotTemp(t *testing.T) {
	s := newStored(t, "memory:", nil)
	ids := []string{"A1B2C3D4E5F6G7H8I9J0", "INV-2026-11-22-00017", "K9J8H7G6F5D4S3A2Q1W0"}
	for i, id := range ids {
		s.unknown([]string{"one", "two", "one"}[i], id, "01KAN7Q3Z4X5C6V7B8N9M0QWER")
		s.add("one", id, store.Dead, time.Hour)
		s.add("one", id+"X", store.Waiting, time.Hour)
	}
	css, _ := os.ReadFile("static/style.css")
	for name, path := range map[string]string{"bills": "/bills", "bill": "/bills?bill=" + ids[0], "deliveries": "/deliveries", "dead": "/deliveries?state=dead"} {
		body := s.page(path)
		head := "<style>" + string(css) + "</style></head>"
		body = strings.Replace(body, "</head>", head, 1)
		if err := os.WriteFile("/tmp/shots-texts/"+name+".html", []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
