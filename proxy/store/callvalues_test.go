package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"billbridge/proxy/partner"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"
)

// calls makes the calls of one test of TestCalls.
type calls struct {
	t        *testing.T
	ctx      context.Context
	url      string
	replicas []*store.Store
	funcs    map[string]any // besides the methods of a store, and values with a name
	returned []reflect.Value
	names    map[string]string // of partners and long texts
}

func (c *calls) call(line string) (shown []string) {
	name, arguments, _ := strings.Cut(line, " ")
	s := c.replicas[0]
	if method, second := strings.CutPrefix(name, "second."); second {
		if len(c.replicas) == 1 && strings.HasPrefix(c.url, "postgres") {
			c.replicas = append(c.replicas, open(c.t, c.url))
		}
		s, name = c.replicas[len(c.replicas)-1], method
	}
	f := reflect.ValueOf(c.funcs[name])
	for _, on := range []any{s, proxytest.On(s)} {
		if !f.IsValid() {
			f = reflect.ValueOf(on).MethodByName(name)
		}
	}
	var root yaml.Node
	if err := yaml.Load([]byte("["+arguments+"]"), &root); err != nil || !f.IsValid() {
		c.t.Fatalf("%s: %v", line, err)
	}
	for _, v := range f.Call(c.arguments(line, f.Type(), s, root.Content[0].Content)) {
		if v.Type() == reflect.TypeFor[error]() {
			if !v.IsNil() {
				shown = append(shown, c.error(v.Interface().(error)))
			}
			continue
		}
		if c.returned = append(c.returned, v); v.Kind() != reflect.Slice || v.Type().Elem().Kind() == reflect.Uint8 {
			shown = append(shown, c.show(v))
			continue
		}
		for i := range v.Len() {
			c.returned = append(c.returned, v.Index(i))
			shown = append(shown, c.show(v.Index(i)))
		}
		if v.Len() == 0 {
			shown = append(shown, "none")
		}
	}
	return shown
}

// arguments returns the context, the test, the store and what is given, as a function takes them.
func (c *calls) arguments(line string, of reflect.Type, s *store.Store, given []*yaml.Node) (in []reflect.Value) {
	for i := range of.NumIn() {
		want := of.In(i)
		switch free := slices.IndexFunc([]any{c.ctx, c.t, s}, func(v any) bool {
			return reflect.TypeOf(v).AssignableTo(want)
		}); {
		case free >= 0:
			in = append(in, reflect.ValueOf([]any{c.ctx, c.t, s}[free]))
		case of.IsVariadic() && i == of.NumIn()-1:
			for _, node := range given {
				in = append(in, c.read(want.Elem(), node))
			}
			given = nil
		case len(given) == 0:
			in = append(in, reflect.Zero(want))
		default:
			in, given = append(in, c.read(want, given[0])), given[1:]
		}
	}
	if len(given) > 0 {
		c.t.Fatalf("%s: %s takes fewer arguments", line, of)
	}
	return in
}

// ofEngine is what a database says, which differs between the engines.
var ofEngine = regexp.MustCompile(`: (constraint failed|ERROR): .*`)

// error shows an error, with the names of those of errs that it is, and partners by their names.
func (c *calls) error(err error) string {
	text := "error: " + c.named(ofEngine.ReplaceAllString(err.Error(), ": …"))
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		if errors.Is(err, errs[name]) {
			text += " (" + name + ")"
		}
	}
	return strings.ReplaceAll(text, "\n", `\n`)
}

// named is a text with names, the longest texts first.
func (c *calls) named(text string) string {
	long := slices.SortedFunc(maps.Keys(c.names), func(a, b string) int { return len(b) - len(a) })
	for _, of := range long {
		text = strings.ReplaceAll(text, of, "<"+c.names[of]+">")
	}
	return text
}

// read returns the value of a type that a node stands for.
func (c *calls) read(of reflect.Type, node *yaml.Node) reflect.Value {
	v := reflect.New(of).Elem()
	if node.Tag == "!!null" {
		return v
	}
	text := node.Value
	if node.Tag == "!!binary" { // a text that is not UTF-8
		var raw []byte
		must(c.t, node.Decode(&raw))
		text = string(raw)
	}
	if id, ok := strings.CutPrefix(text, "$"); ok {
		if of.Kind() == reflect.Int64 {
			return c.result(reflect.TypeFor[store.Callback](), id).FieldByName("Cursor")
		}
		return c.result(of, id)
	}
	switch v.Interface().(type) {
	case partner.ID:
		v.SetString(string(c.partner(text)))
		return v
	case store.Decision:
		return reflect.ValueOf(map[string]store.Decision{"replay": store.Replay, "drop": store.Drop}[text])
	case store.Range:
		return reflect.ValueOf(c.partnersIn(text))
	case time.Time:
		return reflect.ValueOf(c.time(text))
	case time.Duration:
		return reflect.ValueOf(c.duration(text))
	case store.Author:
		if node.Kind == yaml.ScalarNode {
			return reflect.ValueOf(store.Author{Name: text})
		}
	case [32]byte:
		return reflect.ValueOf(sha256.Sum256([]byte(text)))
	}
	switch of.Kind() {
	case reflect.String:
		v.SetString(c.expand(text))
	case reflect.Func:
		return reflect.ValueOf(c.funcs[text])
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return reflect.ValueOf([]byte(text))
		}
		v = reflect.MakeSlice(of, 0, 0)
		for _, item := range node.Content {
			v = reflect.Append(v, c.read(of.Elem(), item))
		}
	case reflect.Map, reflect.Struct:
		if known := c.funcs[text]; known != nil {
			return reflect.ValueOf(known)
		}
		return c.fill(of, node.Content)
	default:
		must(c.t, node.Decode(v.Addr().Interface()))
	}
	return v
}

