package proxy_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/sandbox"

	"github.com/tidwall/gjson"
)

// Secrets of hashes that occur nowhere else.
const (
	canaryHashSecret  = "canary-hash-secret-of-the-partner-91c0"
	canaryHashSecret2 = "canary-hash-secret-of-the-backend-77aa"
)

func keyedHash(secret string) func(text string) string {
	return func(text string) string {
		sum := hmac.New(sha256.New, []byte(secret))
		_, _ = sum.Write([]byte(text))
		return hex.EncodeToString(sum.Sum(nil))
	}
}

func plainHash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// hashText returns what is hashed of a call.
func hashText(q call) string {
	text := demoBill + "," + q.bill["price"].(string)
	if q.op == "create" {
		text = demoBill + "," + q.bill["phone"].(string) + "," + q.bill["price"].(string)
	}
	return text
}

// newHashGateway returns a gateway that treats hashes in a mode, and the sandbox behind it, whose form computes them with
// the second secret. The form of the client has none, or the first one.
func newHashGateway(t *testing.T, client, upstream, mode, algorithms, more string) (*gateway, *backend) {
	t.Helper()
	back := newBackend(t, newService(func(o *sandbox.Options) {
		o.Sign = func(_, _ string, request []byte) (text, hash string, err error) {
			var parts []string
			for _, path := range []string{"bill.billId", "bill.bill_id", "bill_id", "bill.phone", "bill.price", "price"} {
				if v := gjson.GetBytes(request, path); v.Exists() {
					parts = append(parts, v.String())
				}
			}
			text = strings.Join(parts, ",")
			return text, keyedHash(canaryHashSecret2)(text), nil
		}
	}))
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		proxytest.WriteFile(t, name, text)
		return name
	}
	secrets := fmt.Sprintf("%s: '${file:%s}'", upstream, file("upstream", canaryHashSecret2+"\n"))
	if client != upstream {
		secrets += fmt.Sprintf(", %s: '${file:%s}'", client, file("client", canaryHashSecret+"\n"))
	}
	return newGateway(t, fmt.Sprintf(`
upstreams: {up: {form: %s, url: %q, timeout: 30s, hash: %s}}
table: {overlay: %q}
partners: {%s: {name: Hana Clinic, hash_secret: {%s}}}
%s
`, upstream, back.url, mode, file("overlay.yaml", "hash: {algorithm: "+algorithms+"}\n"), partner.Of(demoKey), secrets, more)+waitsLonger), back
}

// A partner signs as always, and the backend gets the hash that it demands: in all operations, and no digit changes.
func TestHashesAreRenewed(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} { // whether the client's form has a secret
		for _, client := range forms {
			upstream := inForm(client, "legacy", "v2")
			parallel(t, fmt.Sprint(client, "/", keyed), func(t *testing.T) {
				algorithms, hash := fmt.Sprintf("{%s: hmac-sha256, %s: sha256}", upstream, client), plainHash
				if keyed {
					algorithms, hash = "hmac-sha256", keyedHash(canaryHashSecret)
				}
				b, back := newHashGateway(t, client, upstream, "renew", algorithms, "")
				for i, op := range []string{"create", "destroy"} {
					q := newCall(client, op)
					text := hashText(q)
					got := b.send(q.with("hash", hash(text)))
					checkText(t, back.received()[i].body, keyedHash(canaryHashSecret2)(text))
					checkText(t, got.body, `"0000"`, "!"+keyedHash(canaryHashSecret2)(text))
					if op == "create" {
						checkText(t, got.body, hash(text)) // the partner gets its own back
					}
				}
				back.expectCalls(t, 2)
				checkNoHashSecret(t, b)
			})
		}
	}
}

// A hash that does not verify is refused with the table's code, in the partner's form. Nothing is sent, and it is never
// renewed.
func TestWrongHashIsNotSent(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"verify", "renew"} {
		eachPair(t, func(t *testing.T, client, upstream string) {
			b, back := newHashGateway(t, client, upstream, mode, "hmac-sha256", "")
			for _, op := range []string{"create", "destroy", "cancel"} {
				q := newCall(client, op)
				for _, hash := range []any{plainHash(hashText(q)), keyedHash("another")(hashText(q)), "", strings.Repeat("0", 64), nil} {
					b.send(q.with("hash", hash)).is(t, 400, `"VALIDATION_002"`)
				}
			}
			back.expectCalls(t, 0)
			checkNoHashSecret(t, b)
		})
	}
}

// A right hash passes unchanged with verify; with pass the gateway does not look at it.
func TestHashesPass(t *testing.T) {
	t.Parallel()
	for mode, hash := range map[string]string{"verify": keyedHash(canaryHashSecret)(hashText(legacy("create"))), "pass": "anything"} {
		b, back := newHashGateway(t, "legacy", "v2", mode, "hmac-sha256", "")
		b.send(legacy("create").with("hash", hash))
		checkText(t, back.first(t).body, `"hash":"`+hash+`"`)
	}
}

// Without its secret the hash of a partner cannot be checked: nothing is sent, and that is no refusal of the request.
func TestPartnerWithoutAHashSecret(t *testing.T) {
	t.Parallel()
	b, back := newHashGateway(t, "legacy", "v2", "renew", "hmac-sha256", "")
	q := legacy("create").with("apiKey", "another-key")
	b.send(q.with("hash", keyedHash(canaryHashSecret)(hashText(q)))).is(t, 503, `"MAINTAINED_METHOD"`)
	back.expectCalls(t, 0)
	checkText(t, b.logs.String(), `"hash_secret"`)
	checkNoHashSecret(t, b)
}

// A create that is refused for its hash leaves nothing: the next one, with the right hash, is a new create.
func TestCreateAfterAWrongHashInARollout(t *testing.T) {
	t.Parallel()
	m := newRolloutGateway(t, "new")
	m.reload(200, strings.ReplaceAll(*m.text.Load(), "form: ", "hash: renew, form: "))
	play(m, `
400:VALIDATION_002 legacy create hash=0000000000000000000000000000000000000000000000000000000000000000
# a read looks for the bill at the old backend
calls 1 0
success legacy create
bills 0 1`)
}

func checkNoHashSecret(t *testing.T, b *gateway) {
	t.Helper()
	checkText(t, b.logs.String()+b.scrape(), "!"+canaryHashSecret, "!"+canaryHashSecret2)
}
