package console

import (
	"net/http"
	"strings"
	"testing"
)

func TestOverviewShowsTheUpstreams(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for language, title := range map[string]string{"en": "Overview", "ko": "개요"} {
		status, body := get(t, c, "/", language)
		if status != http.StatusOK || !strings.Contains(body, "<h1>"+title+"</h1>") || !strings.Contains(body, "127.0.0.1:1<") {
			t.Errorf("%s: %d\n%s", language, status, body)
		}
	}
}