// result returns the last value of a type with an ID or a Bill that calls returned, or with b/1 the first one.
func (c *calls) result(of reflect.Type, text string) reflect.Value {
	id, part, _ := strings.Cut(text, "/")
	var all []reflect.Value
	for _, v := range c.returned {
		if v.Type() == of && (v.FieldByName("ID").String() == id || v.FieldByName("Bill").String() == id) {
			all = append(all, v)
		}
	}
	n, err := strconv.Atoi(part)
	if err != nil {
		n = len(all)
	}
	if n == 0 || n > len(all) {
		c.t.Fatalf("no call has returned %s", text)
	}
	return all[n-1]
}

// fill returns a map or a struct with values. A callback or an address has those of its helper before.
func (c *calls) fill(of reflect.Type, nodes []*yaml.Node) reflect.Value {
	v, given := reflect.New(of).Elem(), map[string]string{}
	for pair := range slices.Chunk(nodes, 2) {
		given[pair[0].Value] = pair[1].Value
	}
	switch _, registers := given["Store"]; v.Interface().(type) {
	case store.Callback:
		v.Set(reflect.ValueOf(callback(given["ID"], given["Bill"])))
	case store.Address:
		v.Set(reflect.ValueOf(address(given["ID"], given["Bill"])))
		if registers {
			v.Set(reflect.ValueOf(registration(given["ID"], given["Store"], noon)))
		}
	case map[string]int:
		v.Set(reflect.MakeMap(of))
	}
	for pair := range slices.Chunk(nodes, 2) {
		if of.Kind() == reflect.Map {
			v.SetMapIndex(c.read(of.Key(), pair[0]), c.read(of.Elem(), pair[1]))
			continue
		}
		field := v.FieldByName(pair[0].Value)
		if !field.IsValid() {
			c.t.Fatalf("%s has no field %s", of, pair[0].Value)
		}
		field.Set(c.read(field.Type(), pair[1]))
	}
	return v
}

// expand replaces <one> by the identity of a partner, and x*100 by a hundred x.
func (c *calls) expand(text string) string {
	of, n, _ := strings.Cut(text, "*")
	if times, err := strconv.Atoi(n); err == nil {
		long := strings.Repeat(of, times)
		c.names[long] = text
		return long
	}
	before, after, _ := strings.Cut(text, "<")
	name, rest, closed := strings.Cut(after, ">")
	if !closed {
		return text
	}
	return before + string(c.partner(name)) + c.expand(rest)
}

// partner reads the name of a partner. "like one" has the first 12 characters of one.
func (c *calls) partner(text string) partner.ID {
	name, part, _ := strings.Cut(text, "/")
	if text == "" || strings.ContainsAny(text, "%\x00") {
		return partner.ID(text)
	}
	id := partner.Of(name)
	if of, like := strings.CutPrefix(name, "like "); like {
		id = partner.Of(of)[:12] + partner.Of("else")[12:]
	}
	c.names[string(id)] = name
	switch n, err := strconv.Atoi(part); {
	case part == "":
		return id
	case err == nil:
		return id[:n]
	}
	return upper(id)
}

// partnersIn reads "all", "one", "after one" or "after one through two".
func (c *calls) partnersIn(text string) store.Range {
	if text == "all" {
		return store.AllPartners
	}
	from, after := strings.CutPrefix(text, "after ")
	from, last, through := strings.Cut(from, " through ")
	switch {
	case through:
		return store.After(c.partner(from)).Through(c.partner(last))
	case after:
		return store.After(c.partner(from))
	}
	return store.AllPartners.Of(c.partner(text))
}

func (c *calls) time(text string) time.Time {
	if after, ok := strings.CutPrefix(text, "noon"); ok {
		return noon.Add(c.duration(after))
	}
	at, err := time.Parse(time.RFC3339, text)
	must(c.t, err)
	return at
}

// duration reads a duration, which may begin with a number of days.
func (c *calls) duration(text string) time.Duration {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "", text
	}
	n, _ := strconv.Atoi("0" + strings.TrimLeft(days, "+-"))
	whole := time.Duration(n) * 24 * time.Hour
	if strings.HasPrefix(days, "-") {
		whole = -whole
	}
	if rest == "" {
		return whole
	}
	d, err := time.ParseDuration(rest)
	must(c.t, err)
	return whole + d
}
