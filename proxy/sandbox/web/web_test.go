package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/proxytest/browser"
	"billbridge/proxy/sandbox"
	"billbridge/proxy/sandbox/web"
)

const (
	demoKey   = "demo-partner-key"
	hanaKey   = "hana-key-0123456789"
	hanaToken = "hana-token-0123456789"
	duriKey   = "duri-key-0123456789"
	duriToken = "duri-token-0123456789"
	hostile   = `<b onclick="x">`
)

var (
	must         = proxytest.Must
	has, lacks   = proxytest.Has, proxytest.Lacks
	gives, fails = proxytest.Gives, proxytest.Fails
)

func equal[T any](t proxytest.Reporter, got, want T, about ...any) {
	t.Helper()
	proxytest.Equal(t, got, want, about...)
}

func TestMain(m *testing.M) {
	code := proxytest.Tests{M: m}.Run()
	if err := browser.End(); err != nil {
		fmt.Fprintln(os.Stderr, "ending the browser:", err)
		code = 1
	}
	os.Exit(code)
}

// A rig is a sandbox with its pages, and a receiver of callbacks. The path /refuses is an address that refuses them.
type rig struct {
	*sandbox.Service
	t                         *testing.T
	calls, control, callbacks string
}

func start(t *testing.T, options ...sandbox.Options) *rig {
	t.Helper()
	o := append(options, sandbox.Options{})[0]
	o.PrivateCallbacks = true // receivers of tests are on loopback
	if o.Partners == nil {
		o.Partners = append(sandbox.DefaultPartners(),
			sandbox.Partner{Key: hanaKey, Name: "Hana", ControlToken: hanaToken},
			sandbox.Partner{Key: duriKey, Name: "Duri", ControlToken: duriToken})
	}
	s := sandbox.New(o)
	t.Cleanup(func() { _ = s.Close() })
	h, err := web.New(web.Options{Service: s, Version: "test", Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	receiver := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuses" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"code":"0000"}`)
	})
	var urls [3]string
	for i, h := range []http.Handler{s, h, receiver} {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		urls[i] = server.URL
	}
	return &rig{s, t, urls[0], urls[1], urls[2]}
}

// call makes a call in v2. fields are further fields of a create, or replace them. It returns the code, or "" without a reply.
func (r *rig) call(op, key, bill string, fields map[string]any) (code string) {
	r.t.Helper()
	path, b := "/bill/"+op, map[string]any{"billId": bill}
	switch op {
	case "create":
		path = "/bill"
		b = map[string]any{
			"billId": bill, "sendType": "URL", "productName": "3월 수강료", "price": 30000, "memberName": "김하늘", "phone": "01012345678",
			"callbackUrl": r.callbacks + "/accepts", "hash": sandbox.Hash(bill, "01012345678", "30000"),
		}
	case "cancel", "destroy":
		b["price"], b["hash"] = 30000, sandbox.Hash(bill, "", "30000")
	}
	for name, value := range fields {
		b[name] = value
	}
	body, err := json.Marshal(map[string]any{"apiKey": key, "member": "demo-member", "merchant": "demo-store", "bill": b})
	must(r.t, err)
	res, err := http.Post(r.calls+path, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var reply struct{ Code string }
	must(r.t, json.NewDecoder(res.Body).Decode(&reply))
	return reply.Code
}

// fill makes calls and bills of every kind that pages show.
func (r *rig) fill() {
	r.t.Helper()
	r.call("create", demoKey, "WRONG-HASH", map[string]any{"hash": "00"})
	r.call("create", demoKey, "UNPAID", nil)
	r.call("create", demoKey, "PAID", nil)
	r.call("create", demoKey, "REFUSES", map[string]any{"callbackUrl": r.callbacks + "/refuses", "memberName": hostile})
	r.call("create", "demo-nourl-key", "NOT-URL", nil)
	r.call("create", "no-such-key", "UNKNOWN", nil)
	must(r.t, r.AddFault(sandbox.Fault{Operation: "payment", Bill: "PAID", Code: "PAYMENT_001"}))
	fails(r.t, "PAYMENT_001", "the payment was not declined")(r.Pay(demoKey, "PAID"))
	for _, bill := range []string{"PAID", "REFUSES"} {
		must(r.t, r.Pay(demoKey, bill))
	}
	r.call("read", demoKey, "PAID", nil)
	r.call("cancel", demoKey, "UNPAID", nil)
	r.call("create", hanaKey, "OF-HANA", map[string]any{"memberName": "HanaCustomer"})
	must(r.t, r.Pay(hanaKey, "OF-HANA"))
	must(r.t, r.AddFault(sandbox.Fault{Name: "lost_reply", Operation: "bill.create", Partner: demoKey, Drop: true}))
	r.call("create", demoKey, "LOST", nil)
	must(r.t, r.AddFault(sandbox.Fault{Name: "callback_twice", Operation: "callback.payment", Partner: demoKey, FaultOfOne: sandbox.FaultOfOne{Copies: 2}}))
	must(r.t, r.AddFault(sandbox.Fault{Name: "slow", Operation: "bill.read", Partner: hanaKey, Delay: 1, Until: r.Now().AddDate(1, 0, 0)}))
	proxytest.Eventually(r.t, func() bool {
		n := 0
		for _, x := range r.Exchanges() {
			if x.Operation == "callback.payment" || x.Bill == "LOST" {
				n++
			}
		}
		return n == 4
	}, nil)
}

// number returns the address of the first call of a bill with an operation.
func (r *rig) number(operation, bill string) string {
	r.t.Helper()
	for _, x := range r.Exchanges() {
		if x.Operation == operation && x.Bill == bill {
			return fmt.Sprint("/desk/calls/", x.Number)
		}
	}
	r.t.Fatalf("no %s of %s", operation, bill)
	return ""
}
