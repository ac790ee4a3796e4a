package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"billbridge/config"
	"billbridge/translate"
)

// The tags of a flag say which cases use it, by default all, and its value if it is not given. One without such a value
// is required.
type initCommand struct {
	Case      string `enum:"pass-through,translate,callbacks,migration" required:"" placeholder:"CASE"`
	Old       string `placeholder:"URL" cases:"migration"`
	New       string `placeholder:"URL"`
	Form      string `enum:",v2,legacy" default:"" placeholder:"FORM" fallback:"v2" cases:"pass-through"`
	PublicURL string `name:"public-url" placeholder:"URL" cases:"callbacks,migration"`
	Store     string `placeholder:"STORE" fallback:"sqlite:billbridge.db" cases:"callbacks,migration"`
	Listen    string `placeholder:"ADDR" fallback:"127.0.0.1:8080"`
	Output    string `default:"billbridge.yaml" placeholder:"FILE"`
}

// complete sets the values that were not given.
func (c *initCommand) complete() error {
	v := reflect.ValueOf(c).Elem()
	var missing []string
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		flag := "--" + cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
		cases := field.Tag.Get("cases")
		used := cases == "" || slices.Contains(strings.Split(cases, ","), c.Case)
		switch fallback := field.Tag.Get("fallback"); {
		case !used && value.String() != "":
			return usageError(fmt.Sprintf("%s cannot be used with --case %s", flag, c.Case))
		case !used || value.String() != "":
		case fallback == "":
			missing = append(missing, flag)
		default:
			value.SetString(fallback)
		}
	}
	if missing != nil {
		return usageError("missing flags: " + strings.Join(missing, ", "))
	}
	return nil
}

// Run writes the config, and prints the next steps.
func (c *initCommand) Run(s system) error {
	if _, err := os.Lstat(c.Output); c.Output != "-" && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists, and init does not overwrite files: choose another file with --output", c.Output)
	}
	if _, err := os.Stat(filepath.Dir(c.Output)); err != nil {
		return err
	}
	if err := c.complete(); err != nil {
		return err
	}
	text, err := c.text(s)
	if err != nil {
		return usageError(err.Error())
	}
	if c.Output == "-" {
		return s.write(text, nil)
	}
	if err := createFile(c.Output, text); err != nil {
		return err
	}
	return show(s.out, "init", struct {
		*initCommand
		Schema string
	}{c, filepath.Join(filepath.Dir(c.Output), "billbridge.schema.json")})
}

//go:embed init.tmpl
var initText string

var initTemplate = template.Must(template.New("config").Funcs(template.FuncMap{"yaml": func(text string) string {
	if plainYAML.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}}).Parse(initText))

// plainYAML matches texts that need no quotes in YAML.
var plainYAML = regexp.MustCompile(
	`^[A-Za-z][A-Za-z0-9_./:@+-]*[A-Za-z0-9_/]$|^[0-9.]+:[0-9]+$|^\$\{[A-Za-z0-9_./:-]+\}$`)

// text returns the config, or what is wrong with the values, in the words of billbridge check.
func (c *initCommand) text(s system) ([]byte, error) {
	if strings.HasPrefix(c.Store, "postgres") {
		return nil, errors.New("--store: a PostgreSQL URL has a password, which must not be in the config: put the " +
			"URL into an environment variable or a file, and use ${env:NAME} or ${file:PATH}")
	}
	values := *c
	values.Form = cmp.Or(values.Form, "v2")
	var out bytes.Buffer
	if err := initTemplate.Execute(&out, values); err != nil {
		return nil, err
	}
	_, err := config.Parse(translate.File{Name: c.Output, Data: out.Bytes()}, func(name string) (string, bool) {
		if value, ok := s.env(name); ok {
			return value, true
		}
		return "postgres://127.0.0.1/billbridge", true // the variable may be set only where the gateway runs
	})
	var problems translate.Problems
	if !errors.As(err, &problems) {
		return out.Bytes(), err
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Text) // without a place: the user did not write the file
	}
	return nil, errors.New(strings.Join(texts, "; "))
}

// createFile writes a new file.
func createFile(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}
