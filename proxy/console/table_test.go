package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"
)

func TestTableShowsEveryFieldOfEveryOperation(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	table := c.Config().Table
	_, page := get(t, c, "/table", "")
	fields := table.Callback.Fields()
	for _, o := range table.Operations {
		fields = append(fields, o.Fields()...)
		if !strings.Contains(page, `<details id="`+o.Name+`">`) || !strings.Contains(page, o.Path("v2")) {
			t.Errorf("%s is missing", o.Name)
		}
	}
	for _, f := range fields {
		for _, text := range []string{f.Source, f.Target, f.About} {
			if text != "" && !strings.Contains(strings.ReplaceAll(page, "&#39;", "'"), ">"+text+"<") {
				t.Errorf("%q is missing", text)
			}
		}
	}
}

func TestTableSearch(t *testing.T) {
	t.Parallel()
	table := newConsole(t, Options{}).Config().Table
	for row := range strings.Lines(string(proxytest.ReadFile(t, "testdata/tablesearch.txt"))) {
		query, want, _ := strings.Cut(strings.TrimSpace(row), " =>")
		want = strings.TrimSpace(want)
		p := newTablePage(table, query, inEnglish)
		var got []string
		for _, o := range p.Operations {
			got = append(got, o.Name)
		}
		for _, code := range p.Codes {
			got = append(got, "code "+code.Code)
		}
		if strings.Join(got, " ") != want && !(query == "callback payment" && got[len(got)-1] == want) {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	_, page := get(t, newConsole(t, Options{}), "/table?q="+url.QueryEscape("nothing <b>"), "ko")
	has(t, page, "nothing &lt;b&gt;에 해당하는 항목이 변환 표에 없습니다.")
}

// A table with very many rows, and a very long search, are shown in bounded time and size.
func TestTableWithManyRows(t *testing.T) {
	t.Parallel()
	var overlay strings.Builder
	overlay.WriteString("operations:\n  bill.read:\n    reply:\n")
	for i := range maxTableRows + 200 {
		fmt.Fprintf(&overlay, "      +many.f%dq: {lost: drop}\n", i)
	}
	c := proxytest.Config(t, testConfig)
	table, err := translate.Compile(32, billing.Table(), translate.File{Name: "many.yaml", Data: []byte(overlay.String())})
	if err != nil {
		t.Fatal(strings.SplitN(err.Error(), "\n", 2)[0])
	}
	c.Table = table
	console := newConsole(t, Options{Config: func() *config.Config { return c }})
	for _, query := range []string{"", strings.Repeat("q", 1<<20), "many f"} {
		begin := time.Now()
		_, page := get(t, console, "/table?q="+url.QueryEscape(query), "")
		if rows := strings.Count(page, "<tr>"); rows > maxTableRows+60 || len(page) > 2<<20 {
			t.Errorf("%.20s: %d rows, %d bytes", query, rows, len(page))
		}
		t.Logf("%.20s: %s", query, time.Since(begin))
	}
}

// htmx gets the rows without the frame of the page.
func TestTableRowsForHtmx(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/table?q=hash", nil)
	r.Header.Set("HX-Request", "true")
	status, page := do(newConsole(t, Options{}), r)
	if status != http.StatusOK || !strings.HasPrefix(strings.TrimSpace(page), `<div id="rows">`) || strings.Contains(page, "<html") || !strings.Contains(page, "<code>bill.hash</code>") {
		t.Errorf("%d\n%s", status, page)
	}
}
