package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// TestOptions: each choice where the document is silent, chosen otherwise.
func TestOptions(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, body, want string) {
		t.Helper()
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	t.Run("failure data", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{FailureData: `{"a":[1]}`})
		_, body := r.post("/bill/read", "{}")
		has(t, body, `"data":{"a":[1]}}`)
	})
	t.Run("legacy codes", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{LegacyCodes: map[string]string{"BILL_001": "9800", "BILL_003": "9980", "*": "9999"}})
		for _, step := range []struct {
			q    ask
			want string
		}{
			{newAsk("legacy", "read"), "9980"},
			{newAsk("v2", "read"), "BILL_003"},
			{newAsk("legacy", "create"), "0000"},
			{newAsk("legacy", "create"), "9800"},
			{newAsk("legacy", "destroy").with("hash", "00"), "9999"},
			{newAsk("v2", "destroy").with("hash", "00"), "VALIDATION_002"},
		} {
			if code, _ := r.do(step.q); code != step.want {
				t.Errorf("%s %s: got %s, want %s", step.q.form, step.q.op, code, step.want)
			}
		}
	})
	t.Run("legacy send", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{SwapLegacySend: true, NoLegacyShortURL: true})
		body := r.must(newAsk("legacy", "create"))
		has(t, body, `"member":"demo-store","merchant":"demo-member"`)
		if strings.Contains(body, "short") {
			t.Error(body)
		}
		has(t, r.must(newAsk("legacy", "destroy")), `"member":"demo-member","merchant":"demo-store"`)
	})
	t.Run("bill ids", func(t *testing.T) {
		t.Parallel()
		for _, row := range []struct {
			o        sandbox.Options
			id, want string
		}{
			{sandbox.Options{BillIDs: sandbox.AnyCharacters}, "a-b c", "0000"},
			{sandbox.Options{BillIDs: sandbox.AnyCharacters}, limit21, "BILL_007"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty}, billID, "0000"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty}, billID[:19], "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty}, "ABCDEFGHIJ1234567890", "VALIDATION_001"},
			{sandbox.Options{BillIDs: sandbox.ExactlyTwenty, Environment: sandbox.Production}, "ABCDEFGHIJ1234567890", "0000"},
		} {
			if code, _ := start(t, row.o).do(newAsk("v2", "create").with("billId", row.id)); code != row.want {
				t.Errorf("%q: got %s, want %s", row.id, code, row.want)
			}
		}
	})
	t.Run("global bill ids", func(t *testing.T) {
		t.Parallel()
		for global, want := range map[bool]string{false: "0000", true: "BILL_001"} {
			r := start(t, sandbox.Options{GlobalBillIDs: global})
			r.bring("W")
			if code, _ := r.do(newAsk("legacy", "create").with("apiKey", "demo-nourl-key")); code != want {
				t.Errorf("global %v: got %s, want %s", global, code, want)
			}
		}
	})
	t.Run("any store", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{AnyStore: true})
		r.bring("W")
		r.must(newAsk("legacy", "read").with("member", "other"))
	})
	t.Run("codes", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{DestroyRefused: "ERROR", WrongAmount: "PAYMENT_002"})
		r.bring("F")
		if code, _ := r.do(newAsk("v2", "destroy")); code != "ERROR" {
			t.Error(code)
		}
		if code, _ := r.do(newAsk("v2", "cancel").with("price", "1")); code != "PAYMENT_002" {
			t.Error(code)
		}
	})
	t.Run("pay types", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{PayTypes: map[string]int{"CARD_VAN": 12}})
		r.bring("F")
		has(t, r.must(newAsk("v2", "read")), `"apprPayType":12,`)
	})
	t.Run("numbers when unpaid", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{NumbersWhenUnpaid: sandbox.NullWhenUnpaid})
		r.bring("W")
		has(t, r.must(newAsk("v2", "read")), `"apprDt":null,`)
		r = start(t, sandbox.Options{NumbersWhenUnpaid: sandbox.OmitWhenUnpaid})
		r.bring("W")
		if body := r.must(newAsk("v2", "read")); strings.Contains(body, "apprDt") || strings.Contains(body, "apprPayType") {
			t.Error(body)
		}
	})
	t.Run("base url from the host", func(t *testing.T) {
		t.Parallel()
		r := start(t, sandbox.Options{})
		var reply struct{ ShortURL string }
		if err := json.Unmarshal([]byte(r.must(newAsk("legacy", "create"))), &reply); err != nil || !strings.HasPrefix(reply.ShortURL, r.url+"/b/") {
			t.Errorf("%v %q", err, reply.ShortURL)
		}
	})
}

func TestParseEnvironment(t *testing.T) {
	t.Parallel()
	for _, e := range []sandbox.Environment{sandbox.Development, sandbox.Production} {
		if got, err := sandbox.ParseEnvironment(string(e)); got != e || err != nil {
			t.Error(got, err)
		}
	}
	if _, err := sandbox.ParseEnvironment("prod"); err == nil || err.Error() != `environment: expected development or production but got: "prod"` {
		t.Error(err)
	}
}
