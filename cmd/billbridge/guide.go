package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy"
	"billbridge/proxy/sandbox"
	"billbridge/translate"
	"billbridge/translate/billing"
)

// A guide has what the page for a partner's developer says about the gateway. It comes from the config and its table.
// It has no address of a backend, and no other partner.
type guide struct {
	Partner  string // its name; "" for all partners
	Form     translate.Form
	Address  string // where the partner calls, with the base path; "" if the config does not have it
	Calls    []guideCall
	Systems  []guideSystem // of the billing service: one, or those between which the partner's bills move
	Exists   []string      // codes that say that the bill id is used
	NotFound []string      // codes that say that there is no such bill

	Failures      []guideFailure
	Success       string // the code of a success
	StateField    string // of a read
	Unknown       string // the body that reports an unknown outcome, without its text
	ExampleCreate string // a request; "" if the table cannot make one
	Hashes        []guideHash

	Callbacks *guideCallbacks // nil if the service calls the partner directly

	Limits    config.Limits
	Timeouts  config.Timeouts
	Explained time.Duration // how long the gateway reads a bill after an unknown outcome; 0 if it does not
	Service   time.Duration // how long the service can take for a call
	Answer    time.Duration // how long the gateway can take

	table     *translate.Table
	always200 bool
}

// A guideCall is a path that the partner calls, below the address.
type guideCall struct {
	Operation, Path string
	Writes          bool
	Served          bool // an upstream has the operation
}

// A guideSystem is a form of the service behind the gateway, and what a translation to it changes for the partner.
type guideSystem struct {
	Form     translate.Form
	Old, New bool // with a rollout: which of the two systems have this form
	Same     bool // it is the partner's form: the bytes pass unchanged
	Unknown  string

	Refused, Dropped []guideField // of requests
	Added            []guideField // to requests, in the form of the service
	Absent           []guideField // from replies
	Paired           []guideField // of replies, with values that differ
	NoValue          []guideField // of replies, with what they have while nothing was paid
	Unpaired         []string     // fields of replies with a code that has no pairs
	Codes            []guideCode
	Gone             []guideCode // codes of the partner's form that do not occur
	Link             string      // the field of a create's reply that can be missing
}

// A guideField is a field of a call.
type guideField struct {
	Call, Path  string
	Code, Value string // of the refusal; the only value that is carried, or the value that is added
	Status      int    // of the refusal
	Pairs       [][2]string
}

// A guideCode is a code of the service that the partner's form writes in another way, or does not know.
type guideCode struct {
	Service, Partner string
	Means            translate.Meaning
}

// A guideFailure is an answer of the gateway itself. The page has a text for each case.
type guideFailure struct {
	Case   string
	Status int
	Code   string
}

// A guideHash is an example of a hash.
type guideHash struct{ Text, Hash string }

// guideCallbacks is how the partner gets callbacks.
type guideCallbacks struct {
	config.Callbacks
	Method string
	Answer string        // that ends the delivery
	Any    bool          // every 2xx ends it
	Lasts  time.Duration // from the first attempt to the last one
}

// newGuide returns the guide for a partner, or for all if it is nil.
func newGuide(c *config.Config, form translate.Form, partner *config.Partner) *guide {
	t := c.Table
	g := &guide{
		Form: form, Limits: c.Limits, Timeouts: c.Timeouts, Answer: c.LongestCall(), Success: t.SuccessCode(form),
		Unknown: string(t.AppendFailure(nil, form, "", "…")),
		table:   t, always200: c.Failures.Status == config.Always200,
	}
	g.Failures = []guideFailure{
		{"path", g.Status(http.StatusNotFound), g.Code("ERROR")},
		{"method", g.Status(http.StatusMethodNotAllowed), g.Code("ERROR")},
		{"type", g.Status(http.StatusUnsupportedMediaType), g.Code("VALIDATION_001")},
		{"large", g.Status(http.StatusRequestEntityTooLarge), g.Code("VALIDATION_001")},
		{"invalid", g.Status(http.StatusBadRequest), g.Code("VALIDATION_001")},
		{"not sent", g.Status(http.StatusServiceUnavailable), g.Code("MAINTAINED_METHOD")},
		{"read not sent", http.StatusServiceUnavailable, g.Code("MAINTAINED_METHOD")},
		{"read lost", http.StatusBadGateway, g.Code("ERROR")},
		{"read late", http.StatusGatewayTimeout, g.Code("ERROR")},
	}
	if partner != nil {
		g.Partner = partner.Name
	}
	if c.PublicURL.URL != nil {
		g.Address = c.PublicURL.String() + c.BasePath
	}
	if read, err := billing.ReadOperation(t); err == nil {
		g.StateField = read.PathOf(translate.Reply, billing.State, form)
		if c.Failures.Explain > 0 {
			g.Explained = time.Duration(c.Failures.Explain)
		}
	}
	for _, r := range proxy.Routes(c) {
		o := t.Operation(r.Operation) // nil for a path of route.pass
		if r.Client != form && (o == nil || o.Path(form) != "") {
			continue
		}
		backends := targets(r)
		g.Calls = append(g.Calls, guideCall{
			r.Operation, strings.TrimPrefix(r.Path, c.BasePath), o == nil || o.Effect == translate.Write, len(backends) > 0,
		})
		if o != nil && o.Path(form) != "" && billing.Creates(o) {
			g.addSystems(c, backends)
		}
	}
	g.addExamples(t)
	g.addCallbacks(c, partner)
	return g
}

