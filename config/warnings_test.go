package config_test

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
)

// A backend with codes or words that partners of the other form do not know is a warning until the table has pairs for them.
func TestWarningsAboutWhatPartnersDoNotKnow(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"billbridge.yaml": "upstreams: {old: {form: legacy, url: \"http://127.0.0.1:1\"}}\ntable: {overlay: mine.yaml}\n",
		"mine.yaml":       "forms: {legacy: {codes: {\"9980\": BILL_003}}}\n",
	})
	load := func() string {
		c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), func(string) (string, bool) { return "", false })
		must(t, err)
		return c.Warnings().Error()
	}
	if got := load(); strings.Contains(got, "code 9980") || !strings.Contains(got, "words in appr_pay_type have no pairs") || !strings.Contains(got, "may have no link") {
		t.Errorf("with a pair of codes: %s", got)
	}
	for _, choice := range []string{"null", "other"} {
		dir := folder(t, map[string]string{
			"billbridge.yaml": "upstreams: {old: {form: legacy, url: \"http://127.0.0.1:1\"}}\ntable: {overlay: mine.yaml}\n",
			"mine.yaml":       "operations: {bill.read: {reply: {apprPayType: {values: [{v2: " + choice + ", legacy: other}]}}}}\n",
		})
		if c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), func(string) (string, bool) { return "", false }); err != nil || strings.Contains(c.Warnings().Error(), "words in") {
			t.Errorf("with %s for others: %v", choice, err)
		}
	}
	if got := parse(t, "upstreams: {old: {form: legacy, url: \"http://127.0.0.1:1\"}}\n").Warnings().Error(); !strings.Contains(got, "the code 9980 of legacy stands for none of v2") {
		t.Errorf("without an overlay: %s", got)
	}
	if got := parse(t, "upstreams: {new: {form: v2, url: \"http://127.0.0.1:1\"}}\n").Warnings(); len(got) > 0 {
		t.Errorf("a v2 backend: %v", got)
	}
	overlay := "forms: {legacy: {codes: {\"9980\": open}}}\noperations: {bill.read: {reply: {apprPayType: {values: [{v2: 0, legacy: SIMPLE_PAY}]}}}, bill.create: {reply: {shortUrl: {required: null}}}}\n"
	proxytest.WriteFile(t, filepath.Join(dir, "mine.yaml"), overlay)
	equal(t, load(), "")
}

// What a row of an overlay takes from the table is a warning by name, and so is an operation whose request names no partner.
func TestWarningsAboutAnOverlay(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"billbridge.yaml": "upstreams: {new: {form: v2, url: \"http://127.0.0.1:1\"}}\ntable: {overlay: mine.yaml}\n",
		"mine.yaml": "operations:\n  bill.read: {reply: {billId: {role: null}," +
			" apprState: {means: {W: null, N: unpaid, C: destroyed, D: cancelled}}}}\n" +
			"  +points.left: {v2: /points, effect: read, request: {}, reply: {}}\nroles: {bill: {same: count}}\n",
	})
	c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), func(string) (string, bool) { return "", false })
	must(t, err)
	got := c.Warnings().Error()
	for _, want := range []string{
		"mine.yaml:2:1: table.overlay: bill.read reply loses role: billId: {legacy: bill_id,",
		"mine.yaml:2:1: table.overlay: bill.read reply loses means of W, means of C, means of D: apprState: {legacy: appr_state,",
		"mine.yaml:4:1: table.overlay: roles loses same: bill: {same: must}", "the request of points.left has no row with role: partner",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwithout %q", got, want)
		}
	}
}

// A timeout below that of partners' programs is a warning: they bill again after it.
func TestWarningAboutAShortTimeout(t *testing.T) {
	t.Parallel()
	for timeout, warned := range map[string]bool{"29s": true, "30s": false} {
		c := parse(t, "upstreams: {new: {form: v2, url: \"http://127.0.0.1:1\", timeout: "+timeout+"}}\n")
		const text = "upstreams.new.timeout: is 29s, but programs of partners wait up to 30s"
		if got := c.Warnings().Error(); strings.Contains(got, text) != warned {
			t.Errorf("with %s: %q", timeout, got)
		}
	}
}

