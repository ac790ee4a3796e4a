package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// Calls and their replies, as the files of testdata/calls have them. Each test begins with the default options, "start"
// with others. "v2 create" and "legacy read" are calls of newCall, with changes as in testdata/rows/codes.txt; "brief v2"
// is a read that shows only code, state, amount and number. "pay" pays the bill, "state F" creates it in that state, "pass
// 1s" lets real time pass, "post" and "get" are other requests, and "control" is one to the control API. "bills" shows the
// states of all bills, "counts" the number of calls, "faults" those that wait, and "log" what the log says of the last call.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"calls", "control", "faults", "log", "options"} {
		proxytest.Transcript(t, "testdata/calls/"+name+".txt", *update, []string{name}, func(t *testing.T, _ string) func(string) []string {
			c := &transcript{t: t}
			c.begin(sandbox.Options{})
			return func(line string) []string {
				command, rest, _ := strings.Cut(line, " ")
				if text := c.take(command, rest); text != "" {
					return []string{strings.TrimSpace(text)}
				}
				return nil
			}
		})
	}
}

// A transcript makes the calls of one test.
type transcript struct {
	*rig
	t          *testing.T
	passed     atomic.Int64
	observed   sync.Map // exchanges by Number
	path, body string   // of the last call
}

func (c *transcript) begin(o sandbox.Options) {
	o.BaseURL, o.Observe = "https://pay.example.com", func(x sandbox.Exchange) { c.observed.Store(x.Number, x) }
	o.Clock = func() time.Time { return noon.Add(time.Duration(c.passed.Load())) }
	c.rig = start(c.t, o)
}

func (c *transcript) take(command, rest string) (shown string) {
	switch command {
	case "start":
		var o sandbox.Options
		must(c.t, json.Unmarshal([]byte(rest), &o))
		c.begin(o)
	case "pass":
		d, err := time.ParseDuration(rest)
		must(c.t, err)
		c.passed.Add(int64(d))
	case "pay":
		if err := c.Pay("", billID); err != nil {
			return "refused: " + err.Error()
		}
	case "state":
		c.createInState(rest)
	case "control":
		words := append(strings.SplitN(rest, " ", 3), "")
		status, body := c.ctl(words[0], words[1], words[2])
		if status != http.StatusOK && !strings.HasPrefix(body, `{"error":"`) {
			c.t.Errorf("%s: a refusal without its reason: %s", rest, body)
		}
		return fmt.Sprint(status, " ", body)
	case "post", "get":
		c.path, c.body, _ = strings.Cut(rest, " ")
		status, body := send(c.t, strings.ToUpper(command), c.url+c.path, c.body)
		return fmt.Sprint(status, " ", body)
	case "bills":
		shown = fmt.Sprint(len(c.Bills()), " bills ")
		for _, b := range c.Bills() {
			shown += " " + b.ID + " " + b.State
		}
	case "faults":
		return encode(c.Faults())
	case "counts":
		return encode(c.Calls())
	case "log":
		return c.last()
	case "brief":
		_, body := c.do(newCall(rest, "read"))
		return brief(c.t, body)
	default:
		return c.call(command, rest)
	}
	return shown
}

// call makes a call of a form.
func (c *transcript) call(form, rest string) (shown string) {
	op, changes, _ := strings.Cut(rest, " ")
	q := newCall(form, op).changedBy(c.t, changes)
	c.path, c.body = q.encode()
	status, body, err := c.try(c.t.Context(), q)
	if err != nil {
		return fmt.Sprint(status, " ", body[:min(len(body), 14)], " and the connection is closed")
	}
	if status != http.StatusOK {
		return fmt.Sprint(status, " ", body)
	}
	return body
}

// last says what the log and Observe have of the last call, which are recorded after its reply.
func (c *transcript) last() string {
	var x, seen sandbox.Exchange
	eventually(c.t, func() bool {
		for _, x = range slices.Backward(c.Exchanges()) {
			if one, ok := c.observed.Load(x.Number); ok && x.Path == c.path && string(x.Request) == c.body {
				seen = one.(sandbox.Exchange)
				return true
			}
		}
		return false
	})
	seen.Curl = x.Curl // which only the log has
	equal(c.t, encode(seen), encode(x), "Observe")
	if x.Method != http.MethodPost || x.ContentType != "application/json" ||
		!strings.HasPrefix(x.UserAgent, "Go-http-client") || x.Began.After(x.Ended) || !x.Clock.Equal(noon) || len(x.Reply) == 0 {
		c.t.Errorf("%+v", x)
	}
	done := map[bool]string{true: "done", false: "not done"}[x.Done]
	return strings.Join([]string{
		x.Operation, x.Form, x.Partner, x.Bill, fmt.Sprint(x.Status), x.Code, done, "from " + x.Before, "to " + x.After,
		"checked " + strings.Join(x.Checked, " "), x.Field, x.HashText, x.HashWant,
	}, "; ")
}

// brief shows code, state, amount and number of a read.
func brief(t *testing.T, body string) string {
	t.Helper()
	var v2 struct {
		Code string
		Data struct{ ApprState, ApprPrice, ApprNum string }
	}
	var legacy struct {
		State  string `json:"appr_state"`
		Amount string `json:"appr_price"`
		Number string `json:"appr_num"`
	}
	must(t, json.Unmarshal([]byte(body), &v2))
	must(t, json.Unmarshal([]byte(body), &legacy))
	return fmt.Sprint(v2.Code, v2.Data, legacy)
}
