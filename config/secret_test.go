package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"billbridge/config"
	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// canary is a secret that must not be printed.
const canary = "canary-0451-token"

// holder has a secret in an unexported field, on which fmt calls no method.
type holder struct {
	Public config.Secret
	hidden config.Secret
	nested *config.Secret
}

// A secret is never printed, whatever value contains it and whatever prints it.
func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(canary)
	whole, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(oneUpstream + "admin: {token: " + canary + "}\n")}, lookup)
	must(t, err)
	if whole.Admin.Token.Reveal() != canary || secret.Reveal() != canary {
		t.Fatal("the values do not contain the secret")
	}
	values := map[string]any{
		"secret": secret, "pointer": &secret, "list": []config.Secret{secret}, "map": map[string]config.Secret{"a": secret},
		"key": map[config.Secret]int{secret: 1}, "holder": holder{secret, secret, &secret}, "holder pointer": &holder{secret, secret, &secret},
		"admin": whole.Admin, "config": whole, "config value": *whole,
	}
	for name, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t", "%p", "%10.3v", "%w"} {
			checkNoSecret(t, name+" "+verb, fmt.Sprintf(verb, value))
		}
		checkNoSecret(t, name+" Sprint", fmt.Sprint(value))
		checkNoSecret(t, name+" Errorf", fmt.Errorf("refused: %v", value).Error())
		checkNoSecret(t, name+" joined", errors.Join(errors.New("refused"), fmt.Errorf("with %+v", value)).Error())

		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("message", "value", value, slog.Group("group", "value", value))
		slog.New(slog.NewJSONHandler(&log, nil)).Info("message", "value", value, slog.Group("group", "value", value))
		checkNoSecret(t, name+" slog", log.String())

		if text, err := json.Marshal(value); err == nil { // some values, such as a *tls.Config, cannot be marshalled
			checkNoSecret(t, name+" JSON", string(text))
		}
		if text, err := yaml.Dump(value); err == nil {
			checkNoSecret(t, name+" YAML", string(text))
		}
	}
}

func checkNoSecret(t *testing.T, how, text string) {
	t.Helper()
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("%d", []byte(canary))} {
		if strings.Contains(text, strings.Trim(form, "[]")) {
			t.Errorf("%s prints the secret: %s", how, text)
		}
	}
}

// (secret) is printed instead, so that a log shows that there is one.
func TestSecretIsPrintedAsAPlaceholder(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(canary)
	const want = "(secret)"
	equal(t, fmt.Sprintf("%s", secret), want)
	equal(t, secret.LogValue().String(), want)
	if got, err := json.Marshal(map[string]any{"token": secret}); err != nil || string(got) != `{"token":"(secret)"}` {
		t.Errorf("JSON: %s, %v", got, err)
	}
	if got, err := yaml.Dump(map[string]any{"token": secret}); err != nil || string(got) != "token: (secret)\n" {
		t.Errorf("YAML: %s, %v", got, err)
	}
	var none config.Secret
	if none.IsSet() || none.Reveal() != "" || fmt.Sprint(none) != want {
		t.Errorf("the zero value: %v", none)
	}
}

// The errors of an invalid config contain no secret, even if it is in the place of a key or makes the YAML invalid. Secrets as the
// values of all keys are in the tests of billbridge check.
func TestErrorsOfAConfigContainNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"admin: {token: {value: " + canary + "}}\n",
		"admin: {token: " + canary + ", listne: 127.0.0.1:9090}\n",
		canary + ": 1\n",
		canary + "\n",
		"listen: *" + canary + "\n",
		"? {" + canary + ": 1}\n: 1\n",
		"{" + canary + ": 1, " + canary + ": 2}\n",
		"upstreams: {Name-" + canary + ": {form: v2, url: https://new.example.com}}\n",
	} {
		_, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(text)}, lookup)
		if err == nil {
			t.Errorf("not refused: %s", text)
			continue
		}
		checkNoSecret(t, text, err.Error())
	}
}

// Warnings are about connections in plain text to or from other machines, and have the position of the key.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const admin = "test.yaml:2:17: admin.listen: the admin token crosses the network in plain text, since the address is not loopback: set admin.tls"
	const short = ": has fewer than 16 characters, so that it can be guessed: make one with openssl rand -hex 16"
	const postgres = "test.yaml:2:14: store.url: the connection to PostgreSQL may be in plain text: add sslmode=verify-full to the URL, or sslmode=require if its certificate cannot be verified"
	dir := folder(t, nil)
	newPair(t, "admin").write(t, dir+"/cert.pem", dir+"/key.pem")
	for text, want := range map[string]string{
		"admin: {listen: 127.0.0.1:9090, token: 0123456789abcde}":                                                               "test.yaml:2:40: admin.token" + short,
		"admin: {tokens: [{name: a, token: a, may: read}]}":                                                                     "test.yaml:2:35: admin.tokens[0].token" + short,
		"admin: {token: 0123456789abcdef}":                                                                                      "",
		"admin: {listen: 0.0.0.0:9090, token: 0123456789abcdef}":                                                                admin,
		"admin: {listen: ':9090', token: 0123456789abcdef}":                                                                     admin,
		"admin: {listen: 192.0.2.1:9090, token: 0123456789abcdef, tls: {cert: " + dir + "/cert.pem, key: " + dir + "/key.pem}}": "",
		"store: {url: 'sqlite:billbridge.db'}":                                                                                  "",
		"store: {url: 'postgres://u:p@127.0.0.1/db'}":                                                                           "",
		"store: {url: 'postgres://u:p@localhost:5432/db?sslmode=disable'}":                                                      "",
		"store: {url: 'postgres://u:p@[::1]:5432/db'}":                                                                          "",
		"store: {url: 'postgres:///db?host=/run/postgresql'}":                                                                   "",
		"store: {url: 'postgres://u:p@db.example.com/db'}":                                                                      postgres,
		"store: {url: 'postgresql://u:p@192.0.2.1:5432/db?sslmode=prefer'}":                                                     postgres,
		"store: {url: 'postgres://u:p@127.0.0.1:5432,db.example.com:5432/db'}":                                                  postgres,
		"store: {url: 'postgres:///db?host=/run/postgresql,db.example.com'}":                                                    postgres,
		"store: {url: 'postgres://u:p@db.example.com/db?sslmode=disable'}":                                                      postgres,
		"store: {url: 'postgres://u:p@db.example.com/db?sslmode=verify-full'}":                                                  "",
		"store: {url: 'postgres://u:p@db.example.com/db?sslmode=require&user=else'}":                                            "",
	} {
		if got := parse(t, oneUpstream+text+"\n").Warnings(); got.Error() != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
	modeInEnvironment := func(name string) (string, bool) { return "require", name == "PGSSLMODE" }
	c, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(oneUpstream + "store: {url: 'postgres://u:p@db.example.com/db'}\n")}, modeInEnvironment)
	if err != nil || len(c.Warnings()) > 0 {
		t.Errorf("PGSSLMODE is ignored: %v, %v", c.Warnings(), err)
	}
}
