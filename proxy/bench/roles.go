package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// role runs this program in one of its roles: the backend, or ReverseProxy in front of it.
func role(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "backend":
		return http.ListenAndServe(args[1], http.HandlerFunc(backend))
	case len(args) == 3 && args[0] == "default":
		return reverseProxy(args[1], args[2], http.DefaultTransport)
	case len(args) == 3 && args[0] == "tuned":
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, keptConnections // 0: no limit for all hosts together
		return reverseProxy(args[1], args[2], transport)
	}
	return fmt.Errorf("unknown role: %q", args)
}

// Bodies of the interface, of the size of its examples.
const (
	v2Call     = `{"apiKey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill":{"billId":"12345678901234567890"}}`
	legacyCall = `{"apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill_id":"12345678901234567890"}`
	v2Answer   = `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"demo-partner-key","billId":"12345678901234567890","catId":"1234567890","apprPayType":0,"apprCardType":"신용","apprDt":20261121093015,"apprOriginDt":20261121093015,"apprPrice":"50000","apprIssuer":"신한카드","apprIssuerCd":"06","apprIssuerNum":"123456******1234","apprAcquirerCd":"06","apprAcquirerNm":"신한카드사","apprNum":"30012345","apprOriginNum":"30012345","apprResCd":"0000","apprMonthly":"00","apprState":"F","apprCashNum":"","apprCashTrader":"","apprCashIssuanceNumber":"","apprCardMerchantNum":"00951234567","dscTxNum":"20261121000001","cardType":"01","apprSign":"","udItem":null}}`
)

// The URLs of bills that the backend makes.
const (
	oldBill = "https://pay.example.com/old"
	newBill = "https://pay.example.com/new"
)

// backend answers every call at once: as a v2 backend, and below /old as a legacy backend that has no bills. The URL of a new bill is its
// callback address, if it has one, so that the bench gets to know the addresses of the gateway.
func backend(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = []string{"application/json"}
	call, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch r.URL.Path {
	case "/bill/read":
		_, _ = io.WriteString(w, v2Answer)
	case "/bill":
		address := member(call, "callbackUrl")
		if address == "" {
			address = newBill
		}
		_, _ = io.WriteString(w, `{"code":"0000","message":"성공하였습니다.","data":{"apiKey":"demo-partner-key","member":"demo-member","merchant":"demo-store","billId":"`+
			member(call, "billId")+`","hash":"`+member(call, "hash")+`","shortUrl":"`+address+`"}}`)
	case "/old/if/bill/send":
		_, _ = io.WriteString(w, `{"code":"0000","msg":"성공하였습니다.","apikey":"demo-partner-key","member":"demo-member","merchant":"demo-store","bill_id":"`+
			member(call, "bill_id")+`","hash":"`+member(call, "hash")+`","shortURL":"`+oldBill+`"}`)
	case "/old/if/bill/read":
		_, _ = io.WriteString(w, `{"code":"9980","msg":"no such bill"}`)
	default:
		http.NotFound(w, r)
	}
}

// member returns the text of a member of a body as it is written there, or "".
func member(body []byte, name string) string {
	_, rest, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

// reverseProxy serves the standard library's reverse proxy.
func reverseProxy(at, to string, transport http.RoundTripper) error {
	target := &url.URL{Scheme: "http", Host: to}
	return http.ListenAndServe(at, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0), // wrk closes its connections in the middle of a call when its time is up
	})
}
