package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
)

// hashRequests are a request of each operation that has a hash, in both forms.
var hashRequests = map[string]string{
	"bill.create v2":      `{"bill":{"billId":"B1","phone":"01000000000","price":20000}}`,
	"bill.create legacy":  `{"bill":{"bill_id":"B1","phone":"01000000000","price":"20000"}}`,
	"bill.destroy v2":     `{"bill":{"billId":"B1","price":20000}}`,
	"bill.destroy legacy": `{"bill_id":"B1","price":"20000"}`,
	"bill.cancel v2":      `{"bill":{"billId":"B1","price":"20000"}}`,
	"bill.cancel legacy":  `{"bill_id":"B1","price":"20000"}`,
}

// The sandbox computes hashes by the table, with an overlay and a secret if the flags name them. Without a table, as in
// a trial, it has the rule of the built-in one.
func TestSandboxHasTheHashRuleOfTheTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	overlay, secret := filepath.Join(dir, "overlay.yaml"), filepath.Join(dir, "secret")
	must(t, os.WriteFile(overlay, []byte("hash: {key: {v2: first}}\n"), 0o600))
	must(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	s := system{env: func(string) (string, bool) { return "", false }}
	options := func(c sandboxCommand) (sandbox.Options, error) {
		c.Control, c.Environment, c.FailureStatus = "127.0.0.1:8082", sandbox.Development, 200
		return c.options(s)
	}
	byTable, err := options(sandboxCommand{})
	must(t, err)
	keyed, err := options(sandboxCommand{HashOverlay: overlay, secretFlag: secretFlag{secret}})
	must(t, err)
	for name, request := range hashRequests {
		operation, form, _ := strings.Cut(name, " ")
		phone := ""
		if operation == "bill.create" {
			phone = "01000000000"
		}
		text, hash, err := byTable.Sign(operation, form, []byte(request))
		equal(t, fmt.Sprint(hash, err), fmt.Sprint(sandbox.Hash("B1", phone, "20000"), nil), name)
		want := sandbox.Hash("B1", phone, "20000")
		if form == "v2" {
			want = sandbox.Hash("s3cret", strings.TrimSuffix("B1,"+phone, ","), "20000")
		}
		keyedText, hash, err := keyed.Sign(operation, form, []byte(request))
		equal(t, fmt.Sprint(keyedText, hash, err), fmt.Sprint(text, want, nil), name)
	}
	fails(t, "add --hash-secret-file")(options(sandboxCommand{HashOverlay: overlay}))
}
