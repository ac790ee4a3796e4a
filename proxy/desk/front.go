package desk

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/sandbox"
)

// A front is between the partner and a gateway, and records what the partner sends and answers: the service behind the
// gateway cannot tell calls of the partner from those of the gateway. Callbacks come through it, too, because it
// replaces the callback addresses in creates.
type front struct {
	*runner
	targets []string // the partner's callback addresses
}

const (
	// callbackPath is followed by the number of a callback address.
	callbackPath = "/desk-callback/"
	mostBody     = 4 << 20 // bytes of a call or a reply
)

// ServeHTTP passes a call on to the gateway, or a callback on to the partner.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		return
	}
	x := sandbox.Exchange{Request: body, Facts: sandbox.Facts{
		Began: time.Now(), Clock: f.service.Now(), Operation: operationOf(r.URL.Path), Form: "v2",
		ContentType: r.Header.Get("Content-Type"), UserAgent: r.UserAgent(),
	}}
	if strings.HasPrefix(r.URL.Path, "/if/") {
		x.Form = "legacy"
	}
	x.Bill, _ = field(body, "billid")
	send, target := f.Callbacks, strings.TrimSuffix(f.Via, "/")+r.URL.RequestURI()
	switch number, isCallback := strings.CutPrefix(r.URL.Path, callbackPath); {
	case isCallback:
		x.Operation, x.Form, x.UserAgent = opCallback, f.Plan.Form, "" // it is of the service
		if send, target = f.net, f.target(number); target == "" {
			http.NotFound(w, r)
			return
		}
	case x.Operation == "bill.create":
		body = f.own(body, "http://"+r.Host+callbackPath)
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, target, bytes.NewReader(body))
	var res *http.Response
	if err == nil {
		req.Header = r.Header.Clone()
		res, err = send.RoundTrip(req)
	}
	if err == nil {
		x.Reply, err = io.ReadAll(io.LimitReader(res.Body, mostBody))
		_ = res.Body.Close()
	}
	if x.Ended = time.Now(); err != nil || r.Context().Err() != nil {
		x.Reply = nil
		f.observe(x, false)
		panic(http.ErrAbortHandler) // as the other side did
	}
	x.Status = res.StatusCode
	x.Code, _ = field(json.RawMessage(x.Reply), "code")
	f.observe(x, false)
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(x.Status)
	_, _ = w.Write(x.Reply) // an error means that the caller has disconnected
}

// operationOf returns the operation of a path in either form.
func operationOf(at string) string {
	switch name := path.Base(at); name {
	case "bill", "send":
		return "bill.create"
	case "read", "cancel", "destroy", "resend":
		return "bill." + name
	}
	return "none"
}

// own replaces the callback address in a create by one of the front.
func (f *front) own(body []byte, base string) []byte {
	address, raw := field(body, "callbackurl")
	if address == "" {
		return body
	}
	f.mu.Lock()
	f.targets = append(f.targets, address)
	text, _ := json.Marshal(base + strconv.Itoa(len(f.targets)-1)) // a text
	f.mu.Unlock()
	return bytes.ReplaceAll(body, raw, text)
}

// target returns a callback address by its number, or "".
func (f *front) target(number string) string {
	n, err := strconv.Atoi(number)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || n < 0 || n >= len(f.targets) {
		return ""
	}
	return f.targets[n]
}
