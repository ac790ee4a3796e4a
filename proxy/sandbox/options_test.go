package sandbox_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// Another hash than that of the document.
func TestOptionSign(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		r := start(t, sandbox.Options{Sign: func(operation, form string, request []byte) (string, string, error) {
			if bytes.Contains(request, []byte("unreadable")) {
				return "", "", errors.New("no hash")
			}
			return "the text", operation + " in " + form, nil
		}})
		for _, step := range []struct{ op, hash, want string }{
			{"create", sign(billID, "01012345678", "30000"), "VALIDATION_002"},
			{"create", "unreadable", "VALIDATION_001"},
			{"create", "bill.create in " + form, "0000"},
			{"pay", "", ""},
			{"cancel", sign(billID, "", "30000"), "VALIDATION_002"},
			{"cancel", "bill.cancel in " + form, "0000"},
		} {
			if step.op == "pay" {
				must(t, r.Pay(demoKey, billID))
				continue
			}
			gives(t, step.want, form, step.op)(r.do(newCall(form, step.op).with("hash", step.hash)))
		}
	}
}

// The base of short URLs is the host that the caller used.
func TestBaseURLIsThatOfTheCaller(t *testing.T) {
	t.Parallel()
	r := start(t)
	equal(t, strings.HasPrefix(r.issue(newCall("v2", "create")), r.url+"/b/"), true)
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]sandbox.Options{
		`environment: expected development or production but got: "prod"`: {Environment: "prod"},
		"failure status: expected 200 to 599":                             {FailureStatus: 99},
		"callback interval: expected a time above zero":                   {CallbackInterval: -1},
		"callback timeout: expected a time above zero":                    {CallbackTimeout: -1},
		"base URL: expected a URL such as":                                {BaseURL: "pay.example.com"},
	} {
		fails(t, want)(sandbox.Open("", o))
	}
}
