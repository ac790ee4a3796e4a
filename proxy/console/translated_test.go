package console

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/evidence"
	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// textName matches the name of a text such as "nav.calls". Other keys are English texts.
var textName = regexp.MustCompile(`^[a-z]+\.(\S|$)`)

// inEnglish shows the texts of the table on an English page.
func inEnglish(text translate.Details) string { return text.String() }

// Every English text of the table has its Korean, with the same values, and no Korean is left that nothing uses.
func TestEveryTextOfTheTableHasKorean(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	must(t, err)
	wanted := map[string]int{} // by text: how many values it has
	const other = "operations: {bill.read: {reply: {apprPayType: {values: [{v2: null, legacy: other}]}}}}"
	tables := [][]translate.File{{billing.Table()}, {billing.Table(), {Name: "overlay", Data: []byte(other)}}}
	for _, pattern := range []string{"../../translate/examples/*.yaml", "../../translate/testdata/tables/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		must(t, err)
		for _, path := range paths {
			tables = append(tables, []translate.File{{Name: path, Data: []byte(proxytest.ReadFile(t, path))}})
		}
	}
	for i, files := range tables {
		table, err := translate.Compile(32, files[0], files[1:]...)
		if err != nil { // it is no table
			continue
		}
		for _, f := range fieldsOf(table) {
			for _, d := range f.Detail {
				wanted[d.Format] = len(d.Values)
			}
			if i == 0 && f.About != "" {
				wanted[f.About] = 0
			}
		}
	}
	for english, args := range wanted {
		if text := all.Texts[english]; text["ko"] == "" || len(text) != 1 {
			t.Errorf("%q: text/meanings.yaml has %q, want its Korean", english, text)
			continue
		}
		for _, format := range []string{english, all.Texts[english]["ko"]} {
			var d translate.Detail
			for i := range args {
				d.Values = append(d.Values, fmt.Sprintf("<%d>", i))
			}
			got := d.In(format)
			lacks := slices.ContainsFunc(d.Values, func(value any) bool { return !strings.Contains(got, value.(string)) })
			if lacks || strings.Contains(got, "%!") {
				t.Errorf("%q with %d values is %q: want each of them", format, args, got)
			}
		}
	}
	for key := range all.Texts {
		if _, known := wanted[key]; !textName.MatchString(key) && !known {
			t.Errorf("nothing uses the Korean of %q", key)
		}
	}
}

// fieldsOf returns the fields of all messages of a table.
func fieldsOf(table *translate.Table) (fields []translate.Field) {
	if table.Callback != nil {
		fields = table.Callback.Fields()
	}
	for _, o := range table.Operations {
		fields = append(fields, o.Fields()...)
	}
	return fields
}

func TestTranslated(t *testing.T) {
	t.Parallel()
	all := texts{pages.Texts{"%v of %v <b>": {"ko": "%[2]v <i> %[1]v"}, "amount": {"ko": "금액"}}}
	d := func(format string, values ...any) translate.Detail {
		return translate.Detail{Format: format, Values: values}
	}
	two := translate.Details{d("%v of %v <b>", 1, "<x>"), d("%v of %v <b>", 3, 4)}
	for _, row := range []struct {
		language, want string
		got            any
	}{
		{"ko", "&lt;x&gt; &lt;i&gt; 1; 4 &lt;i&gt; 3", all.words("ko", two)},
		{"en", "1 of &lt;x&gt; &lt;b&gt;; 3 of 4 &lt;b&gt;", all.words("en", two)},
		{"ko", `<span lang="en">1 of 2 &lt;b&gt;; 3</span>`, all.words("ko", translate.Details{d("%v of %v <b>", 1, 2), d("%v", 3)})},
		{"ko", `<span lang="en">an error, </span>`, all.words("ko", evidence.Say("list", []evidence.Note{evidence.Say("list", "an error"), {Kind: "nothing"}}))},
		{"ko", "금액", all.words("ko", "amount")},
		{"en", "amount", all.words("en", "amount")},
		{"ko", `<span lang="en">100 % &lt;b&gt;</span>`, all.words("ko", "100 % <b>")},
		{"ko", "", all.words("ko", "")},
		{"ko", "%[2]v &lt;i&gt; %[1]v", all.words("ko", "%v of %v <b>")}, // an overlay can describe a field so
	} {
		equal(t, fmt.Sprint(row.got), row.want, row.language)
	}
}

// A Korean page has the meanings of the table in Korean, and finds rows by them. The meaning of an overlay stays as it is.
func TestMeaningsOfTheTableInKorean(t *testing.T) {
	t.Parallel()
	const overlay = `{fields: {apprExtra: extra of the overlay}, operations: {bill.read: {reply: {+apprExtra: appr_extra}}}}`
	own := *proxytest.Config(t, testConfig)
	var err error
	own.Table, err = translate.Compile(32, billing.Table(), translate.File{Name: "overlay", Data: []byte(overlay)})
	must(t, err)
	c := newConsole(t, Options{Config: configOf(&own)})
	_, page := get(t, c, "/table", "ko")
	for _, want := range []string{">청구 금액<", ">고객 휴대전화 번호<", `<span lang="en">extra of the overlay</span>`} {
		has(t, page, want)
	}
	for _, english := range []string{"amount to charge", "refused with", "by value pairs"} {
		lacks(t, page, english, "the page has the English text")
	}
	if _, page := get(t, c, "/table?q=전달+가능", "ko"); !strings.Contains(page, "&#34;TALK&#34;만 전달 가능, 그 외에는 BILL_010(으)로 거절") {
		t.Errorf("what is done with a field is not found in Korean:\n%s", page)
	}
	for query, want := range map[string]bool{"휴대전화": true, "mobile": true, "없는단어": false} {
		if _, page := get(t, c, "/table?q="+query, "ko"); strings.Contains(page, "bill.phone") != want {
			t.Errorf("%s: found is %v", query, !want)
		}
	}
}
