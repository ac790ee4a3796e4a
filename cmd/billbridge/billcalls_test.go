package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"billbridge/proxy/sandbox"

	"github.com/tidwall/sjson"
)

// A billRef identifies a bill.
type billRef struct{ partner, bill string }

var backendNames = [2]string{"old", "new"}

// noCallbacks sends no callback.
type noCallbacks struct{}

func (noCallbacks) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("callbacks go nowhere in this test")
}

// startBackends starts sandboxes that are the upstreams old and new, of these forms. It returns them, and the section upstreams of a config, in which
// settings are further keys of both. If serve is not nil, it answers instead.
func startBackends(
	t *testing.T, old, fresh, settings string, keys []string, serve func(n int, service *sandbox.Service, w http.ResponseWriter, q *http.Request),
) (services []*sandbox.Service, upstreams string) {
	o := sandbox.Options{Transport: noCallbacks{}}
	for _, key := range keys {
		o.Partners = append(o.Partners, sandbox.Partner{Key: key, Name: key})
	}
	upstreams = "upstreams:\n"
	for n, form := range []string{old, fresh} {
		service := sandbox.New(o)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if serve == nil {
				service.ServeHTTP(w, q)
				return
			}
			body, err := io.ReadAll(q.Body) // so that the server notices when the gateway gives up
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			q.Body = io.NopCloser(bytes.NewReader(body))
			serve(n, service, w, q)
		}))
		t.Cleanup(func() { server.CloseClientConnections(); server.Close(); _ = service.Close() })
		services = append(services, service)
		upstreams += fmt.Sprintf("  %s: {form: %s, url: %q%s}\n", backendNames[n], form, server.URL, settings)
	}
	return services, upstreams
}

func operationPath(form, op string) string {
	switch {
	case form == "v2" && op == "create":
		return "/bill"
	case form == "v2":
		return "/bill/" + op
	case op == "create":
		return "/if/bill/send"
	}
	return "/if/bill/" + op
}

// createBody returns the body of a create with a callback address.
func createBody(form string, at billRef, callback string) string {
	body, err := sjson.Set(operationBody(form, "create", at, "m", false), map[string]string{"v2": "bill.callbackUrl", "legacy": "bill.callbackURL"}[form], callback)
	if err != nil {
		panic(err)
	}
	return body
}

// operationBody returns the body of a call with the amount 20000. With wrong, its hash is wrong.
func operationBody(form, op string, at billRef, merchant string, wrong bool) string {
	hash := sandbox.Hash(at.bill, "", "20000")
	if wrong {
		hash = sandbox.Hash(at.bill, "", "20001")
	}
	key, id, price := "apiKey", "billId", any(20000)
	if form == "legacy" {
		key, id, price = "apikey", "bill_id", "20000"
	}
	bill := map[string]any{id: at.bill}
	if op == "create" || op == "destroy" || op == "cancel" {
		bill["price"], bill["hash"] = price, hash
	}
	root := map[string]any{key: at.partner, "member": "m", "merchant": merchant}
	switch {
	case op == "create" && form == "v2":
		bill["sendType"] = "TALK"
		root["bill"] = bill
	case op == "create" || form == "v2":
		root["bill"] = bill
	default:
		for name, value := range bill {
			root[name] = value
		}
	}
	text, err := json.Marshal(root)
	if err != nil {
		panic(fmt.Sprint("a call that cannot be spelled: ", err))
	}
	return string(text)
}

// billRefOf returns the bill of a body in either form.
func billRefOf(body []byte) billRef {
	var in struct {
		V2     string `json:"apiKey"`
		Legacy string `json:"apikey"`
		ID     string `json:"bill_id"`
		Bill   struct {
			V2     string `json:"billId"`
			Legacy string `json:"bill_id"`
		} `json:"bill"`
	}
	_ = json.Unmarshal(body, &in)
	return billRef{in.V2 + in.Legacy, in.ID + in.Bill.V2 + in.Bill.Legacy}
}