// addSystems adds the forms of the backends that have the partner's bills.
func (g *guide) addSystems(c *config.Config, backends []*config.Upstream) {
	for _, u := range backends {
		g.Service = max(g.Service, time.Duration(u.Timeout))
		i := slices.IndexFunc(g.Systems, func(s guideSystem) bool { return s.Form == u.Form })
		if i < 0 {
			i, g.Systems = len(g.Systems), append(g.Systems, g.system(c, u.Form))
		}
		if len(backends) > 1 {
			g.Systems[i].Old = g.Systems[i].Old || u.Name == c.Rollout.Old
			g.Systems[i].New = g.Systems[i].New || u.Name == c.Rollout.New
		}
	}
}

// system returns what the translation to a form of the service changes.
func (g *guide) system(c *config.Config, form translate.Form) guideSystem {
	t := c.Table
	s := guideSystem{Form: form, Same: form == g.Form, Unknown: t.Unknown(translate.Request, g.Form)}
	g.addCodes(&s, t)
	if s.Same {
		return s
	}
	words := slices.Concat(t.WordsWithoutPairs(form), t.WordsWithoutPairs(g.Form))
	for _, o := range t.Operations() {
		fields := o.Fields()
		for _, f := range fields {
			one := guideField{Call: o.Path(g.Form), Path: f.Source, Code: f.Refused, Value: f.Carried}
			request := f.Message == string(translate.Request)
			ours := f.From == g.Form && f.To == form
			theirs := f.From == form && f.To == g.Form
			switch {
			case request && ours && f.Refused != "":
				one.Code, one.Status = g.Code(f.Refused), g.Status(http.StatusBadRequest)
				if c.Failures.CannotCarry == config.CarryNotFound {
					one.Status = http.StatusNotFound
				}
				s.Refused = append(s.Refused, one)
			case request && ours && f.Class == translate.Lossy:
				s.Dropped = append(s.Dropped, one)
			case request && ours && f.Class == translate.Defaulted:
				one.Path, one.Value = f.Target, f.Detail.String()
				s.Added = append(s.Added, one)
			case !request && ours && f.Class == translate.Lossy:
				filled := func(other translate.Field) bool {
					return other.Message == f.Message && other.From == form && other.Target == f.Source
				}
				if !slices.ContainsFunc(fields, filled) {
					s.Absent = append(s.Absent, one)
				}
			}
			if one.Path, one.Value = f.Target, f.NoValue; request || !theirs {
				continue
			}
			if one.Value != "" {
				s.NoValue = append(s.NoValue, one)
			}
			if one.Pairs = f.Pairs; len(f.Pairs) > 0 {
				s.Paired = append(s.Paired, one)
			} else if slices.Contains(words, f.Source) || slices.Contains(words, f.Target) {
				s.Unpaired = append(s.Unpaired, f.Target)
			}
		}
	}
	create := billing.CreateOperation(t)
	if create.MayLack(billing.Link) && form != t.Forms()[0] { // the document has no link in the other form
		s.Link = create.PathOf(translate.Reply, billing.Link, g.Form)
	}
	return s
}

// addCodes adds the codes of a form of the service, as the partner gets them.
func (g *guide) addCodes(s *guideSystem, t *translate.Table) {
	add := func(list *[]string, code string) {
		if !slices.Contains(*list, code) {
			*list = append(*list, code)
		}
	}
	var all, arrive []string
	means := map[string]translate.Meaning{}
	for _, code := range t.Catalogue() {
		add(&all, code)
		add(&all, t.Code(code, t.Forms()[0], s.Form))
	}
	for _, m := range t.Meanings() {
		if m.Form == "" || m.Form == s.Form {
			add(&all, m.Code)
			means[m.Code] = m.Means
			own := t.Code(m.Code, t.Forms()[0], s.Form)
			means[own] = cmp.Or(means[own], m.Means)
		}
	}
	for _, code := range all {
		got := t.Code(code, s.Form, g.Form)
		arrive = append(arrive, got)
		switch means[code] {
		case translate.Exists:
			add(&g.Exists, got)
		case translate.NotFound:
			add(&g.NotFound, got)
		}
		if !s.Same && (got != code || t.Unpaired(s.Form, code)) {
			s.Codes = append(s.Codes, guideCode{code, got, means[code]})
		}
	}
	for _, m := range t.Meanings() {
		if m.Form == g.Form && !slices.Contains(arrive, m.Code) {
			s.Gone = append(s.Gone, guideCode{Partner: m.Code, Means: m.Means})
		}
	}
}

