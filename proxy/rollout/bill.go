package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"billbridge/proxy/partner"
	"billbridge/proxy/rollout/evidence"
	"billbridge/proxy/store"
)

// A ReadBill reads a bill at an upstream as a partner would; its Result is one of ResultTexts. Without a key it uses the key
// of the partner's first call. If the partner has not called, asked is empty.
type ReadBill func(ctx context.Context, upstream string, as Credentials, bill string) (says BackendBill, asked Credentials)

// Credentials are the partner, member and merchant with which a bill is read.
type Credentials struct {
	Partner  partner.ID `json:"-"` // full
	Key      string     `json:"-"` // "" if the operator did not give it
	Member   string     `json:"member,omitempty"`
	Merchant string     `json:"merchant,omitempty"`
}

// A BackendBill is the result of a read of a bill at a backend.
type BackendBill struct {
	Upstream string `json:"upstream"`
	Result   string `json:"result"` // one of ResultTexts, or "not asked"
	State    string `json:"state,omitempty"`
	Ended    bool   `json:"-"` // whether the bill stays in the state
	Amount   string `json:"amount,omitempty"`
	Code     string `json:"code,omitempty"`
}

// ResultTexts are the results of reads in the operator's words.
var ResultTexts = map[ProbeResult]string{Unclear: "no clear answer", Absent: "no such bill", Present: "has it", Refusing: "refuses the partner"}

const notAsked = "not asked"

// A Bill is what the ledger and the backends have of one bill.
type Bill struct {
	Partner  string        `json:"partner"`
	Name     string        `json:"name,omitempty"` // of the partner
	Bill     string        `json:"bill"`
	Ledger   *LedgerBill   `json:"ledger,omitempty"` // nil if the ledger does not have it
	Backends []BackendBill `json:"backends"`         // old and new, or the one that was read
	ReadAs   *Credentials  `json:"read_as,omitempty"`
}

// A LedgerBill is a bill's row in the ledger.
type LedgerBill struct {
	Owner   string     `json:"owner"`
	State   string     `json:"state"`             // pending, owned, released
	Since   time.Time  `json:"since"`             // since when it is in this state
	Open    int        `json:"open,omitempty"`    // creates that were not completed: under way, or interrupted by the end of their gateway
	Unknown bool       `json:"unknown,omitempty"` // a create had an unknown outcome
	Ends    time.Time  `json:"ends"`              // when the bill ends
	Ended   *time.Time `json:"ended,omitempty"`   // when it was seen destroyed or cancelled
}

// ReadBillsWith sets how bills are read for operators. It must be called before the first of their calls.
func (r *Router) ReadBillsWith(read ReadBill) { r.readBill = read }

// bill answers GET /rollout/bill, and POST with {"key": …} where the gateway does not know the partner's key.
func (r *Router) bill(w http.ResponseWriter, req *http.Request) {
	var given struct{ Key string }
	if req.Method == http.MethodPost {
		if err := json.NewDecoder(io.LimitReader(req.Body, 64<<10)).Decode(&given); err != nil || given.Key == "" {
			http.Error(w, `the body must be {"key": …}, the partner's key`, http.StatusBadRequest) // without the body, which may be a key
			return
		}
	}
	jsonHandler(func(ctx context.Context, query string) (Bill, error) {
		q, err := parseQuery(query, "partner", "bill", "member", "merchant")
		if err != nil {
			return Bill{}, err
		}
		return r.lookUp(ctx, q, given.Key, false)
	})(w, req)
}

// read answers POST /rollout/read: it reads the bill at its owning backend alone, or at both if it has no owner, and records in the
// ledger what they say.
func (r *Router) read(w http.ResponseWriter, req *http.Request) {
	key, ok := keyIn(w, req)
	if !ok {
		return
	}
	jsonHandler(func(ctx context.Context, query string) (Bill, error) {
		q, err := parseQuery(query, "partner", "bill", "member", "merchant")
		if err != nil {
			return Bill{}, err
		}
		return r.lookUp(ctx, q, key, true)
	})(w, req)
}

// keyIn is the partner's key in a body that may be left out. If ok is false, the call has been answered.
func keyIn(w http.ResponseWriter, req *http.Request) (key string, ok bool) {
	var given struct{ Key string }
	if err := json.NewDecoder(io.LimitReader(req.Body, 64<<10)).Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, `the body must be {"key": …}, the partner's key, or empty`, http.StatusBadRequest)
		return "", false
	}
	return given.Key, true
}

// partnerOf is the full ID of the partner whose key the operator gave, or whom the query names.
func (r *Router) partnerOf(ctx context.Context, q params, key string) (partner.ID, error) {
	switch _, named := q["partner"]; {
	case key != "" && named:
		return "", badRequest("give partner or the partner's key, not both")
	case key == "":
		return r.named(ctx, q["partner"])
	}
	return partner.Of(key), nil
}

