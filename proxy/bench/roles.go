package main

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// role runs this program in one of its roles: the backend, or ReverseProxy in front of it.
func role(args []string) error {
	switch args = append(args, "", ""); args[0] {
	case "backend":
		return serve(args[1], args[2], http.HandlerFunc(backend))
	case "proxy":
		transport, scheme := http.DefaultTransport.(*http.Transport).Clone(), "http"
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, keptConnections // 0: no limit for all hosts together
		if args[3] != "" {
			scheme, transport.TLSClientConfig = "https", &tls.Config{InsecureSkipVerify: true}
			transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
		return serve(args[1], args[3], &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: scheme, Host: args[2]}) },
			Transport: transport,
			// wrk closes its connections in the middle of a call when its time is up.
			ErrorLog: log.New(io.Discard, "", 0),
		})
	case "delay":
		return delay(args[1], args[2], get(time.ParseDuration(args[3]))/2)
	}
	return fmt.Errorf("unknown role: %q", args)
}

// serve serves HTTP, or HTTPS with the certificate of a file.
func serve(at, pair string, handler http.Handler) error {
	if pair == "" {
		return http.ListenAndServe(at, handler)
	}
	s := &http.Server{Addr: at, Handler: handler, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	return s.ListenAndServeTLS(pair, pair)
}

// certificate makes a certificate of this machine, and its key.
func certificate() []byte {
	key := get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der := get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: get(x509.MarshalPKCS8PrivateKey(key))})...)
}

// delay relays connections. What one side sends arrives at the other after a time.
func delay(at, to string, after time.Duration) error {
	listener := get(net.Listen("tcp", at))
	for {
		from, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			time.Sleep(2 * after) // the handshake of TCP
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				return
			}
			go later(there, from, after)
			later(from, there, after)
		}()
	}
}

// later copies what arrives, each part after a time, and then the end.
func later(to, from net.Conn, after time.Duration) {
	type part struct {
		at    time.Time
		bytes []byte
	}
	parts := make(chan part, 1024)
	go func() {
		defer close(parts)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			parts <- part{time.Now().Add(after), buffer[:n]}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.at))
		_, _ = to.Write(p.bytes)
	}
	_ = to.(*net.TCPConn).CloseWrite()
}

// Bodies of the interface, of the size of its examples.
const (
	v2Call     = `{"apiKey":"demo-partner-key",` + demoMerchant + `,"bill":{"billId":"12345678901234567890"}}`
	legacyCall = `{"apikey":"demo-partner-key",` + demoMerchant + `,"bill_id":"12345678901234567890"}`
	v2Answer   = `{"code":"0000","message":"성공하였습니다.",` +
		`"data":{"apiKey":"demo-partner-key","billId":"12345678901234567890","catId":"1234567890",` +
		`"apprPayType":0,"apprCardType":"신용","apprDt":20261121093015,"apprOriginDt":20261121093015,` +
		`"apprPrice":"50000","apprIssuer":"신한카드","apprIssuerCd":"06","apprIssuerNum":"123456******1234",` +
		`"apprAcquirerCd":"06","apprAcquirerNm":"신한카드사","apprNum":"30012345","apprOriginNum":"30012345",` +
		`"apprResCd":"0000","apprMonthly":"00","apprState":"F","apprCashNum":"","apprCashTrader":"",` +
		`"apprCashIssuanceNumber":"","apprCardMerchantNum":"00951234567","dscTxNum":"20261121000001",` +
		`"cardType":"01","apprSign":"","udItem":null}}`
)

// demoMerchant names the member and the merchant of every call.
const demoMerchant = `"member":"demo-member","merchant":"demo-store"`

const demoHash = "eea898865fee0e09f10d70ca2feb88956330eee4380f039d6ac66fa58f6f0532"

// Creates of bills.
const (
	legacyCreate = `{"apikey":"demo-partner-key",` + demoMerchant + `,"bill":{"bill_id":"` + idPlace + `",` +
		`"product_nm":"11월 수강료","member_nm":"김하늘","phone":"01000000000","price":"20000",` +
		`"expire_dt":"2099-12-31","hash":"` + demoHash + `"}}`
	v2Create = `{"apiKey":"demo-partner-key",` + demoMerchant + `,"bill":{"billId":"` + idPlace + `",` +
		`"sendType":"URL","productName":"11월 수강료","memberName":"김하늘","phone":"01000000000","price":20000,` +
		`"expireDt":"2099-12-31","hash":"` + demoHash + `"}}`
	v2Notice = `{"apprNum":"` + idPlace + `","apiKey":"demo-partner-key","billId":"BILL",` +
		`"apprState":"F","apprPrice":"20000","apprDt":20261121093015}`
)

// The URLs of bills that the backend makes.
const (
	oldBill = "https://pay.example.com/old"
	newBill = "https://pay.example.com/new"
)

// backend answers every call at once: as a v2 backend, and below /old as a legacy backend that has no bills. The URL
// of a new bill is its callback address, if it has one, so that the bench learns the addresses of the gateway.
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
		address := cmp.Or(member(call, "callbackUrl"), newBill)
		_, _ = io.WriteString(w, `{"code":"0000","message":"성공하였습니다.",`+
			`"data":{"apiKey":"`+member(call, "apiKey")+`",`+demoMerchant+`,"billId":"`+member(call, "billId")+
			`","hash":"`+member(call, "hash")+`","shortUrl":"`+address+`"}}`)
	case "/old/if/bill/send":
		_, _ = io.WriteString(w, `{"code":"0000","msg":"성공하였습니다.",`+
			`"apikey":"`+member(call, "apikey")+`",`+demoMerchant+`,"bill_id":"`+member(call, "bill_id")+
			`","hash":"`+member(call, "hash")+`","shortURL":"`+oldBill+`"}`)
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
