package sandbox_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"
)

// dump returns all that the control API and the interface show.
func (r *rig) dump() string {
	r.t.Helper()
	all := ""
	for _, path := range []string{"/partners", "/bills", "/callbacks", "/clock"} {
		_, body := r.ctl(http.MethodGet, path, "")
		all += path + "\n" + body
	}
	for _, key := range []string{demoKey, "demo-strict-key"} {
		for _, path := range []string{"/read/mapping", "/read/merchant"} {
			_, body := r.post(path, `{"apiKey":"`+key+`"}`)
			all += path + "\n" + body + "\n"
		}
	}
	return all
}

// A second process shows exactly what the first one answered.
func TestDataFileKeepsEverything(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a b?c=#%41&.db")
	p := newPartner(t, answerWith(200, "{}"))
	o := sandbox.Options{CallbackCancelDestroy: true}
	first := open(t, file, o)
	for i, state := range []string{"W", "F", "C", "D"} {
		id := "BILL" + state
		form := forms[i%2]
		first.must(newCall(form, "create").with("billId", id).with("callbackUrl", p.url).with("message", "따옴표 \" < > & \u2028 😀"))
		switch state {
		case "F", "C":
			works(t)(first.PayWith(demoKey, id, sandbox.Payment{Method: "OFFLINE_CASH", CashReceipt: "business", CashNumber: "1234567890"}))
			first.awaitCallbackOf(id, "F", "waiting", 1)
			if state == "C" {
				first.must(newCall("v2", "cancel").with("billId", id).with("cancelReason", "고객 요청"))
				first.awaitCallbackOf(id, "C", "waiting", 1)
			}
		case "D":
			first.must(newCall("legacy", "destroy").with("billId", id))
			first.awaitCallbackOf(id, "D", "waiting", 1)
		}
	}
	first.Fault(sandbox.Fault{Operation: "payment", Code: "PAYMENT_004"})
	fails(t, "PAYMENT_004", "the payment was not declined")(first.Pay(demoKey, "BILLW"))
	first.must(newCall("v2", "resend").with("billId", "BILLW"))
	first.post("/auth/mapping", `{"apiKey":"demo-partner-key","memberId":"m","merchantId":"s","callbackUrl":"https://p.example.com/","redirectUrl":"https://p.example.com/done"}`)
	first.post("/auth/merchant/mapping", `{"apiKey":"demo-strict-key","memberId":"demo-member","merchantId":"demo-store","temporaryMerchantCd":"TEMP0001"}`)
	first.ctl(http.MethodPost, "/points", `{"partner":"demo-nopoint-key","points":7}`)
	first.runControl(`
		POST /partners {"api_key":"new-key","strict":true} > 200
		POST /partners {"api_key":"gone-key"} > 200
		DELETE /partners/gone-key > 200
		POST /clock {"advance":"30m"} > 200
	`)
	want := first.dump()
	must(t, first.Close())

	second := open(t, file, o)
	equal(t, second.dump(), want)
	// No id, temporary location or approval number is used again.
	gives(t, "BILL_001")(second.do(newCall("legacy", "create").with("billId", "BILLD")))
	if _, body := second.post("/auth/merchant/mapping", `{"apiKey":"demo-strict-key","memberId":"demo-member","merchantId":"demo-store","temporaryMerchantCd":"TEMP0001"}`); !strings.Contains(body, "PARTNER_MAPPING_005") {
		t.Error(body)
	}
	must(t, second.Pay(demoKey, "BILLW"))
	numbers := map[string]bool{}
	for _, b := range second.Bills() {
		if b.Approval == nil {
			continue
		}
		if numbers[b.Approval.Num] || b.Cancel != nil && b.Cancel.Num == b.Approval.Num {
			t.Errorf("approval number %s twice", b.Approval.Num)
		}
		numbers[b.Approval.Num] = true
	}
	second.awaitCallbackOf("BILLW", "F", "waiting", 1)
	// The callbacks of the first process are still waiting.
	p.setAnswer(answerWith(200, successAnswer))
	second.ctl(http.MethodPost, "/clock", `{"advance":"1h"}`)
	for _, callback := range []string{"BILLF F", "BILLC F", "BILLC C", "BILLD D", "BILLW F"} {
		bill, state, _ := strings.Cut(callback, " ")
		second.awaitCallbackOf(bill, state, "delivered", 2)
	}
}

