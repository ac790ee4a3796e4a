package console

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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

func TestPlaygroundExplainsARequest(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	status, page := tryOut(t, c, form("bill.create", "request", "legacy v2", "document", "{\"apikey\":\"k1\",\r\n\"bill\":{\"price\":\"20000\",\"memo\":\"x\"}}"))
	got := result(t, page)
	for _, want := range []string{
		`{ "apiKey": "k1", "bill": { "sendType": "TALK", "price": 20000 } }`, "apikey → apiKey partner key renamed", `converted "20000" → 20000 billing.yaml:`,
		`{v2: bill.price, legacy: bill.price, as: digits`, `bill.memo dropped is not a field of this operation "x" none`, `bill.sendType how the customer gets the bill defaulted → "TALK"`,
	} {
		has(t, got, want)
	}
	if status != http.StatusOK || !strings.Contains(page, "&#34;memo&#34;") {
		t.Errorf("%d: the document is not there any more:\n%s", status, page)
	}
}

func TestPlaygroundShowsThePlaceOfARefusal(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	for document, want := range map[string]string{
		"{\"apikey\":\"k\",\r\n  \"bill\": {\"price\": \"김\"}}": `VALIDATION_001 bill.price has the wrong type: want a whole number in digits, got text with other characters than digits Line 2, column 21 "bill": {"price": "김" }}`,
		"not JSON":                           `VALIDATION_001 not JSON at byte 1 Line 1, column 2 n o t JSON`,
		"{\r\n\r\n x":                        `VALIDATION_001 not JSON at byte 4 Line 3, column 2 x`,
		strings.Repeat("[", 10_000):          `VALIDATION_001 nested deeper than 32 levels at byte 32 Line 1, column 33`,
		`{"apikey":"k","apikey":"k"}`:        `VALIDATION_001 apikey the name appears twice Line 1, column 15`,
		`{"apikey":["` + "\x00" + `"]}`:      `VALIDATION_001 apikey.0 not JSON`,
		`{"bill":{"price":"1"},"APIKEY":""}`: `PARTNER_002 APIKEY differs from apikey in case only Line 1, column 32`,
	} {
		status, page := tryOut(t, c, form("bill.create", "request", "legacy v2", "document", document))
		if got := result(t, page); status != http.StatusOK || !strings.Contains(got, want) || strings.Contains(got, "Output") {
			t.Errorf("%d: the result of %.60q lacks %q:\n%.2000s", status, document, want, got)
		}
	}
	_, page := tryOut(t, c, form("bill.create", "request", "v2 legacy", "document", `{"apiKey":"k"}`))
	if got := result(t, page); !strings.Contains(got, "BILL_008 bill.sendType is missing") || strings.Contains(got, "Line") {
		t.Errorf("a missing field:\n%s", got)
	}
}

func TestPlaygroundExplainsAReply(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	request := `{"apikey":"k","member":"m1","bill_id":"B1"}`
	reply := `{"code":"0000","message":"ok","data":{"billId":"B1"}}`
	for _, row := range []struct {
		form url.Values
		want string
	}{
		{form("bill.destroy", "reply", "v2 legacy", "request", request, "document", reply), `member user inside the partner echoed request: member "m1"`},
		{form("bill.destroy", "reply", "v2 legacy", "document", reply), "Documented, but missing: apiKey , member , merchant , hash"},
		{form("bill.cancel", "reply", "v2 legacy", "document", `{"code":"0000","message":"m","data":{"apiKey":true,"member":"m","merchant":"s","billId":"B1","hash":"h","apprNum":"1","apprOriginNum":"2"}}`), "Documented, but missing: apprCancelDt Field by field"},
		{form("bill.destroy", "reply", "v2 legacy", "request", request, "document", strings.ReplaceAll(reply, "B1", "B2")), "The reply is unusable. The outcome of a write is unknown. data.billId a success, but its billId is not that of the request"},
		{form("bill.destroy", "reply", "v2 legacy", "request", `{"apikey":[]}`, "document", reply), "The request of this reply is refused, so there is no reply to translate. PARTNER_002 apikey has the wrong type"},
		{form("bill.read", "reply", "legacy v2", "status", "500", "request", `{"apiKey":"k","bill":{"billId":"B1"}}`, "document", `{"bill_id":"B1","appr_state":"F"}`), "code is missing, and the fields are not those of a success without an envelope"},
		{form("bill.read", "reply", "legacy v2", "request", `{"apiKey":"k","bill":{"billId":"B1"}}`, "document", `{"bill_id":"B1","appr_state":"F"}`), `appr_state → data.apprState bill state renamed "F"`},
		{form("bill.read", "reply", "legacy v2", "status", "x", "document", "{}"), "The HTTP status must be a number from 100 to 599."},
		{form("callback.payment", "reply", "v2 legacy", "document", `{"billId":"B1","apprDt":0}`), `apprDt → appr_dt approval time, 14 digits converted 0 → ""`},
		{form("callback.payment", "request", "v2 legacy", "document", `{"bill_id":"B1"}`), "The callback is already in the other form, so it is not changed."},
		{form("callback.payment", "request", "v2 legacy", "document", `<xml>`), "The callback is not recognised, so it is not changed."},
		{form("bill.none", "request", "v2 legacy", "document", `{}`), "The table has no such operation."},
		{form("mapping.list", "request", "v2 legacy", "document", `{}`), "The operation does not exist in both of these forms."},
		{form("bill.create", "request", "legacy v2", "document", "  "), "Paste a document to see its translation."},
	} {
		status, page := tryOut(t, c, row.form)
		if got := result(t, page); status != http.StatusOK || !strings.Contains(got, row.want) {
			t.Errorf("%d: the result lacks %q:\n%s", status, row.want, got)
		}
	}
}

