package main

import (
	"fmt"
	"strings"
	"testing"

	"billbridge/proxy/sandbox"
	"billbridge/translate"
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

// The sandbox has the hash rule of the built-in table.
func TestSandboxHasTheHashRuleOfTheTable(t *testing.T) {
	t.Parallel()
	table, err := compileTable("", "")
	must(t, err)
	for name, request := range hashRequests {
		operation, form, _ := strings.Cut(name, " ")
		phone := ""
		if operation == "bill.create" {
			phone = "01000000000"
		}
		signed, err := sign(table, operation, translate.Form(form), []byte(request))
		equal(t, fmt.Sprint(signed.Hash, err), fmt.Sprint(sandbox.Hash("B1", phone, "20000"), nil), name)
	}
}
