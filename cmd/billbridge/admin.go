package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"
)

// defaultAdmin is the default of --admin.
const defaultAdmin = "http://127.0.0.1:9090"

// adminFlags name the gateway.
type adminFlags struct {
	Admin string `default:"http://127.0.0.1:9090" placeholder:"URL"`
	CA    string `name:"admin-ca" env:"BILLBRIDGE_ADMIN_CA" placeholder:"FILE"`
	Token string `env:"BILLBRIDGE_ADMIN_TOKEN" placeholder:"TOKEN"`

	system `kong:"-"`
}

// AfterApply is called by kong.
func (a *adminFlags) AfterApply(s system) error {
	a.system = s
	return nil
}

// A given text is not empty. An empty value is no missing one: a script whose variable is not set would otherwise
// replay or drop too many callbacks.
type given string

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *given) UnmarshalText(text []byte) error {
	if *g = given(text); len(text) == 0 {
		return errors.New("the value is empty")
	}
	return nil
}

// An adminError is an error response of the admin listener.
type adminError struct {
	status int
	text   string
}

func (e *adminError) Error() string {
	if e.status >= http.StatusInternalServerError {
		return fmt.Sprintf("the gateway failed (%d): %s", e.status, e.text)
	}
	return fmt.Sprintf("the gateway refused the request (%d): %s", e.status, e.text)
}

// get reads what a path of the admin listener has for values of package operate.
func (a *adminFlags) get(ctx context.Context, path string, into any, in ...any) error {
	return a.send(ctx, http.MethodGet, path, into, in...)
}

// send sends values of package operate to a path of the admin listener, and decodes the answer. into may be nil.
func (a *adminFlags) send(ctx context.Context, method, path string, into any, in ...any) error {
	return a.call(ctx, method, path, in, func(answer io.Reader) error {
		if into == nil {
			return nil
		}
		return json.NewDecoder(answer).Decode(into)
	})
}

// show prints what a path of the admin listener has, with a template or as JSON. answer is where it is decoded.
func (a *adminFlags) show(ctx context.Context, path, name string, asJSON bool, answer any, in ...any) error {
	if err := a.get(ctx, path, answer, in...); err != nil {
		return err
	}
	return showOrJSON(a.out, asJSON, name, answer)
}

// call is send, and the function reads the answer.
func (a *adminFlags) call(ctx context.Context, method, path string, in []any, read func(io.Reader) error) error {
	base, err := url.Parse(a.Admin)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return usageError("--admin must be a URL such as http://127.0.0.1:9090, but is " + withoutSecrets(a.Admin))
	case base.User != nil:
		return usageError("--admin must be a URL without user and password, but is " + withoutSecrets(a.Admin) +
			": give the token with --token")
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	q, body := operate.Encode(in...)
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	response, err := a.do(ctx, client, method, strings.TrimSuffix(a.Admin, "/")+path, body)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // without the URL, whose query may have the full hash of a partner's key
		}
		return fmt.Errorf("cannot reach the gateway at %s: %w\n%s", base, err, a.advice(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		text = bytes.TrimSpace(text)
		if response.StatusCode == http.StatusBadRequest &&
			bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
			return fmt.Errorf("the admin listener at %s uses TLS (admin.tls in its config): "+
				"give an https URL with --admin", a.Admin)
		}
		refused := operate.Error{Text: string(text)}
		if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
			if err := json.Unmarshal(text, &refused); err != nil {
				return fmt.Errorf("the answer of the gateway is not valid: %w", err)
			}
		}
		if len(refused.Reasons) > 0 {
			kinds := moves.JoinKinds(moves.KindsOf(refused.Reasons))
			refused.Text += " To change it anyway, add --force " + kinds + ". Reasons:" +
				string(reasonLines(refused.Reasons))
		}
		return &adminError{response.StatusCode, refused.Text}
	}
	return read(response.Body)
}

// startTakes is for how long a call is made again while the gateway starts.
const startTakes = 10 * time.Second

// do makes a request. While the gateway starts, which has changed nothing then, the request is made again.
func (a *adminFlags) do(
	ctx context.Context, client *http.Client, method, address string, body []byte,
) (*http.Response, error) {
	for began, told := time.Now(), false; ; {
		request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", "application/json")
		if a.Token != "" {
			request.Header.Set("Authorization", "Bearer "+a.Token)
		}
		response, err := client.Do(request)
		if err != nil || response.StatusCode != http.StatusServiceUnavailable ||
			response.Header.Get("Retry-After") == "" || time.Since(began) > startTakes {
			return response, err
		}
		_ = response.Body.Close()
		if !told && a.err != nil {
			printf(a.err, "The gateway is starting. Trying again for %s.\n", startTakes)
		}
		told = true
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// client returns the HTTP client for the admin listener. With --admin-ca it trusts only the CAs in that file.
func (a *adminFlags) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("--admin-ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--admin-ca: there is no PEM certificate in %s", a.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return &http.Client{Transport: transport}, nil
}

// advice says what to do after an error of the connection.
func (a *adminFlags) advice(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown) && a.CA == "":
		return "If a private CA signed the certificate, give its PEM file with --admin-ca or in BILLBRIDGE_ADMIN_CA"
	case errors.As(err, &unknown):
		return "The certificate is not signed by a CA in " + a.CA + ": give the file of the CA that signed it with " +
			"--admin-ca"
	case errors.As(err, &name):
		return "Give a host name of the certificate with --admin, or add this name to the certificate"
	case errors.As(err, &invalid):
		return "Renew the certificate of the admin listener (admin.tls.cert in its config), or check the clock of " +
			"this machine"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "The admin listener has no TLS: give an http URL with --admin, or set admin.tls in its config"
	}
	return "Is it running? Give the URL of its admin listener with --admin"
}

// maxPrinted bounds the printed part of an address, in bytes. Mistakes are visible at the beginning.
const maxPrinted = 200

// The parts of an address that can be secret: user and password of a URL, which can contain ? and #; query and
// fragment; and user and password of a text that is no URL.
var (
	userOfURL  = regexp.MustCompile(`(?s)^(.*?//)[^/]*@`)
	query      = regexp.MustCompile(`(?s)[?#].*`)
	userOfText = regexp.MustCompile(`(?s)^(.*?//)?.*@`)
)

// withoutSecrets quotes an address without its query, fragment, user and password. The address may not be a URL.
func withoutSecrets(address string) string {
	text := query.ReplaceAllString(userOfURL.ReplaceAllString(address, "${1}…@"), "")
	text = userOfText.ReplaceAllString(text, "${1}…@")
	if len(text) > maxPrinted {
		text = strings.ToValidUTF8(text[:maxPrinted], "") + "…"
	}
	return strconv.Quote(text)
}