// A file that cannot be used is refused by its name and not changed.
func TestOtherFilesAreRefusedAndNotChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const other = "it is not a data file of this version of the sandbox: name a new file"
	proxytest.WriteFile(t, at("text"), strings.Repeat("no database ", 1000))
	must(t, os.Mkdir(at("folder"), 0o700))
	proxytest.WriteFile(t, at("newer"), `{"billbridge_sandbox":99}`+"\n")
	proxytest.WriteFile(t, at("broken"), `{"billbridge_sandbox":2}`+"\n{}\n{\n{}\n")
	used := open(t, at("used"), sandbox.Options{})
	used.must(newCall("v2", "create"))
	for name, want := range map[string]string{
		"text": other, "newer": other, "broken": "line 3: unexpected end of JSON input",
		"used": "another process has it open", "folder": "is a directory", "none/file": "there is no folder " + at("none"),
	} {
		before, _ := os.ReadFile(at(name))
		_, err := sandbox.Open(at(name), sandbox.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "data file "+at(name)+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(at(name)); string(after) != string(before) {
			t.Errorf("%s: it is not what it was", name)
		}
	}
	used.must(newCall("v2", "read"))
}

// A call that a kill interrupted while it was written has no effect, and later calls are not lost after it.
func TestLineThatAKillInterruptedIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := open(t, filepath.Join(dir, "data"), sandbox.Options{})
	begun := whole.dump()
	whole.must(newCall("v2", "create"))
	must(t, whole.Close())
	text, err := os.ReadFile(filepath.Join(dir, "data"))
	must(t, err)
	last := strings.LastIndex(strings.TrimSuffix(string(text), "\n"), "\n") + 1
	for name, content := range map[string]string{
		"header": string(text[:5]), "first byte": string(text[:last+1]), "all but the newline": string(text[:len(text)-1]),
		"a block of zeros": string(text[:last]) + strings.Repeat("\x00", len(text)-last-1) + "\n",
	} {
		file := filepath.Join(dir, name)
		proxytest.WriteFile(t, file, content)
		r := open(t, file, sandbox.Options{})
		equal(t, r.dump(), begun, name)
		r.must(newCall("v2", "create").with("billId", "LATER"))
		want := r.dump()
		must(t, r.Close())
		equal(t, open(t, file, sandbox.Options{}).dump(), want, name)
	}
}

// A call whose write fails has no effect and is not acknowledged.
func TestFailedWriteChangesNothing(t *testing.T) {
	t.Parallel()
	r := open(t, filepath.Join(t.TempDir(), "data"), sandbox.Options{})
	r.must(newCall("v2", "create"))
	r.must(newCall("v2", "create").with("billId", "PAID"))
	must(t, r.Pay(demoKey, "PAID"))
	before := encode(r.Bills())
	if err := r.Close(); err != nil { // every write fails from now on
		t.Fatal(err)
	}
	for _, q := range []testCall{
		newCall("v2", "create").with("billId", "NEW"), newCall("legacy", "create").with("billId", "NEW"), newCall("v2", "resend"),
		newCall("legacy", "destroy"), newCall("v2", "cancel").with("billId", "PAID"),
	} {
		if code, body := r.do(q); code != "ERROR" || strings.Contains(body, "file") {
			t.Errorf("%s %s: %s", q.form, q.op, body)
		}
	}
	r.must(newCall("legacy", "read"))
	gives(t, 500)(r.ctl(http.MethodPost, "/bills/"+billID+"/pay", ""))
	equal(t, encode(r.Bills()), before)
}