// The most connections of callers are at most what the open files of the process leave beside those of the gateway itself.
func TestConnectionsFitTheOpenFiles(t *testing.T) {
	t.Parallel()
	const callbacks = "store: {url: 'sqlite:b.db'}\ncallbacks: {public_url: https://a.example.com}\n"
	for _, row := range []struct {
		more           string
		files          uint64
		all, ofAddress int
		warned         string
	}{
		{"", 0, 10_000, 1000, ""}, // not known
		{"", math.MaxUint64, 10_000, 1000, ""},
		{"", 11_698, 10_000, 1000, ""},
		{"", 11_697, 9999, 1000, "at most 9999 connections"},
		{"", 1024, 512, 256, "may have 1024 files open, and up to 448 of them are for upstreams, callbacks, the store and the log; " +
			"for 10000 connections it needs 11698"},
		{"", 256, 56, 28, "at most 56 connections"},
		{"", 3, 1, 1, "at most 1 connections"},
		{callbacks, 11_953, 9999, 1000, "up to 704 of them"},
	} {
		c := parse(t, oneUpstream+row.more)
		c.FitOpenFiles(row.files)
		equal(t, []int{c.Limits.Connections, c.Limits.AddressConnections}, []int{row.all, row.ofAddress}, row.files)
		got := c.Warnings().Error()
		if !strings.Contains(got, row.warned) || row.warned == "" && got != "" {
			t.Errorf("%d files: %q", row.files, got)
		}
	}
}

// A certificate of the gateway that ends within three weeks, or has ended, is a warning: nothing is refused for it.
func TestR43_CertificatesThatEndAreWarnedAbout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	section := func(name string, left time.Duration) string {
		made := proxytest.NewCertificateUntil(t, name, nil, time.Now().Add(left))
		cert, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		proxytest.WriteFile(t, cert, made.Cert)
		proxytest.WriteFile(t, key, made.Key)
		return fmt.Sprintf("{cert: %q, key: %q}", cert, key)
	}
	const day = 24 * time.Hour
	c := parse(t, fmt.Sprintf("tls: %s\nadmin: {tls: %s}\nupstreams: {new: {form: v2, url: https://new.example.com, tls: {client: %s}}}\n",
		section("front", 22*day), section("admin", 20*day), section("us", -time.Hour)))
	var got []string
	for _, w := range c.Warnings() {
		got = append(got, regexp.MustCompile(` on .*`).ReplaceAllString(w.Text, ""))
	}
	want := []string{"admin.tls.cert: the certificate ends", "upstreams.new.tls.client.cert: the certificate ended"}
	equal(t, got, want)
}

// What the gateway needs of a table is named if it is missing.
func TestWhatTheGatewayNeedsOfATable(t *testing.T) {
	t.Parallel()
	const (
		two = "upstreams: {old: {form: v1, url: \"http://127.0.0.1:1\"}, new: {form: v2, url: \"http://127.0.0.1:2\"}}\nroute: {default: old}\ntable: {file: courier.yaml}\n" +
			"store: {url: \"sqlite:b.db\"}\ncallbacks: {public_url: https://a.example.com, require_key: true}\n"
		moves = two + "rollout: {old: old, new: new}\n"
	)
	courier := string(proxytest.ReadFile(t, "../translate/examples/courier.yaml"))
	for _, row := range []struct{ text, old, new, want string }{
		{moves, "", "", "table: label.list lists what one backend has: during a rollout a partner can have one shipment at each"},
		{two, "", "", "table: a code without a pair becomes E99 in v1, which means unavailable: programs in v1 can take a refusal for"},
		{moves, "    creates: bill\n", "", "rollout: no operation of the table has creates: bill, by which a rollout sends new bills to a backend"},
		{moves, "  not_found:", "  open:", "rollout: the table has no codes.not_found, by which a backend says that it has no such bill"},
		{moves, "done: [moving, delivered],", "", "rollout: role: state needs a meaning that is neither done nor final, and one that is done and not final"},
		{two, "cust_key:   {v2: apiKey, role: partner}", "cust_key:   {v2: apiKey}", "callbacks.require_key: the callback of the table has no role: partner in both forms"},
		{two, "ref_no:     {v2: data.reference, role: bill}", "ref_no:     data.reference", "callbacks: the callback of the table has no role: bill in both forms"},
		{two, "  unavailable:", "  open:", "table: no code means unavailable: calls that were not sent are answered with E20, as refusals are. Add one to codes.unavailable"},
		{two, "  exists:", "  open:", "table: no code means exists: the outcome of a create that fails for this reason is unknown"},
		{two, "role: state,", "", "table: the console cannot read a bill: the table has no operation that reads a bill"},
	} {
		table := strings.Replace(courier, row.old, row.new, 1)
		if row.new == "" && strings.HasPrefix(row.old, "role: state") {
			table = strings.Replace(table, `],
                   means: {"10": created, "20": moving, "30": delivered, "90": cancelled}}`, "]}", 1)
		}
		dir := folder(t, map[string]string{"billbridge.yaml": row.text, "courier.yaml": table})
		c, err := config.Load(filepath.Join(dir, "billbridge.yaml"), func(string) (string, bool) { return "", false })
		got := ""
		if err != nil {
			got = err.Error()
		} else if warnings := c.Warnings(); len(warnings) > 0 {
			got = warnings.Error()
		}
		if !strings.Contains(got, row.want) {
			t.Errorf("%s → %s: %s\nwant %s", row.old, row.new, got, row.want)
		}
	}
}
