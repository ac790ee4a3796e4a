package store_test

import (
	"fmt"
	"testing"
	"time"

	"billbridge/proxy/ledger"
	"billbridge/proxy/proxytest"
)

func inWords(o proxytest.Owner) string {
	words := fmt.Sprint(o.Upstream, " ", o.State, " ", o.Open)
	if o.Uncertain {
		words += " uncertain"
	}
	return words
}

// A create and its callback address are stored in one transaction. A create that is not recorded leaves no address, and
// neither does one whose bill is at another upstream.
func TestCreateAndItsAddressAreOneTransaction(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		s, db := open(t, url), raw(t, url)
		count := func(what string) (n int) {
			t.Helper()
			must(t, db.QueryRow("SELECT "+what).Scan(&n))
			return n
		}
		const transactions, addresses = "sum(number) FROM billbridge_gateways", "count(*) FROM billbridge_addresses"
		begin := func(bill, upstream string, at time.Time, random string) (ledger.Bill, string, error) {
			a := address(random, bill)
			a.Upstream = ""
			return s.Begin(t.Context(), ledger.Bill{Partner: partnerOne, ID: bill}, a, ledger.Event{
				Call: ledger.Call{At: at, Upstream: upstream}, What: ledger.CreateBegun{Token: random},
			})
		}
		before := count(transactions)
		b, id, err := begin("b1", "new", noon, "000000000001")
		must(t, err)
		equal(t, count(transactions)-before, 1, "transactions of a create")
		equal(t, b.Upstream, "new")
		got, err := s.Address(t.Context(), id)
		must(t, err)
		want := address(id, "b1")
		want.Upstream = "new"
		equal(t, got, want)
		equal(t, s.SealedFor("new", id), true, "sealed for its upstream")
		b, id, err = begin("b1", "old", noon, "000000000002")
		must(t, err)
		equal(t, b.Upstream+id, "new", "a create whose bill is at another upstream")
		equal(t, count(addresses), 1)
		_, id, err = begin("b1", "new", noon, "000000000003")
		must(t, err)
		equal(t, bound(t, s, id), []string{id}, "the second create of a bill")
		equal(t, count(addresses), 2)
		_, _, err = s.Apply(t.Context(), ledger.Bill{Partner: partnerOne, ID: "b2"}, ledger.Event{
			Call: ledger.Call{At: noon.Add(time.Minute), Upstream: "old"}, What: ledger.Denied{},
		})
		must(t, err)
		fails(t, ledger.ErrDenied)(second(begin("b2", "new", noon, "000000000004")))
		equal(t, count(addresses), 2, "after a create that is denied")
		run(t, db, "ALTER TABLE billbridge_addresses RENAME TO away")
		fails(t, "")(second(begin("b3", "new", noon, "000000000005")))
		equal(t, count("count(*) FROM billbridge_bills WHERE bill = 'b3'"), 0, "bills whose address cannot be stored")
	})
}

func second[A, B any](_ A, b B, err error) (B, error) { return b, err }
