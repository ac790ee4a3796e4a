package store_test

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"billbridge/proxy/ledger"
	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

var update = flag.Bool("update", false, "rewrite what the calls of testdata/calls return; review every line of the diff")

// What calls of a store return, as the files of testdata/calls have it, on every engine. A file has tests, each a line
// "== name" and calls. A call is the name of a method or of a helper and its arguments as in YAML, and below it, after a
// tab, what it returns: one line for each result, and for an error its text. A call that returns nothing, or nil as the
// error, has no such line.
//
//	== a refused create releases the bill
//	Own one, b1, old, noon
//		{Partner: one, Bill: b1, Upstream: old, State: pending, Open: 1, …}
//	Complete $b1, refused, noon+1h
//
// Arguments are read by their types. Those at the end may be missing, and are zero, as is ~. one is partnerOne,
// one/12 its first 12 characters, one/upper the whole in capitals; in other texts it is <one>. A digest is that of a text.
// A time is noon, noon+1h, noon-30d or in RFC 3339. $b1 is the last value of the type that a call returned whose ID or
// Bill is b1, and $b1/1 the first. second.Seen is a call at another replica.
func TestCalls(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/calls/*.txt")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there are no files with calls")
	}
	for _, file := range files {
		proxytest.Transcript(t, file, *update, []string{"sqlite", "postgres"},
			func(t *testing.T, engine string) func(string) []string {
				url := map[string]func(testing.TB) string{"sqlite": proxytest.SQLite, "postgres": proxytest.Postgres}[engine]
				at := url(t)
				return newCalls(t, at, open(t, at)).call
			})
	}
}

// errs are errors that are shown by name.
var errs = map[string]error{
	"ErrNotFound": store.ErrNotFound, "ErrState": store.ErrState, "ErrFilter": store.ErrFilter,
	"ErrAmbiguous": store.ErrAmbiguous, "ErrBill": store.ErrBill, "ErrDenied": ledger.ErrDenied,
	"ErrCreateInProgress": ledger.ErrInProgress, "ErrErased": store.ErrErased,
	"ErrOtherOwner": ledger.ErrOtherOwner, "ErrInWave": store.ErrInWave, "ErrFurtherKey": store.ErrFurtherKey, "ErrNotOpen": ledger.ErrNotOpen, "ErrLeaseLost": store.ErrLeaseLost,
}

func newCalls(t *testing.T, url string, s *store.Store) *calls {
	ctx := t.Context()
	counted, revision, names, claimed := 0, int64(0), map[string]string{}, map[string]ledger.Bill{}
	for _, of := range []string{"one", "two"} {
		names[string(partner.Of(of))] = of
	}
	funcs := map[string]any{
		"become": become, "claim": claim, "finish": finish, "bound": bound, "made": made, "shows": shows,
		"noAnswer": noAnswer, "audit": audit, "rollout": rolloutOf, "sum": sum, "various": various, "accept": accept, "rows": onePage,
		"reconcile": reconcile, "older": older, "newer": newer, "ownBill": ownBill, "joined": joined, "setBackends": setBackends, "lostCancel": lostCancel, "showing": showing, "ownShop": ownShop, "acknowledged": acknowledged,
		"step": func(s *store.Store, forward bool, behind int64) error {
			step := stepOf(t, s, forward)
			step.Revision -= behind
			_, err := s.StepWave(ctx, step)
			return err
		},
		"endLook": func(s *store.Store, l store.Look, shown, why string, since, missing, next time.Time) error {
			l.Shown, l.Why, l.Since, l.Missing = shown, why, since, missing
			return s.EndLook(ctx, l, next)
		},
		"conflicts": func(s *store.Store, key store.PartnerKey) (bills []string) {
			_, err := s.CheckKey(ctx, key)
			if conflict := (*store.KeyConflict)(nil); errors.As(err, &conflict) {
				bills = conflict.Bills
			}
			return bills
		},
		"moved":     func() ([]string, []string) { return moved(t, url) },
		"restarted": func(key partner.ID) partner.ID { return open(t, url).Identity(key) },
		"transactions": func() (since []int) { // since the last call
			var n int
			must(t, raw(t, url).QueryRow("SELECT sum(number) FROM billbridge_gateways").Scan(&n))
			if counted > 0 {
				since = append(since, n-counted)
			}
			counted = n
			return since
		},
		"sql": func(statements ...string) { run(t, raw(t, url), statements...) },
		"list": func(s *store.Store, f store.Filter) ([]string, error) {
			all, err := onePage(t, s, f)
			return ids(all), err
		},
		"bills": func(s *store.Store, f store.BillFilter) ([]string, int, error) {
			list, n, err := s.Bills(ctx, f)
			return listed(list), n, err
		},
		"claimLooks": func(s *store.Store, who partner.ID, at time.Time) ([]store.Look, time.Time, error) {
			r, err := s.ClaimRead(ctx, who, store.Due{Bills: at, Looks: at}, at)
			slices.SortFunc(r.Looks, func(a, b store.Look) int { return strings.Compare(a.ID, b.ID) })
			return r.Looks, r.Bill.Due, err
		},
		"claimRead": func(s *store.Store, who partner.ID, at time.Time) (string, error) {
			r, err := s.ClaimRead(ctx, who, store.Due{Bills: at}, at)
			if r.At.IsZero() {
				return "none is due", err
			}
			b := r.Bill
			claimed[b.ID] = b
			w := b.Writes[0]
			return fmt.Sprintf("%s %s as %q %q", b.ID, w.Operation, w.Member, w.Merchant), err
		},
		"endRead": func(s *store.Store, bill, finding string, at, next time.Time) error {
			b := claimed[bill]
			look := ledger.Event{Call: ledger.Call{At: at, Upstream: "old"}, What: ledger.Looked{Read: ledger.Reading{Finding: finding, By: "gateway"}}}
			end := ledger.Event{Call: ledger.Call{At: at}, What: ledger.ReadEnded{Claimed: b.Due, Next: func(time.Time, time.Time) time.Time { return next }}}
			if finding == "" {
				_, _, err := s.Apply(ctx, b, end)
				return err
			}
			_, _, err := s.Apply(ctx, b, look, end)
			return err
		},
		"outcomes": func(s *store.Store, list store.BillList, before time.Time) ([]string, int, error) {
			found, n, err := s.Bills(ctx, store.BillFilter{List: list, UnclearBefore: before, Limit: 10, Now: noon})
			var lines []string
			for _, b := range found {
				lines = append(lines, fmt.Sprintf("%s %s by %q, %d reads", b.ID, b.Writes[0].Read.Finding, b.Writes[0].Read.By, b.Reads))
			}
			return lines, n, err
		},
		"noAnswerOf": func(s *store.Store, who partner.ID, bill string, at, next time.Time) error {
			return proxytest.On(s).NoAnswer(ctx, who, bill, ledger.Call{
				Operation: "bill.create", Upstream: "old", Request: "call", At: at, Member: "member of " + bill, Merchant: "shop",
			}, ledger.Reading{Finding: "not asked"}, next)
		},
		"revised": func(s *store.Store) (bool, error) { // since the last call
			was := revision
			now, err := s.Revision(ctx)
			revision = now
			return now > was, err
		},
		"says": func(s *store.Store, bill, state string, hours time.Duration, made bool) (fresh, told bool, _ error) {
			c := callback(fmt.Sprint(bill, " ", state, hours), bill)
			if made {
				c.ID = store.MadePrefix + fmt.Sprint(bill, hours)
			}
			c.Says, c.Once, c.Received = state, true, noon.Add(hours)
			c.Later = map[string]string{"": "paid cancelled", "paid": "paid cancelled", "cancelled": "cancelled"}[state]
			fresh, err := isFresh(s.Accept(ctx, c, time.Hour))
			must(t, err)
			told, _, err = s.Told(ctx, c.Order, "", c.Later, "new", c.Says)
			return fresh, told, err
		},
		"delivery": func(s *store.Store, at time.Time) store.Callback { return claim(t, s, at)[0].Callback },
		"page": func(s *store.Store, f store.Filter, examined int) (_ []string, next string, _ error) {
			p, err := s.PageWithin(ctx, f, examined)
			all, _ := onePage(t, s, store.Filter{})
			for _, c := range all {
				if c.Cursor == p.Next {
					next = "the next begins after " + c.ID
				}
			}
			return ids(p.Callbacks), next, err
		},
		"allOf": func(s *store.Store, f store.Filter) (_ []string, _ int, _, _, _, _ error) {
			all, paged := onePage(t, s, f)
			n, counted := s.Count(ctx, f)
			if paged == nil {
				return ids(all), n, nil, counted, nil, nil
			}
			_, replayed := s.Decide(ctx, store.Replay, f, store.Author{Name: "tester"}, noon, nil)
			_, dropped := s.Decide(ctx, store.Drop, f, store.Author{Name: "tester"}, noon, nil)
			return nil, n, paged, counted, replayed, dropped
		},
	}
	return &calls{t: t, ctx: ctx, url: url, replicas: []*store.Store{s}, names: names, funcs: funcs}
}

// show returns the text for a value. Fields that are zero are not in it, nor cursors, revisions and versions.
func (c *calls) show(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case partner.ID:
		if name := c.names[string(value)]; name != "" {
			return name
		}
	case store.Claimed:
		return value.ID
	case time.Time:
		return showTime(value)
	case time.Duration:
		return showDuration(value)
	case [32]byte:
		return fmt.Sprintf("%.4x…", value)
	case []byte:
		return c.showText(string(value))
	}
	var all []string
	switch v.Kind() {
	case reflect.String:
		return c.showText(v.String())
	case reflect.Pointer:
		return c.show(v.Elem())
	case reflect.Struct:
		return "{" + strings.Join(c.fields(v), ", ") + "}"
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, c.show(v.Index(i)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case reflect.Map:
		for _, key := range v.MapKeys() {
			all = append(all, c.show(key)+": "+c.show(v.MapIndex(key)))
		}
		slices.Sort(all)
		return "{" + strings.Join(all, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

func (c *calls) fields(v reflect.Value) (all []string) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case !f.IsExported() || slices.Contains([]string{"Cursor", "Revision", "Version"}, f.Name):
		case v.Field(i).IsZero() || f.Type.Kind() == reflect.Slice && v.Field(i).Len() == 0:
		case f.Anonymous:
			all = append(all, c.fields(v.Field(i))...)
		default:
			all = append(all, f.Name+": "+c.show(v.Field(i)))
		}
	}
	return all
}

func showTime(at time.Time) string {
	const day = 24 * time.Hour
	after := at.Sub(noon)
	switch {
	case at.IsZero():
		return "never"
	case after == 0:
		return "noon"
	case after < -10_000*time.Hour || after > 100_000*time.Hour:
		return at.UTC().Format(time.RFC3339)
	case after%day == 0:
		return fmt.Sprintf("noon%+dd", after/day)
	case after > day:
		return fmt.Sprintf("noon+%dd%s", after/day, showDuration(after%day))
	case after > 0:
		return "noon+" + showDuration(after)
	}
	return "noon" + showDuration(after)
}

func showDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func (c *calls) showText(text string) string {
	text = c.named(text)
	if text == "" || !utf8.ValidString(text) || strings.ContainsAny(text, ",{}\"") ||
		strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
