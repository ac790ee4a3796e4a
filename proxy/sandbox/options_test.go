package sandbox_test

import (
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

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
		"failure status: expected 200 to 599":                             {OpenPoints: sandbox.OpenPoints{FailureStatus: 99}},
		"callback interval: expected a time above zero":                   {CallbackInterval: -1},
		"callback timeout: expected a time above zero":                    {CallbackTimeout: -1},
		"base URL: expected a URL such as":                                {BaseURL: "pay.example.com"},
	} {
		fails(t, want)(sandbox.Open("", o))
	}
}
