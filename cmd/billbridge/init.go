package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"billbridge/config"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// The tags of a flag say how it is asked for: the question, an example, the answer if there is none, and the cases that
// need it. A flag without cases belongs to all of them, and one without a fallback is required.
type initCommand struct {
	Case      string `enum:",pass-through,translate,callbacks,migration" default:"" placeholder:"CASE" ask:"Case: pass-through, translate, callbacks or migration" example:"migration" fallback:"translate" help:"pass-through: partners and the backend use the same form. translate: partners use legacy or v2, the backend uses v2. callbacks: like translate, and the gateway delivers callbacks to partners. migration: partners move from an old backend in legacy to a new backend in v2."`
	Old       string `placeholder:"URL" ask:"URL of the old backend" example:"https://legacy.example.com" cases:"migration" help:"With migration: the URL of the old backend."`
	New       string `placeholder:"URL" ask:"URL of the backend" example:"https://v2.example.com/partner" help:"The URL of the backend; with migration, of the new backend."`
	Form      string `enum:",v2,legacy" default:"" placeholder:"FORM" ask:"Form of the backend, v2 or legacy" example:"legacy" fallback:"v2" cases:"pass-through" help:"With pass-through: the form of the backend, v2 or legacy (v2)."`
	PublicURL string `name:"public-url" placeholder:"URL" ask:"URL at which backends reach this gateway" example:"https://bridge.example.com" cases:"callbacks,migration" help:"With callbacks and migration: the URL at which backends reach the gateway."`
	Store     string `placeholder:"STORE" ask:"Store for callbacks and bill ownership" example:"${env:BILLBRIDGE_STORE_URL}" fallback:"sqlite:billbridge.db" cases:"callbacks,migration" help:"With callbacks and migration: sqlite:FILE, $${env:NAME} or $${file:PATH} (sqlite:billbridge.db)."`
	UsedCode  string `name:"used-code" placeholder:"CODE" ask:"Code of the old backend if a bill id is used" example:"9800" fallback:"BILL_001" cases:"migration" help:"With migration: the code with which the old backend says that a bill id is used, such as 9800 (BILL_001)."`
	NoBill    string `name:"no-bill-code" placeholder:"CODE" ask:"Code of the old backend if there is no such bill" example:"9980" fallback:"BILL_003" cases:"migration" help:"With migration: the code with which the old backend says that there is no such bill, such as 9980 (BILL_003)."`
	PayTypes  string `name:"pay-types" placeholder:"WORD=N,…" ask:"Words in appr_pay_type of the old backend, with the numbers of the new one" example:"SIMPLE_PAY=0,CARD_VAN=1" fallback:"none" cases:"migration" help:"With migration: the words of the old backend in appr_pay_type, with the numbers of the new one in apprPayType, such as SIMPLE_PAY=0,CARD_VAN=1 (none)."`
	OtherPay  string `name:"other-pay-types" enum:",null,pass,none" default:"" placeholder:"null|pass" ask:"What partners in v2 get for another word: null, which typed programs can read, or pass for the word" example:"null" fallback:"none" cases:"migration" help:"With migration: what partners in v2 get in apprPayType for a word without a number: null, which typed programs can read, or pass for the word (none: billbridge check reminds of the choice)."`
	Listen    string `placeholder:"ADDR" ask:"Address and port for partners" example:"0.0.0.0:8080" fallback:"127.0.0.1:8080" help:"The address for partners (127.0.0.1:8080)."`
	Output    string `default:"billbridge.yaml" placeholder:"FILE" help:"The file to create (${default}); - is stdout. It must not exist."`
}

// overlay returns the overlay for what the old backend answers, or nil if that is what the interface document says.
func (c *initCommand) overlay() ([]byte, error) {
	var pairs [][2]string
	for pair := range strings.SplitSeq(c.PayTypes, ",") {
		word, n, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if c.PayTypes == "" || c.PayTypes == "none" {
			break
		}
		if _, err := strconv.ParseUint(n, 10, 31); err != nil || word == "" {
			return nil, fmt.Errorf("the pay types must be WORD=N,WORD=N or none, such as "+
				"SIMPLE_PAY=0,CARD_VAN=1, but one is %q", pair)
		}
		pairs = append(pairs, [2]string{n, word})
	}
	var text bytes.Buffer
	err := initTemplates.ExecuteTemplate(&text, "overlay", struct {
		*initCommand
		Pairs [][2]string
	}{c, pairs})
	if err != nil || text.Len() == 0 {
		return nil, err
	}
	_, err = translate.Compile(32, billing.Table(), translate.File{Name: c.overlayFile(), Data: text.Bytes()})
	return text.Bytes(), err
}

// overlayFile is the name of the overlay, in the folder of the config.
func (c *initCommand) overlayFile() string {
	return strings.TrimSuffix(c.Output, filepath.Ext(c.Output)) + "-table.yaml"
}