// exampleCreate is the request of the example, in the second form of the table. The name and the number are invented.
const exampleCreate = `{"apikey":"YOUR-KEY","member":"YOUR-MEMBER","merchant":"YOUR-STORE","bill":` +
	`{"bill_id":"12345678900000000001","product_nm":"11월 수강료","member_nm":"김하늘","phone":"01000000000",` +
	`"price":"20000","expire_dt":"2099-12-31","hash":"` + "HASH" + `"}}`

// addExamples adds test values.
func (g *guide) addExamples(t *translate.Table) {
	const bill, phone, price = "12345678900000000001", "01000000000", "20000"
	hash := sandbox.Hash(bill, phone, price)
	g.Hashes = []guideHash{
		{bill + "," + phone + "," + price, hash}, {bill + "," + price, sandbox.Hash(bill, "", price)},
	}
	legacy := t.Forms()[1]
	create := billing.CreateOperation(t)
	if create == nil || create.Translation(legacy, g.Form) == nil {
		return
	}
	call := create.Translation(legacy, g.Form).Start()
	defer call.Release()
	if out, err := call.Request(nil, []byte(strings.Replace(exampleCreate, "HASH", hash, 1))); err == nil {
		var lines bytes.Buffer
		_ = json.Indent(&lines, out, "", "  ") // without an error, since it is JSON
		g.ExampleCreate = lines.String()
	}
}

// addCallbacks adds how the partner gets callbacks.
func (g *guide) addCallbacks(c *config.Config, partner *config.Partner) {
	if c.Callbacks == nil {
		return
	}
	rows := c.Table.Callback()
	g.Callbacks = &guideCallbacks{Callbacks: *c.Callbacks, Method: rows.Method(), Answer: string(rows.Answer(g.Form))}
	success := c.Callbacks.Success
	if partner != nil {
		success = cmp.Or(partner.Callbacks.Success, success)
	}
	g.Callbacks.Any = success == config.Any2xx
	for _, gap := range c.Callbacks.Schedule {
		g.Callbacks.Lasts += time.Duration(gap)
	}
}

// Code returns a code of the catalogue in the partner's form.
func (g *guide) Code(code string) string { return g.table.Code(code, g.table.Forms()[0], g.Form) }

// Status returns the HTTP status of a refusal by the gateway. Calls that may have had an effect, and reads without an
// answer, always have their own.
func (g *guide) Status(own int) int {
	if g.always200 {
		return http.StatusOK
	}
	return own
}

// OwnCodes reports whether a system may use codes that the catalogue does not have.
func (g *guide) OwnCodes() bool {
	return slices.ContainsFunc(g.Systems, func(s guideSystem) bool { return s.Form != g.table.Forms()[0] })
}

// Differs reports whether a translation changes something for the partner.
func (g *guide) Differs() bool {
	return slices.ContainsFunc(g.Systems, func(s guideSystem) bool { return !s.Same })
}

// Moves reports whether the partner's bills move from one system to another.
func (g *guide) Moves() bool { return len(g.Systems) > 0 && (g.Systems[0].Old || g.Systems[0].New) }

// guideCommand is billbridge assets partner-guide.
type guideCommand struct {
	Form     translate.Form `required:"" placeholder:"legacy|v2" enum:"legacy,v2" help:"The form that the partner uses: legacy or v2."`
	Language string         `default:"en" enum:"en,ko" help:"The language of the page: en or ko."`
	Format   string         `default:"markdown" enum:"markdown,html" help:"The format: markdown, or html for one file that a browser shows and prints."`
	Partner  string         `placeholder:"NAME" help:"The partner, by its name or hash in the config. If omitted, the page is for every partner of this form."`
	Config   string         `placeholder:"FILE" help:"YAML config of the gateway. If omitted, the page has the defaults, for one backend in v2."`
}

// Run prints the guide.
func (c *guideCommand) Run(s system) error {
	loaded, err := loadOrBuiltIn(c.Config, s)
	if err != nil {
		return err
	}
	if c.Config == "" {
		callbacks := config.DefaultCallbacks()
		loaded.Callbacks = &callbacks
	}
	var partner *config.Partner
	if c.Partner != "" {
		named := func(p config.Partner) bool { return strings.EqualFold(p.Name, c.Partner) }
		if i := slices.IndexFunc(loaded.Partners, named); i >= 0 {
			partner = &loaded.Partners[i]
		} else if partner = loaded.Partners.Find(c.Partner); partner == nil {
			return errors.New("--partner is neither the name nor the hash of a partner in the config") // it may be a key
		}
	}
	g := newGuide(loaded, c.Form, partner)
	if g.Address == "" {
		printf(s.err, "warning: the page does not say where partners call: set public_url\n")
	}
	if g.Callbacks != nil && len(g.Callbacks.Sources) == 0 {
		printf(s.err, "warning: the page does not say from which addresses callbacks come: set callbacks.sources\n")
	}
	page, err := g.page(c.Language, c.Format)
	if err != nil {
		return err
	}
	_, err = s.documents.Write(page)
	return err
}
