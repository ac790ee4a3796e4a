package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"billbridge/proxy/proxytest"

	"billbridge/proxy/pages"
	"billbridge/translate"
)

// tryOut posts a form to the playground and returns the text of the page without markup.
func tryOut(t *testing.T, c *Console, form url.Values) (status int, page string) {
	t.Helper()
	return post(t, c, "/playground", form.Encode())
}

// form returns the fields of the playground: operation, message and direction, then pairs of a name and a value.
func form(operation, message, direction string, more ...string) url.Values {
	values := url.Values{"operation": {operation}, "message": {message}, "direction": {direction}, "status": {"200"}}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return values
}

// result returns the result of a page, with markup removed and white space as one space.
func result(t *testing.T, page string) string {
	t.Helper()
	_, part, ok := strings.Cut(page, `<section id="result"`)
	if !ok {
		t.Fatalf("no result in\n%s", page)
	}
	part, _, _ = strings.Cut(part, "</section>")
	var text strings.Builder
	for piece := range strings.SplitSeq(part, "<") {
		_, behind, _ := strings.Cut(piece, ">")
		text.WriteString(" " + behind)
	}
	return strings.Join(strings.Fields(html.UnescapeString(text.String())), " ")
}

// rowOfTheTable matches a row of the table and its line.
var rowOfTheTable = regexp.MustCompile(`billing\.yaml:\d+ ([\w.]+: \{(?:legacy: [^,}]*)?)[^}]*\}`)

// The result for documents, as testdata/playground.txt has it. What was typed is still there, and the table stays as it is.
func TestPlaygroundResults(t *testing.T) {
	t.Parallel()
	proxytest.Transcript(t, "testdata/playground.txt", *update, []string{"en"}, func(t *testing.T, _ string) func(string) []string {
		c := newConsole(t, Options{})
		before, _ := c.Config().Table.YAML()
		return func(line string) []string {
			words := strings.SplitN(line, " ", 5)
			var more map[string]string
			must(t, json.Unmarshal([]byte(words[4]), &more))
			values := form(words[0], words[1], words[2]+" "+words[3])
			for name, value := range more {
				values.Set(name, value)
			}
			status, page := tryOut(t, c, values)
			after, _ := c.Config().Table.YAML()
			equal(t, string(after), string(before), "the table")
			typed := html.EscapeString(strings.ReplaceAll(more["document"], "\r", ""))
			has(t, strings.ReplaceAll(strings.ReplaceAll(page, "\r", ""), "\ufffd", "\x00"), typed, "the document")
			return []string{fmt.Sprint(status, " ", rowOfTheTable.ReplaceAllString(result(t, page), "billing.yaml $1}"))}
		}
	})
}

func TestPlaygroundRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	const tooLarge = "The document is too large: a document can have 1 MiB."
	status, page := tryOut(t, c, form("bill.create", "request", "legacy v2", "document", strings.Repeat("a", 10<<20)))
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(result(t, page), tooLarge) {
		t.Errorf("10 MiB: %d, %.300s", status, result(t, page))
	}
	for _, name := range []string{"document", "request"} {
		for _, over := range []int{0, 1} {
			values := form("bill.create", "reply", "legacy v2", "document", "{}")
			values.Set(name, "{}"+strings.Repeat(" ", maxDocument-2+over))
			status, page = tryOut(t, c, values)
			if got := strings.Contains(result(t, page), tooLarge); status != http.StatusOK || got != (over == 1) {
				t.Errorf("%s, %d bytes over: %d, %.200s", name, over, status, result(t, page))
			}
		}
	}
	var many strings.Builder
	for i := range maxResultFields + 1234 {
		fmt.Fprintf(&many, `,"f%d":"%s"`, i, strings.Repeat("z", 2*maxResultValue))
	}
	_, page = tryOut(t, c, form("bill.create", "request", "legacy v2", "document", "{"+many.String()[1:]+"}"))
	if got := result(t, page); !strings.Contains(got, "Fields that are not shown: 1,235.") || strings.Contains(got, strings.Repeat("z", maxResultValue)) || strings.Count(got, "is not a field") != maxResultFields {
		t.Errorf("many fields: %.1000s … %s", got, got[len(got)-200:])
	}
	status, page = post(t, c, "/playground", "document=%zz")
	if status != http.StatusBadRequest || !strings.Contains(result(t, page), "The form of the page cannot be read.") {
		t.Errorf("a form that is not valid: %d", status)
	}
}

