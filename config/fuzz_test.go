package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"billbridge/config"
	"billbridge/translate"
)

// For every input Parse returns a config that a gateway can use, or problems with a position.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds: %v", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("upstreams: {a: {form: v2, url: !!binary aHR0cDovL2E=}}"))
	f.Add([]byte("upstreams: {a: {<<: {form: v2}, url: http://a}}"))
	f.Add([]byte("%YAML 1.2\n---\nlisten: !!null x\n...\n"))
	f.Add([]byte("\xff\xfel\x00i\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The folder does not exist, so the input cannot name a file that exists.
		c, err := config.Parse(translate.File{Name: "testdata/bad/files/none/fuzz.yaml", Data: data}, lookup)
		if err == nil {
			if c.Table == nil || len(c.Upstreams) == 0 || c.Upstreams.Find(c.Route.Default) == nil || c.Upstreams.LongestCall() <= 0 {
				t.Errorf("accepted without a table, an upstream or a default: %+v", c)
			}
			for _, u := range c.Upstreams {
				if u.Address.URL == nil || u.Address.Host == "" || u.Connections < 1 || u.Timeout <= 0 {
					t.Errorf("accepted an invalid upstream: %+v", u)
				}
			}
			if c.Limits.Body <= 0 || c.Limits.Reply <= 0 || c.Timeouts.Header <= 0 || c.Timeouts.Body <= 0 {
				t.Errorf("accepted without a limit: %+v %+v", c.Limits, c.Timeouts)
			}
			return
		}
		var problems translate.Problems
		if c != nil || !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("%T: %v, with %v", err, err, c)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Text == "" || p.File == "" {
				t.Errorf("no position: %+v", p)
			}
		}
	})
}