// An overlay changes the table for one document only, and its mistakes have a line and a column.
func TestPlaygroundAppliesAnOverlay(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	before, _ := c.Config().Table.YAML()
	document := `{"apikey":"k","bill":{"memo":"x"},"left":"7"}`
	overlay := "operations:\r\n  bill.create:\r\n    request:\r\n      - {v2: bill.memo, legacy: bill.memo, new: true}\r\n"
	_, page := tryOut(t, c, form("bill.create", "request", "legacy v2", "document", document, "overlay", overlay))
	has(t, result(t, page), `bill.memo same "x" overlay:4 {v2: bill.memo, legacy: bill.memo}`, "the overlay has no effect")
	_, page = tryOut(t, c, form("points.left", "request", "legacy v2", "document", document, "overlay", "operations: {points.left: {new: true, v2: /p, legacy: /if/p, effect: read, request: [{v2: l, legacy: left, as: digits}], reply: []}}"))
	if got := result(t, page); !strings.Contains(got, `left → l converted "7" → 7 overlay:1`) || !strings.Contains(page, `<option selected>points.left</option>`) {
		t.Errorf("the operation of the overlay is not there:\n%s", got)
	}
	_, page = tryOut(t, c, form("bill.create", "request", "legacy v2", "document", document, "overlay", "operations:\r\n  bill.create:\r\n    request:\r\n      - {v2: bill.memo, legacy: bill.memo}\r\n  bill.creat: {}"))
	if got := result(t, page); !strings.Contains(got, "The overlay has mistakes. Nothing was translated. Line 4, column 14: bill.create request has no path bill.memo") || !strings.Contains(got, "Line 5, column 3: the table has no operation bill.creat; did you mean bill.create?") {
		t.Errorf("the mistakes of the overlay:\n%s", got)
	}
	_, page = tryOut(t, c, form("bill.create", "request", "legacy v2", "document", document))
	after, _ := c.Config().Table.YAML()
	if got := result(t, page); !strings.Contains(got, "bill.memo dropped") || !bytes.Equal(before, after) {
		t.Errorf("the overlay has stayed:\n%s", got)
	}
}

func TestPlaygroundRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := newConsole(t, Options{})
	const tooLarge = "The document is too large: a document can have 1 MiB, an overlay 256 KiB."
	status, page := tryOut(t, c, form("bill.create", "request", "legacy v2", "document", strings.Repeat("a", 10<<20)))
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(result(t, page), tooLarge) {
		t.Errorf("10 MiB: %d, %.300s", status, result(t, page))
	}
	for name, size := range map[string]int{"document": maxDocument, "request": maxDocument, "overlay": maxOverlay} {
		for _, over := range []int{0, 1} {
			values := form("bill.create", "reply", "legacy v2", "document", "{}")
			values.Set(name, "{}"+strings.Repeat(" ", size-2+over))
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
		for _, name := range []string{"operation", "message", "direction", "status", "request", "document", "overlay", "do", "call"} {
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
	last, values := c.ring.last, form("bill.create", "reply", "legacy v2", "document", `{"bill":"`+canary+`"}`, "request", canary, "overlay", "# "+canary)
	if _, page := tryOut(t, c, values); !strings.Contains(page, canary) {
		t.Fatal("the page lacks what was pasted")
	}
	tryOut(t, c, form("bill.create", "request", "legacy v2", "document", "{}", "overlay", canary))
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
	for _, o := range append(table.Operations(), &translate.Operation{Name: table.Callback().Name()}) {
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
