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
	if err != nil {
		t.Fatal(err)
	}
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
	if got := fmt.Sprintf("%s", secret); got != want {
		t.Errorf("fmt: %s", got)
	}
	if got := secret.LogValue().String(); got != want {
		t.Errorf("slog: %s", got)
	}
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

// The errors of an invalid config contain no secret, even if it is in the wrong place.
func TestErrorsOfAConfigContainNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"admin: {token: [" + canary + "]}\n",
		"admin: {token: {value: " + canary + "}}\n",
		"admin: {listen: nowhere, token: " + canary + "}\n",
		"admin: {token: " + canary + ", listne: 127.0.0.1:9090}\n",
		"admin: {token: " + canary + "}\nlisten: nowhere\n",
		"upstreams: {new: {form: v2, url: \"https://operator:" + canary + "@new.example.com\"}}\n",
		"upstreams: {new: {form: v2, url: \"https://operator:" + canary + " %@new.example.com\"}}\n",
		"upstreams: {new: {form: v2, url: \"ftp://operator:" + canary + "@new.example.com?\"}}\n",
	} {
		_, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(text)}, lookup)
		if err == nil {
			t.Errorf("not refused: %s", text)
			continue
		}
		checkNoSecret(t, text, err.Error())
	}
}
