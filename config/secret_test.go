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

// The text that must not be seen, invented for this test.
const hush = "hush-0451-token"

// holder keeps a secret as our own types may: fmt calls no method on an unexported field.
type holder struct {
	Shown  config.Secret
	hidden config.Secret
	nested *config.Secret
}

// A secret cannot print, whatever holds it and whatever prints it.
func TestSecretCannotPrint(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(hush)
	whole, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(one + "admin: {token: " + hush + "}\n")}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Admin.Token.Reveal() != hush || secret.Reveal() != hush {
		t.Fatal("the secret is not in it: this test would prove nothing")
	}
	values := map[string]any{
		"secret": secret, "pointer": &secret, "list": []config.Secret{secret}, "map": map[string]config.Secret{"a": secret},
		"key": map[config.Secret]int{secret: 1}, "holder": holder{secret, secret, &secret}, "holder pointer": &holder{secret, secret, &secret},
		"admin": whole.Admin, "config": whole, "config value": *whole,
	}
	for name, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t", "%p", "%10.3v", "%w"} {
			hushed(t, name+" "+verb, fmt.Sprintf(verb, value))
		}
		hushed(t, name+" Sprint", fmt.Sprint(value))
		hushed(t, name+" Errorf", fmt.Errorf("refused: %v", value).Error())
		hushed(t, name+" joined", errors.Join(errors.New("refused"), fmt.Errorf("of %+v", value)).Error())

		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("said", "value", value, slog.Group("of", "value", value))
		slog.New(slog.NewJSONHandler(&log, nil)).Info("said", "value", value, slog.Group("of", "value", value))
		hushed(t, name+" slog", log.String())

		if text, err := json.Marshal(value); err == nil { // a *tls.Config and the like cannot be written at all
			hushed(t, name+" JSON", string(text))
		}
		if text, err := yaml.Dump(value); err == nil {
			hushed(t, name+" YAML", string(text))
		}
	}
}

func hushed(t *testing.T, how, text string) {
	t.Helper()
	for _, form := range []string{hush, fmt.Sprintf("%x", hush), fmt.Sprintf("%X", hush), fmt.Sprintf("%d", []byte(hush))} {
		if strings.Contains(text, strings.Trim(form, "[]")) {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
}

// What stands in its place, so that a reader of a log sees that there is one.
func TestSecretShowsItself(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(hush)
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
		t.Errorf("an empty one: %v", none)
	}
}

// No message of a refused config shows a secret, wherever it was written by mistake.
func TestRefusedConfigsShowNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"admin: {token: [" + hush + "]}\n",
		"admin: {token: {value: " + hush + "}}\n",
		"admin: {listen: nowhere, token: " + hush + "}\n",
		"admin: {token: " + hush + ", listne: 127.0.0.1:9090}\n",
		"admin: {token: " + hush + "}\nlisten: nowhere\n",
		"upstreams: {new: {form: v2, url: \"https://operator:" + hush + "@new.example.com\"}}\n",
		"upstreams: {new: {form: v2, url: \"https://operator:" + hush + " %@new.example.com\"}}\n",
		"upstreams: {new: {form: v2, url: \"ftp://operator:" + hush + "@new.example.com?\"}}\n",
	} {
		_, err := config.Parse(translate.File{Name: "test.yaml", Data: []byte(text)}, lookup)
		if err == nil {
			t.Errorf("not refused: %s", text)
			continue
		}
		hushed(t, text, err.Error())
	}
}
