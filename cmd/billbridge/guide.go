package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/sandbox"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A guide has what the page for a partner's developer says about the gateway. The page must not show addresses of
// backends, secrets, or other partners, which are in the config.
type guide struct {
	*config.Config
	Partner *config.Partner // nil for all partners
	Form    translate.Form  // of the partner

	Calls   []proxy.Route
	Systems []guideSystem       // of the billing service: one, or those between which bills move
	Codes   map[string][]string // that the partner gets, by their meaning
	Service time.Duration       // how long the service can take

	StateField    string            // of a read
	Hashes        map[string]string // examples, by text
	ExampleCreate string            // with the hash of a request with a phone
}

// A guideSystem is a form of the service, and what the translation to it changes for the partner.
type guideSystem struct {
	Form     translate.Form
	Old, New bool // in a rollout: which of the systems have this form
	Fields   []guideField
	Codes    []guideCode
}

// A guideField is a field that does not pass as it is. Other fields have the names and types of the partner's form.
type guideField struct {
	What   string // refused, dropped or added, of a request; absent, optional, no value, paired or unpaired, of a reply
	Call   string
	Path   string
	Code   string // of the refusal
	Status int
	Value  string // the only one that is carried, that is added, that means that nothing was paid, or of other words
	Pairs  [][2]string
}

// A guideCode is a code that the service and the partner write differently, or that one of them does not have.
type guideCode struct {
	Service, Partner string
	Means            translate.Meaning
}

// newGuide returns the guide for a partner, or for all if it is nil.
func newGuide(c *config.Config, form translate.Form, partner *config.Partner) *guide {
	g := &guide{Config: c, Partner: partner, Form: form, Codes: map[string][]string{}}
	if read, err := billing.ReadOperation(c.Table); err == nil {
		g.StateField = read.PathOf(translate.Reply, billing.State, form)
	}
	for _, r := range proxy.Routes(c) {
		o := c.Table.Operation(r.Operation) // nil for a path of route.pass
		ours := o == nil || o.Path(form) != ""
		if r.Client != form && ours {
			continue
		}
		r.Path = strings.TrimPrefix(r.Path, c.BasePath)
		g.Calls = append(g.Calls, r)
		if o == nil || !ours || !billing.Creates(o) {
			continue
		}
		g.addExample(o)
		for _, u := range targets(r) {
			g.addSystem(u)
		}
	}
	return g
}

// addSystem adds the form of a backend that has bills of the partner.
func (g *guide) addSystem(u *config.Upstream) {
	g.Service = max(g.Service, time.Duration(u.Timeout))
	i := slices.IndexFunc(g.Systems, func(s guideSystem) bool { return s.Form == u.Form })
	if i < 0 {
		i, g.Systems = len(g.Systems), append(g.Systems, guideSystem{Form: u.Form})
		g.addCodes(&g.Systems[i])
		for _, o := range g.Table.Operations() {
			g.addFields(&g.Systems[i], o)
		}
	}
	if r := g.Rollout; r != nil {
		s := &g.Systems[i]
		s.Old, s.New = s.Old || u.Name == r.Old, s.New || u.Name == r.New
	}
}

// addFields adds the fields of an operation that do not pass as they are.
func (g *guide) addFields(s *guideSystem, o *translate.Operation) {
	if s.Form == g.Form {
		return
	}
	t, fields := g.Table, o.Fields()
	words := slices.Concat(t.WordsWithoutPairs(s.Form), t.WordsWithoutPairs(g.Form))
	add := func(f guideField) { f.Call = o.Path(g.Form); s.Fields = append(s.Fields, f) }
	for _, f := range fields {
		reply, ours := f.Message == string(translate.Reply), f.From == g.Form && f.To == s.Form
		filled := func(other translate.Field) bool {
			return other.Message == f.Message && other.From == s.Form && other.Target == f.Source
		}
		switch {
		case ours && reply:
			if f.Class == translate.Lossy && !slices.ContainsFunc(fields, filled) {
				add(guideField{What: "absent", Path: f.Source})
			}
		case ours && f.Refused != "":
			code, status := g.Code(f.Refused), g.Status(400)
			add(guideField{What: "refused", Path: f.Source, Code: code, Status: status, Value: f.Carried})
		case ours && f.Class == translate.Lossy:
			add(guideField{What: "dropped", Path: f.Source})
		case ours && f.Class == translate.Defaulted:
			add(guideField{What: "added", Path: f.Target, Value: f.Detail.String()})
		case reply && f.From == s.Form:
			if f.NoValue != "" {
				add(guideField{What: "no value", Path: f.Target, Value: f.NoValue})
			}
			if len(f.Pairs) > 0 {
				add(guideField{What: "paired", Path: f.Target, Pairs: f.Pairs, Value: f.Otherwise})
			} else if f.Otherwise != "" || slices.Contains(words, f.Source) || slices.Contains(words, f.Target) {
				add(guideField{What: "unpaired", Path: f.Target, Value: f.Otherwise})
			}
		}
	}
	// The document has no link in the second form.
	if billing.Creates(o) && o.MayLack(billing.Link) && s.Form != t.Forms()[0] {
		add(guideField{What: "optional", Path: o.PathOf(translate.Reply, billing.Link, g.Form)})
	}
}