// Run asks for what is missing, and writes the config.
func (c *initCommand) Run(ctx context.Context, s system) error {
	if _, err := os.Lstat(c.Output); c.Output != "-" && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists, and init does not overwrite files: choose another file with --output", c.Output)
	}
	if _, err := os.Stat(filepath.Dir(c.Output)); err != nil {
		return err
	}
	d := &dialog{ctx: ctx, s: s, answers: bufio.NewReader(s.in)}
	asked, unused := c.questions()
	if c.Case == "" && s.dialog {
		printf(s.err, "%s", lines(initCases))
		if err := d.ask(asked[0], func() error { return nil }); err != nil {
			return err
		}
		asked, unused = c.questions()
	}
	missing := c.missing(asked)
	if !s.dialog && len(missing) > 0 {
		return usageError("missing flags: " + strings.Join(missing, ", "))
	}
	for _, q := range unused {
		if *q.value != "" {
			return usageError(fmt.Sprintf("%s cannot be used with --case %s", q.flag, c.Case))
		}
	}
	for i, q := range asked { // each given value alone, so that an error names its flag, and before the first question
		if *q.value == "" {
			continue
		}
		alone := &initCommand{Case: c.Case, Output: c.Output}
		same, _ := alone.questions()
		*same[i].value = *q.value
		if err := alone.check(s); err != nil {
			return usageError(q.flag + ": " + err.Error())
		}
	}
	for _, q := range asked {
		if *q.value == "" && s.dialog {
			if err := d.ask(q, func() error { return c.check(s) }); err != nil {
				return err
			}
		}
	}
	return c.write(s)
}

const initCases = `pass-through  one backend; partners use the same form
translate     one backend in v2; partners use legacy or v2
callbacks     like translate, and the gateway delivers callbacks to partners
migration     partners move from an old backend in legacy to a new backend in v2
`

//go:embed init.tmpl
var initText string

var initTemplates = template.Must(template.New("config").Funcs(template.FuncMap{"yaml": func(text string) string {
	if plainYAML.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}}).Parse(initText))

// plainYAML matches texts that need no quotes in YAML.
var plainYAML = regexp.MustCompile(
	`^[A-Za-z][A-Za-z0-9_./:@+-]*[A-Za-z0-9_/]$|^[0-9.]+:[0-9]+$|^\$\{[A-Za-z0-9_./:-]+\}$`)

// text returns the config, and with named with the name of the overlay if there is one. A valid value stands for each
// value that was not given yet.
func (c *initCommand) text(named bool) ([]byte, error) {
	values := *c
	asked, _ := values.questions()
	for _, q := range asked {
		if *q.value == "" && q.fallback != "" {
			*q.value = q.fallback
		} else if *q.value == "" {
			*q.value = q.example
		}
	}
	values.Form = cmp.Or(values.Form, "v2")
	table := ""
	if overlay, _ := c.overlay(); overlay != nil && named {
		table = filepath.Base(c.overlayFile())
	}
	var out bytes.Buffer
	err := initTemplates.ExecuteTemplate(&out, "config", struct {
		initCommand
		Table string
	}{values, table})
	return out.Bytes(), err
}

// check returns what is wrong with the given values, in the words of billbridge check.
func (c *initCommand) check(s system) error {
	if strings.HasPrefix(c.Store, "postgres") {
		return errors.New("a PostgreSQL URL has a password, which must not be in the config: put the URL into an " +
			"environment variable or a file, and use ${env:NAME} or ${file:PATH}")
	}
	overlay, err := c.overlay()
	var problems translate.Problems
	switch {
	case errors.As(err, &problems):
		return errors.New(problems[0].Text)
	case err != nil:
		return err
	case overlay != nil && c.Output == "-":
		return errors.New("codes and pay types are written to a second file beside the config: " +
			"name a file with --output")
	}
	text, err := c.text(false)
	if err != nil {
		return err
	}
	file := translate.File{Name: c.Output, Data: text}
	_, err = config.Parse(file, func(name string) (string, bool) {
		if value, ok := s.env(name); ok {
			return value, true
		}
		return "postgres://127.0.0.1/billbridge", true // the variable may be set only where the gateway runs
	})
	if !errors.As(err, &problems) {
		return err
	}
	var texts []string
	for _, p := range problems {
		_, text, _ := strings.Cut(p.Text, ": ") // without the key, which the user did not write
		texts = append(texts, text)
	}
	return errors.New(strings.Join(texts, "; "))
}

// write creates the file and prints the next steps.
func (c *initCommand) write(s system) error {
	if err := c.check(s); err != nil {
		return err
	}
	text, err := c.text(true)
	if err != nil || c.Output == "-" {
		return s.write(text, err)
	}
	overlay, err := c.overlay()
	if err != nil {
		return err
	}
	written := ""
	if overlay != nil {
		written = c.overlayFile()
		err = createFile(written, overlay)
	}
	if err == nil {
		err = createFile(c.Output, text)
	}
	if err != nil {
		return err
	}
	return show(s.out, "init", struct {
		*initCommand
		Overlay, Schema string
	}{c, written, filepath.Join(filepath.Dir(c.Output), "billbridge.schema.json")})
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
