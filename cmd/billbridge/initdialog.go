package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"io"
	"reflect"
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
func (c *initCommand) questions() (asked, unused []question) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		q := question{
			flag: "--" + cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)), text: field.Tag.Get("ask"),
			example: field.Tag.Get("example"), fallback: field.Tag.Get("fallback"),
		}
		if q.text == "" {
			continue
		}
		q.value = v.Field(i).Addr().Interface().(*string)
		if words, ok := field.Tag.Lookup("enum"); ok {
			q.words = strings.Split(words[1:], ",") // the first is empty
		}
		if q.flag == "--new" && c.Case == "migration" {
			q.text = "URL of the new backend"
		}
		if cases, some := field.Tag.Lookup("cases"); some && !slices.Contains(strings.Split(cases, ","), c.Case) {
			unused = append(unused, q)
		} else {
			asked = append(asked, q)
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
