package main

import (
	"fmt"
	"io"
	"net"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// receiver is a program that receives events and callbacks, and accepts them. It prints its port, and then each request in
// a line: its path, whether the library verifies its signature, and its body.
func receiver() {
	key, _ := standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s verified=%t %s\n", r.URL.Path, key.Verify(body, r.Header) == nil, body)
		_, _ = io.WriteString(w, `{"code":"0000"}`)
	}))
}