// lookUp finds what the ledger and both backends have of a bill. With read, only the owning backend is asked, if there is one, and
// its answer is recorded in the ledger.
func (r *Router) lookUp(ctx context.Context, q params, key string, read bool) (b Bill, err error) {
	if err := r.requireStore(); err != nil {
		return b, err
	}
	as := Credentials{Key: key, Member: q["member"], Merchant: q["merchant"]}
	if as.Partner, err = r.partnerOf(ctx, q, key); err != nil {
		return b, err
	}
	if as.Partner == "" || q["bill"] == "" {
		return b, badRequest("partner and bill are required, and partner cannot be default")
	}
	b.Partner, b.Name, b.Bill = as.Partner.Short(), r.name(as.Partner), q["bill"]
	if err := r.inLedger(ctx, as.Partner, &b); err != nil {
		return b, err
	}
	backends := r.current.Load().backends[:]
	owned := read && b.Ledger != nil && b.Ledger.State != string(store.Released) && slices.Contains(backends, b.Ledger.Owner)
	if owned {
		backends = []string{b.Ledger.Owner}
	}
	sent := r.now()
	for _, upstream := range backends {
		says, askedAs := BackendBill{}, Credentials{}
		if r.readBill != nil {
			says, askedAs = r.readBill(ctx, upstream, as, b.Bill)
		}
		if askedAs.Key == "" {
			says = BackendBill{Upstream: upstream, Result: notAsked}
		} else {
			b.ReadAs = &askedAs
		}
		b.Backends = append(b.Backends, says)
	}
	if read && b.ReadAs != nil {
		return b, r.recordReads(ctx, as.Partner, &b, owned, sent)
	}
	return b, nil
}

// inLedger finds what the ledger has of a bill.
func (r *Router) inLedger(ctx context.Context, partner partner.ID, b *Bill) error {
	row, err := r.store.Owner(ctx, partner, b.Bill)
	switch {
	case err == nil:
		b.Ledger = &LedgerBill{row.Upstream, string(row.State), row.Changed, row.Open, row.Uncertain, row.Ends, known(row.Ended)}
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return nil
}

// recordReads records the results of reads of a bill in the ledger, as after a partner's read. Only an answer of the owning
// backend makes the bill owned: if both backends were read, a create may be under way.
func (r *Router) recordReads(ctx context.Context, partner partner.ID, b *Bill, owned bool, sent time.Time) error {
	ctx, cancel := withNewTimeout(ctx) // the reads may have used up the first timeout
	defer cancel()
	for _, says := range b.Backends {
		s := ReadResult{Result: Unclear, State: says.State, Ended: says.Ended, Amount: says.Amount}
		for finding, words := range ResultTexts {
			if words == says.Result {
				s.Result = finding
			}
		}
		if owned && s.Result == Present {
			if _, err := r.store.Found(ctx, partner, b.Bill, says.Upstream, r.now()); err != nil {
				return err
			}
		}
		if err := r.recordRead(ctx, partner, b.Bill, says.Upstream, s, sent); err != nil {
			return err
		}
	}
	return r.inLedger(ctx, partner, b)
}

// assign answers POST /rollout/assign: an operator decides which backend owns a bill that both have. Unless both have it, there is
// a blocking reason.
func (r *Router) assign(w http.ResponseWriter, req *http.Request) {
	key, ok := keyIn(w, req)
	if !ok {
		return
	}
	jsonHandler(func(ctx context.Context, query string) (c Changed, err error) {
		q, c, err := r.parseChange(query, store.Assigned, "partner", "bill", "member", "merchant", "to")
		if err != nil {
			return c, err
		}
		s := r.current.Load()
		to, ok := map[string]string{"old": s.backends[evidence.Old], "new": s.backends[evidence.New]}[q.params["to"]]
		if !ok {
			return c, badRequest("to must be old or new, but is %q", q.params["to"])
		}
		b, err := r.lookUp(ctx, q.params, key, false)
		if err != nil {
			return c, err
		}
		var reasons []BlockingReason
		for _, backend := range b.Backends {
			if backend.Result != ResultTexts[Present] {
				text := fmt.Sprintf("the read of the bill at %s: %s", backend.Upstream, backend.Result)
				reasons = append(reasons, BlockingReason{Kind: NotAtBoth, Text: text})
			}
		}
		if err := c.override(reasons, q.force); err != nil {
			return c, err
		}
		partner, err := r.partnerOf(ctx, q.params, key)
		if err != nil {
			return c, err
		}
		ctx, cancel := withNewTimeout(ctx)
		defer cancel()
		if err := r.store.Assign(ctx, partner, b.Bill, to, c.By, c.At, c.Forced); err != nil {
			return c, err
		}
		c.Partner, c.Name, c.Subject, c.To = b.Partner, b.Name, b.Bill, to
		if b.Ledger != nil {
			c.From = b.Ledger.Owner
		}
		return c, r.changed(ctx, &c)
	})(w, req)
}
