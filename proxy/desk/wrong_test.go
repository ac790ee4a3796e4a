package desk

import (
	"slices"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

type wrongShop struct {
	habit, form string // the form is empty for both
	fails       string
}

// listWrongShops reads testdata/wrong-shops.txt.
func listWrongShops(t testing.TB) (list []wrongShop) {
	for line := range strings.Lines(string(proxytest.ReadFile(t, "testdata/wrong-shops.txt"))) {
		if line[0] == '#' {
			continue
		}
		habit, rest, _ := strings.Cut(line, ":")
		rest, form, _ := strings.Cut(rest, "!")
		list = append(list, wrongShop{strings.Trim(habit, " *"), strings.TrimSpace(form), strings.TrimSpace(rest)})
	}
	return list
}

// A shop with one wrong habit fails exactly the cases that are named. All cases take half a second of a processor: the
// short form has a habit in one form, with the cases that it fails and those of one other group.
func TestWrongShopsAreCaught(t *testing.T) {
	t.Parallel()
	forms := []string{"v2", "legacy"}
	for i, w := range listWrongShops(t) {
		for j, form := range forms {
			if w.form != "" && w.form != form || w.form == "" && i%2 != j && !proxytest.Long() {
				continue
			}
			t.Run(w.habit+"/"+form, func(t *testing.T) {
				t.Parallel()
				fails := w.fails // of this form
				all := runShop(t, form, w.habit, func(c *Config) {
					if !proxytest.Long() && w.habit != "ids-from-time" { // its bills depend on all cases before
						some := strings.ReplaceAll(fails, ":"+Warning, "")
						c.Plan.Only = append(strings.Fields(some), "KLNR"[i%4:i%4+1])
					}
				}).Verdicts
				if all[0].Result == Failed { // nothing else was run
					all = all[:1]
				}
				for _, v := range all {
					if v.Result == Skipped {
						fails = strings.ReplaceAll(fails, v.Case, "")
					}
				}
				got, want := strings.Fields(failing(all)), strings.Fields(fails)
				slices.Sort(want)
				slices.Sort(got)
				equal(t, strings.Join(got, " "), strings.Join(want, " "))
				if t.Failed() {
					t.Log("\n" + describe(all))
				}
			})
		}
	}
}

// Each case is failed by a shop.
func TestEachCaseCatchesAShop(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	for _, w := range listWrongShops(t) {
		for name := range strings.FieldsSeq(w.fails) {
			id, _, _ := strings.Cut(name, ":")
			caught[id] = true
		}
	}
	for _, c := range Cases() {
		equal(t, caught[c.ID], true, "a wrong shop fails case", c.ID)
	}
}
