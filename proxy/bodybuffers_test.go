package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
)

// An unreadBody is a body that a transport has got and has not read yet.
type unreadBody struct {
	body io.Reader
	want string
}

// A transport can return while it still reads the body of the request. Until it reports that the request is written, no
// other call may get the buffer.
func TestBodyBuffersAreNotReusedWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	const answer = `{"code":"0000","message":"answer","data":{"apiKey":"answer","billId":"answer"}}`
	for name, failure := range map[string]error{"answered": nil, "given up": errors.New("broke off")} {
		for _, client := range forms {
			t.Run(name+"/"+client, func(t *testing.T) {
				t.Parallel()
				b := newGateway(t, oneUpstream("v2", newBackend(t, newService()).url))
				var unread []unreadBody
				slow := true
				b.WrapTransport("up", func(next http.RoundTripper) http.RoundTripper {
					return roundTripFunc(func(r *http.Request) (*http.Response, error) {
						if !slow {
							return next.RoundTrip(r)
						}
						again, _ := r.GetBody()
						want, _ := io.ReadAll(again)
						httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
						unread = append(unread, unreadBody{r.Body, string(want)})
						if failure != nil {
							return nil, failure
						}
						return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
					})
				})
				call := func(i int) {
					q := newCall(client, "create").with("billId", fmt.Sprintf("1234567890%010d", i)).with("message", strings.Repeat(fmt.Sprint(i%10), 300))
					got := b.send(q)
					codeOf(t, client, got.body)
				}
				for i := range 20 {
					call(i)
				}
				slow = false
				for i := range 100 {
					call(100 + i)
				}
				for i, s := range unread {
					if got, _ := io.ReadAll(s.body); string(got) != s.want {
						t.Fatalf("body %d of %d is\n%s\nwant\n%s", i, len(unread), got, s.want)
					}
				}
				if len(unread) != 20 {
					t.Errorf("%d bodies were not read, want 20", len(unread))
				}
			})
		}
	}
}
