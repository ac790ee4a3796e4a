package main

import (
	"bufio"
	"context"
	_ "embed"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A question asks for the value of one flag.
type question struct {
	flag     string
	value    *string
	text     string
	example  string
	fallback string   // the answer if there is none; "" if one is required
	words    []string // the allowed answers; nil for any
}

// questions returns the questions of the case, in the order in which they are asked, and the flags that the case does
// not use.
func (c *initCommand) questions() (asked []question, unused []question) {
	forms := []string{"v2", "legacy"}
	passThrough, migration := []string{"pass-through"}, []string{"migration"}
	withStore := []string{"callbacks", "migration"}
	for _, q := range []struct {
		question
		cases []string // nil for all
	}{
		{question{"--old", &c.Old, "URL of the old backend", "https://legacy.example.com", "", nil}, migration},
		{question{"--new", &c.New, "URL of the backend", "https://v2.example.com/partner", "", nil}, nil},
		{question{"--form", &c.Form, "Form of the backend, v2 or legacy", "legacy", "v2", forms}, passThrough},
		{question{
			"--public-url", &c.PublicURL, "URL at which backends reach this gateway",
			"https://bridge.example.com", "", nil,
		}, withStore},
		{question{
			"--store", &c.Store, "Store for callbacks and bill ownership",
			"${env:BILLBRIDGE_STORE_URL}", "sqlite:billbridge.db", nil,
		}, withStore},
		{question{
			"--used-code", &c.UsedCode, "Code of the old backend if a bill id is used",
			"9800", usedCode, nil,
		}, migration},
		{question{
			"--no-bill-code", &c.NoBill, "Code of the old backend if there is no such bill",
			"9980", noBillCode, nil,
		}, migration},
		{question{
			"--pay-types", &c.PayTypes,
			"Words in appr_pay_type of the old backend, with the numbers of the new one",
			"SIMPLE_PAY=0,CARD_VAN=1", "none", nil,
		}, migration},
		{question{
			"--other-pay-types", &c.OtherPay,
			"What partners in v2 get for another word: null, which typed programs can read, or pass for the word",
			"null", "none",
			[]string{"null", "pass", "none"},
		}, migration},
		{question{"--listen", &c.Listen, "Address and port for partners", "0.0.0.0:8080", "127.0.0.1:8080", nil}, nil},
	} {
		if q.flag == "--new" && c.Case == "migration" {
			q.text = "URL of the new backend"
		}
		if q.cases == nil || slices.Contains(q.cases, c.Case) {
			asked = append(asked, q.question)
		} else {
			unused = append(unused, q.question)
		}
	}
	return asked, unused
}

// missing returns the required flags that were not given, for a run without a terminal.
func (c *initCommand) missing(asked []question) (flags []string) {
	if c.Case == "" {
		flags = append(flags, "--case (pass-through, translate, callbacks or migration)")
	}
	for _, q := range asked {
		if q.fallback == "" && *q.value == "" {
			flags = append(flags, q.flag)
		}
	}
	return flags
}

// A dialog asks questions on a terminal.
type dialog struct {
	ctx     context.Context
	s       system
	answers *bufio.Reader
}

// readLine reads an answer. It returns io.EOF if the user ends the program.
func (d *dialog) readLine() (string, error) {
	var line string
	var err error
	read := make(chan struct{})
	go func() { // still reads if the user ends the program
		line, err = d.answers.ReadString('\n')
		close(read)
	}()
	select {
	case <-read:
		return line, err
	case <-d.ctx.Done():
		return "", io.EOF
	}
}

// ask asks until the answer is valid.
func (d *dialog) ask(q question, check func() error) error {
	for {
		prompt := q.text + " (for example " + q.example + ")"
		if q.fallback != "" {
			prompt += " [" + q.fallback + "]"
		}
		printf(d.s.err, "%s: ", prompt)
		line, err := d.readLine()
		if *q.value = strings.TrimSpace(line); *q.value == "" {
			if err != nil {
				printf(d.s.err, "\n")
				return usageError("the input ended before " + q.flag + " had a value")
			}
			*q.value = q.fallback
		}
		switch problem := check(); {
		case *q.value == "":
			printf(d.s.err, "a value is required\n")
		case q.words != nil && !slices.Contains(q.words, *q.value):
			printf(d.s.err, "must be one of %s, but is %s\n", strings.Join(q.words, ", "), strconv.Quote(*q.value))
		case problem != nil:
			printf(d.s.err, "%s\n", linesOf(problem))
		default:
			return nil
		}
		*q.value = ""
	}
}