// addCodes adds the codes of a form of the service, as the partner gets them.
func (g *guide) addCodes(s *guideSystem) {
	t, means := g.Table, map[string]translate.Meaning{} // of the codes of the service
	for _, code := range t.Catalogue() {
		means[code], means[t.Code(code, t.Forms()[0], s.Form)] = "", ""
	}
	for _, m := range t.Meanings() {
		if m.Form == "" || m.Form == s.Form {
			means[m.Code], means[t.Code(m.Code, t.Forms()[0], s.Form)] = m.Means, m.Means
		}
	}
	arrive := map[string]bool{}
	for _, code := range slices.Sorted(maps.Keys(means)) {
		got, m := t.Code(code, s.Form, g.Form), means[code]
		if arrive[got] = true; !slices.Contains(g.Codes[string(m)], got) {
			g.Codes[string(m)] = append(g.Codes[string(m)], got)
		}
		if s.Form != g.Form && (got != code || t.Unpaired(s.Form, code)) {
			s.Codes = append(s.Codes, guideCode{code, got, m})
		}
	}
	for _, m := range t.Meanings() {
		if m.Form == g.Form && !arrive[m.Code] {
			s.Codes = append(s.Codes, guideCode{"", m.Code, m.Means})
		}
	}
}

// exampleCreate is a request in the second form of the table. The name and the number are invented.
const exampleCreate = `{"apikey":"YOUR-KEY","member":"YOUR-MEMBER","merchant":"YOUR-STORE","bill":` +
	`{"bill_id":"12345678900000000001","product_nm":"11월 수강료","member_nm":"김하늘","phone":"01000000000",` +
	`"price":"20000","expire_dt":"2099-12-31","hash":"HASH"}}`

// addExample adds a create, and hashes.
func (g *guide) addExample(create *translate.Operation) {
	const bill, phone, price = "12345678900000000001", "01000000000", "20000"
	hash := sandbox.Hash(bill, phone, price)
	g.Hashes = map[string]string{
		bill + "," + phone + "," + price: hash, bill + "," + price: sandbox.Hash(bill, "", price),
	}
	t := create.Translation(g.Table.Forms()[1], g.Form)
	if t == nil {
		return
	}
	call := t.Start()
	defer call.Release()
	var lines bytes.Buffer
	if out, err := call.Request(nil, []byte(strings.Replace(exampleCreate, "HASH", hash, 1))); err == nil {
		_ = json.Indent(&lines, out, "", "  ") // without an error, since it is JSON
	}
	g.ExampleCreate = lines.String()
}

// A guideFailure is an answer of the gateway itself. The page has a text for each case.
type guideFailure struct {
	Case   string
	Status int
	Own    translate.OwnFailure
	Code   string // in the partner's form
}

var guideFailures = []guideFailure{
	{"path", 404, translate.OwnFailed, ""},
	{"method", 405, translate.OwnFailed, ""},
	{"type", 415, translate.OwnInvalid, ""},
	{"large", 413, translate.OwnInvalid, ""},
	{"invalid", 400, translate.OwnInvalid, ""},
	{"not sent", 503, translate.OwnUnavailable, ""},
	{"read not sent", 503, translate.OwnUnavailable, ""},
	{"read lost", 502, translate.OwnFailed, ""},
	{"read late", 504, translate.OwnFailed, ""},
}

// Answers returns how the gateway itself fails calls. A read without an answer always has its own status.
func (g *guide) Answers() []guideFailure {
	list := slices.Clone(guideFailures)
	for i, f := range list {
		list[i].Code = g.Code(g.Table.OwnCode(f.Own))
		if !strings.HasPrefix(f.Case, "read") {
			list[i].Status = g.Status(f.Status)
		}
	}
	return list
}

// Code returns a code of the catalogue in the partner's form.
func (g *guide) Code(code string) string { return g.Table.Code(code, g.Table.Forms()[0], g.Form) }

// Status returns the HTTP status of a refusal of the gateway.
func (g *guide) Status(own int) int {
	if g.Failures.Status == config.Always200 {
		return 200
	}
	return own
}

// Attempts returns how long the attempts to deliver a callback last.
func (g *guide) Attempts() (all time.Duration) {
	for _, gap := range g.Callbacks.Schedule {
		all += time.Duration(gap)
	}
	return all
}

// printGuide prints the guide.
func (c *assetsCommand) printGuide(s system) error {
	loaded, err := loadOrBuiltIn(c.Config, s)
	if err != nil {
		return err
	}
	if err := c.checkForm(loaded.Table); err != nil {
		return err
	}
	if c.Config == "" {
		callbacks := config.DefaultCallbacks()
		loaded.Callbacks = &callbacks
	}
	partner := cmp.Or(loaded.Partners.Named(c.Partner), loaded.Partners.Find(c.Partner))
	if partner == nil && c.Partner != "" { // which may be a key
		return errors.New("--partner is neither the name nor the hash of a partner in the config")
	}
	if loaded.TableFiles.File != "" {
		printf(s.err, "warning: the texts of the page are about bills, their states and hashes: "+
			"edit it for the interface of your table\n")
	}
	if loaded.PublicURL.URL == nil {
		printf(s.err, "warning: the page does not say where partners call: set public_url\n")
	}
	return s.write(newGuide(loaded, c.Form, partner).page(cmp.Or(c.Language, "en")))
}
