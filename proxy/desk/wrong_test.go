package desk

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"billbridge/proxy/proxytest"
)

// wrongShops are shops with one wrong habit each, and the cases that fail because of it, or have a warning. The
// habits with a * were seen in public clients (field-notes.md).
const wrongShops = `
adds-a-fee                      : all
tries-hashes                    : A1
unknown-field                   : A1:WARNING
wrong-price-type                : A1:WARNING
legacy-time-is-paid             : A4a ! legacy
zero-price-is-paid              : A4a ! v2
null-is-paid                    : A4b
text-zero-is-paid               : A4c
absent-is-paid                  : A4d
cancels-thrice                  : A5
hashes-cancel-with-phone        : A3 A5 U9
hashes-destroy-with-phone       : A6 U11
resends-twice                   : A7 A8c U12:WARNING
reissues-instead-of-resend      : A7 A8c U12
refused-destroy-is-done         : A8a
reissues-after-refused-destroy* : A8a
refused-cancel-failed           : A8b
reissues-after-refused-resend   : A8c
declined-is-refunded            : A9
repeats-declined*               : A9
repeats-POINT_001               : A10a
repeats-PARTNER_007             : A10b
repeats-VALIDATION_001          : A10c
repeats-PAYMENT_003             : A10d
repeats-unknown-codes           : A10e
new-id-after-anything*          : U1 U2 U3 U4 U5 U6a U6b U7 U8 L3
new-id-after-closed             : U1 U2 U8 L3
new-id-after-not-found          : U2 U8
new-id-after-504                : U3
new-id-after-half               : U4
new-id-after-500                : U5
new-id-after-empty-object       : U6a
new-id-after-empty              : U6b
new-id-after-timeout            : U7
duplicate-is-failure            : L3 U1 U3 U4 U5 U6a U6b U7
lost-is-failure*                : L3 N3 U8 U1 U2 U3 U4 U5 U6a U6b U7
lost-is-success                 : N3 U8 U1 U2 U3 U4 U5 U6a U6b U7
lost-cancel-failed              : U9 U10
lost-cancel-done                : U9 U10
lost-cancel-done-whatever-it-reads : U10
lost-destroy-failed             : U11
repeats-lost-resend             : U12:WARNING
gives-up-503                    : N1
gives-up-429                    : N2
gives-up-closed                 : L3 N3 U1 U2 U4 U7 U8
gives-up-maintenance            : N4
again-is-new                    : N1 N2 N3 N4
repeats-at-once                 : N1:WARNING N2:WARNING N4:WARNING
ignores-retry-after             : N1:WARNING
reissues-after-closed-read      : R1
reissues-after-502-read         : R2
reissues-after-504-read         : R3
reissues-after-ERROR-read*      : R4
reissues-after-maintenance-read : R5
reissues-after-empty-read       : R6
takes-another-bill              : R7
not-found-closes*               : R8
reissues-after-not-found        : R8
withdraws-after-failed-read     : R1 R2 R3 R4 R5 R6 R7 R8
answers-result-ok*              : K1 K7 K8
answers-201*                    : K1 K7 K8
does-not-say-amount             : K1:WARNING K4:WARNING
does-not-read                   : A3 A5 A8b K1 K12 K13 K14 K15 K2 K4 K5 K7 K8 K9 L2 R1 R2 R3 R4 R5 R6 R7 R8 U9 ! v2
ships-before-reading            : A4a A4b A4c A4d K10 K11 K2 R1 R2 R3 R4 R5 R6 R7
ships-on-body                   : A3 A4a A4b A4c A4d K1 K10 K11 K2 K3b K4 R1 R2 R3 R4 R5 R6 R7 R8
ships-with-any-key              : K3a
ships-without-key               : K3b
books-callback-amount           : K4
takes-order-from-path           : K5 R7
unknown-bill-is-500             : K6
ships-in-a-race                 : K7
ships-twice                     : A9 K5 K7 K8 U10
repetition-is-500*              : K7 K8
done-before-work                : K8 K10 K11 K12 L2 R1 R2 R3 R4 R5 R6 R7 R8
forgets-early-callbacks         : K9
callback-wins-over-W            : K10
ships-if-read-fails             : K11 R1 R2 R3 R4 R5 R6
first-callback-only*            : K12 R1 R2 R3 R4 R5 R6 R7 R8
payments-only*                  : K12
takes-state-from-callback       : K13
refund-needs-paid               : K13
strict-fields                   : K14 ! v2
ignores-old-callbacks           : K15
no-reconcile                    : L1 L2 L3
reconciles-unpaid-only          : L2
reconciles-known-only           : U2
legacy-read-needs-code          : A3 A5 A8a A8b A8c A9 K1 K10 K11 K12 K13 K15 K4 K5 K7 K8 K9 L1 L2 L3 R1 R2 R3 R4 R5 R6 R7 R8 U1 U10 U11 U3 U4 U5 U6a U6b U7 U9 ! legacy
`

type wrongShop struct {
	habit, form string // the form is empty for both
	fails       string
}

func listWrongShops() (list []wrongShop) {
	for line := range strings.Lines(strings.TrimSpace(wrongShops)) {
		habit, rest, _ := strings.Cut(line, ":")
		rest, form, _ := strings.Cut(rest, "!")
		list = append(list, wrongShop{strings.Trim(habit, " *"), strings.TrimSpace(form), strings.TrimSpace(rest)})
	}
	return list
}

// A shop with one wrong habit fails exactly the cases that are named.
func TestWrongShopsAreCaught(t *testing.T) {
	t.Parallel()
	for i, w := range listWrongShops() {
		for _, form := range []string{"v2", "legacy"} {
			// Each run takes half a second of a processor: the short form has a third of the habits in each form.
			few := w.form == "" && i%3 != map[string]int{"v2": 0, "legacy": 1}[form] && !proxytest.Long()
			if w.form != "" && w.form != form || few {
				continue
			}
			t.Run(w.habit+"/"+form, func(t *testing.T) {
				t.Parallel()
				all := runShop(t, form, w.habit, nil).Verdicts
				got, want := strings.Fields(failing(all)), strings.Fields(w.fails)
				if w.fails == "all" {
					want = nil
					for _, v := range all {
						if v.Result != Skipped {
							want = append(want, v.Case)
						}
					}
				}
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

// Each case is failed by a shop. The test prints the case table.
func TestEachCaseCatchesAShop(t *testing.T) {
	t.Parallel()
	caught := map[string][]string{} // habits by case
	for _, w := range listWrongShops() {
		for name := range strings.FieldsSeq(w.fails) {
			id, _, _ := strings.Cut(name, ":")
			if !slices.Contains(caught[id], w.habit) {
				caught[id] = append(caught[id], w.habit)
			}
		}
	}
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "case\twhat is done\twhat is watched\twrong shops that it catches")
	for _, c := range cases {
		slices.Sort(caught[c.ID])
		watched := []string{}
		for _, step := range c.Steps {
			if strings.HasPrefix(step, "says") {
				watched = append(watched, step)
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", c.ID, c.Title, strings.Join(append(watched, c.Watch...), ", "),
			strings.Join(caught[c.ID], ", "))
		if len(caught[c.ID]) == 0 {
			t.Errorf("no wrong shop fails case %s", c.ID)
		}
	}
	_ = out.Flush()
	t.Log("\n" + table.String())
}