// A script in any field is text on the page.
func TestPlaygroundShowsScriptsAsText(t *testing.T) {
	t.Parallel()
	const script = `<script>alert(1)</script>'"><img src=x onerror=alert(1)>`
	for _, language := range pages.Languages {
		c := newConsole(t, Options{})
		for _, name := range []string{"operation", "message", "direction", "status", "request", "document", "do", "call"} {
			for _, document := range []string{`{"<script>alert(1)</script>":1,"apikey":"<img src=x onerror=alert(1)>"}`, `{"apikey":["<script>alert(1)</script>"]}`, script} {
				values := form("bill.create", "request", "legacy v2", "document", document)
				values.Set(name, script)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/playground", strings.NewReader(values.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Accept-Language", language)
				_, page := do(c, r)
				if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
					t.Fatalf("%s: a script in %s is on the page:\n%s", language, name, page)
				}
				_, page = get(t, c, "/playground?"+url.Values{name: {script}}.Encode(), language)
				_, table := get(t, c, "/table?"+url.Values{"q": {script}}.Encode(), language)
				if strings.Contains(page+table, "<script>alert") || strings.Contains(page+table, "<img") {
					t.Fatalf("%s: a script in %s of an address is on the page", language, name)
				}
			}
		}
	}
}

// Nothing of what was pasted is logged, kept, or shown to another visitor; and no address can fill it in.
func TestPlaygroundKeepsNothing(t *testing.T) {
	t.Parallel()
	const canary = "canary-5A1"
	var log bytes.Buffer
	c := newConsole(t, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	last, values := c.ring.last, form("bill.create", "reply", "legacy v2", "document", `{"bill":"`+canary+`"}`, "request", canary)
	if _, page := tryOut(t, c, values); !strings.Contains(page, canary) {
		t.Fatal("the page lacks what was pasted")
	}
	for _, target := range []string{"/playground", "/playground?" + values.Encode(), "/table?q=bill", "/"} {
		_, page := get(t, c, target, "")
		if _, main, _ := strings.Cut(page, "<main"); strings.Contains(main, canary) { // the links of the header have the query of the address
			t.Errorf("%s shows what was pasted", target)
		}
	}
	if strings.Contains(log.String(), canary) || c.ring.last != last {
		t.Errorf("logged: %s", log.String())
	}
}

// Every operation of the table has an example for each message and direction, and none is refused.
func TestPlaygroundShowsExamples(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	table := c.Config().Table
	for _, o := range append(table.Operations(), &translate.Operation{Name: table.Callback.Name}) {
		_, page := get(t, c, "/playground?operation="+o.Name, "")
		has(t, result(t, page), "Output in", o.Name)
		for _, message := range []string{"request", "reply"} {
			_, page := tryOut(t, c, form(o.Name, message, "v2 v2", "document", "pasted", "do", "example"))
			if got := result(t, page); !strings.Contains(got, "Output in v2") || strings.Contains(page, "pasted") {
				t.Errorf("%s %s: %s", o.Name, message, got)
			}
		}
	}
}

// htmx gets the result without the page, and with status 200, since it shows nothing else.
func TestPlaygroundResultForHtmx(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for document, want := range map[string]string{`{"apikey":"k"}`: "renamed", strings.Repeat("a", 10<<20): "The document is too large"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/playground", strings.NewReader(form("bill.create", "request", "legacy v2", "document", document).Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("HX-Request", "true")
		status, page := do(c, r)
		if status != http.StatusOK || !strings.HasPrefix(strings.TrimSpace(page), `<section id="result"`) || strings.Contains(page, "<html") || !strings.Contains(result(t, page), want) {
			t.Errorf("%d: %.2000s", status, page)
		}
	}
}

// Documents are translated one at a time, however many are sent: one takes many times its size. The others wait, but not for ever for
// one whose form does not arrive.
func TestPlaygroundTranslatesOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, Options{})
		body, send := io.Pipe()
		first := httptest.NewRequest(http.MethodPost, "/playground", body)
		first.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		firstStatus, wait := 0, sync.WaitGroup{}
		wait.Go(func() { firstStatus, _ = do(c, first) })
		synctest.Wait()
		document := form("bill.create", "request", "legacy v2", "document", `{"apikey":"k"}`)
		if status, page := tryOut(t, c, document); status != http.StatusServiceUnavailable || !strings.Contains(page, "Others are translating") {
			t.Errorf("while another form arrives: %d %s", status, page)
		}
		second := 0
		wait.Go(func() { second, _ = tryOut(t, c, document) })
		synctest.Wait()
		if _, err := io.WriteString(send, document.Encode()); err != nil {
			t.Fatal(err)
		}
		must(t, send.Close())
		wait.Wait()
		equal(t, []int{firstStatus, second}, []int{200, 200})
	})
}

// A large output is not indented: indents could make it a hundred times as long.
func TestPlaygroundDoesNotIndentALargeOutput(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 30) + strings.Repeat("0,", maxResultOutput/2) + "0" + strings.Repeat("]", 30)
	if got := pretty([]byte(deep)); got != deep {
		t.Errorf("%d bytes became %d", len(deep), len(got))
	}
}
