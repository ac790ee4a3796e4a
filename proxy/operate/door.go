package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"billbridge/proxy/moves"

	"github.com/gorilla/mux"
)

// Handler serves the verbs on the admin listener:
//
//	GET  /rollout?partner=&verdict=&after=&limit=                [Operator.Status]
//	GET  /rollout/partners?partner=&stage=&state=&after=&limit=   [Operator.Partners]
//	GET  /rollout/report?partner=&verdict=                       [Operator.Report]
//	POST /rollout/stage?partner=&stage=&percent=&by=&force=REASONS&preview=true   [Operator.Move]
//	POST /rollout/next?…                                         the same
//	POST /rollout/stop?by=&force=REASONS&preview=true            [Operator.Stop]
//	POST /rollout/resume?by=&preview=true                        [Operator.Resume]
//	POST /rollout/restored?by=                                   [Operator.Restored]
//	POST /rollout/begin?by=&force=REASONS                        [Operator.Begin]
//	POST /rollout/moved?upstream=&by=                            [Operator.Moved]
//	POST /rollout/reset?partner=&by=&force=REASONS               [Operator.Reset]
//	POST /rollout/read?partner=&bill=&member=&merchant=          [Operator.Read]; or with {"key": …}
//	GET  /rollout/reads?partner=                                 [Operator.Reads]
//	POST /rollout/read-all?partner=                              [Operator.ReadAll]
//	POST /rollout/dismiss?partner=&bill=&merchant=&by=           [Operator.Dismiss]
//	POST /rollout/compare?partner=&ids=                          [Operator.CompareBills]
//	POST /rollout/assign?partner=&bill=&to=&by=&force=REASONS    [Operator.Assign]; or with {"key": …}
//	GET  /rollout/bills?partner=&bill=&owner=&open=true&outcome=&doubled=true&limit=   [Operator.Bills]
//	GET  /rollout/waves?active=true                              [Operator.Waves]
//	POST /rollout/waves?name=&partners=&steps=&stay=&each=&by=&preview=true   [Operator.CreateWave]
//	GET  /rollout/waves/NAME?after=&limit=                       [Operator.Wave]
//	POST /rollout/waves/NAME/pause?by=                           [Operator.ChangeWave]; or resume, stop, rollback
//	POST /rollout/waves/NAME/release?partner=&by=                [Operator.ReleasePartner]
//	GET  /callbacks?partner=&bill=&upstream=&state=&since=&until=&limit=&after=   [Operator.Callbacks]
//	GET  /callbacks/counts?at_most=                              [Operator.Counts]
//	GET  /callbacks/missing?partner=&limit=                      [Operator.Missing]
//	GET  /callbacks/{id}                                         [Operator.Callback]
//	POST /callbacks/replay?by=&dry_run=true&…                    [Operator.DecideCallbacks]; lines of Progress
//	POST /callbacks/drop?by=&dry_run=true&…                      [Operator.DecideCallbacks]
//	POST /callbacks/assign?partner=&lost=&like=&url=&form=&upstream=&by=   [Operator.AssignAddress]
//	POST /callbacks/{id}/replay?by=&dry_run=true&force=newer     [Operator.DecideCallback]
//	POST /callbacks/{id}/drop?by=&dry_run=true                   [Operator.DecideCallback]
//	GET  /audit?partner=&author=&since=&oldest_first=true&after=&limit=   [Operator.Audit]
//	GET  /store/clock                                            [Operator.Clock]
//	POST /store/clock?by=                                        [Operator.ConfirmClock]
//	POST /store/keys?partner=&hash=&by=&preview=true             [Operator.AddKey]
//	POST /store/backup?by=&file=                                 [Operator.BackedUp]
//
// by is who decides, and with each change there can be a reason=TEXT, for the audit log. force names the kinds of the
// reasons that the change overrides, separated by commas. A change is in effect on this replica when the answer is
// sent, and on others within seconds. Times are RFC 3339. Errors are text, or with Accept: application/json an [Error].
//
// The values of a verb are in the query, or as texts of a JSON object in the body; a partner's key is in the body
// alone. Unknown keys, repeated keys and empty values are errors: an empty value can come from an unset variable, and
// would change something else. No error repeats a text that may be a key of a partner.
func (o *Operator) Handler() http.Handler {
	m := mux.NewRouter()
	handle(door{m, storeTimeout}, "GET /audit", o.Audit)
	// Without its section of the config, the first route of a name answers all that is below it.
	section := func(name, needs string, there bool, within time.Duration) door {
		if !there {
			m.PathPrefix("/" + name).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fail(w, r, notFound("it has no %s: its config has no %s section", name, needs))
			})
		}
		return door{m, within}
	}
	d := section("rollout", "rollout", o.Rollout != nil, storeTimeout)
	handle(d, "GET /rollout", o.Status)
	handle(d, "GET /rollout/partners", o.Partners)
	handle(d, "GET /rollout/report", o.Report)
	handle(d, "POST /rollout/{do:stage|next}", o.Move)
	handle(d, "POST /rollout/stop", o.Stop)
	handle(d, "POST /rollout/resume", o.Resume)
	handle(d, "POST /rollout/restored", o.Restored)
	handle(d, "POST /rollout/begin", o.Begin)
	handle(d, "POST /rollout/moved", o.Moved)
	handle(d, "POST /rollout/reset", o.Reset)
	handle(d, "POST /rollout/read", o.Read)
	handle(d, "GET /rollout/reads", o.Reads)
	handle(d, "POST /rollout/read-all", o.ReadAll)
	handle(d, "POST /rollout/dismiss", o.Dismiss)
	handle(d, "POST /rollout/compare", o.CompareBills)
	handle(d, "POST /rollout/assign", o.Assign)
	handle(d, "GET /rollout/bills", o.Bills)
	handle(d, "GET /rollout/waves", o.Waves)
	handle(d, "POST /rollout/waves", o.CreateWave)
	handle(d, "GET /rollout/waves/{name}", o.Wave)
	handle(d, "POST /rollout/waves/{name}/{do:pause|resume|stop|rollback}", o.ChangeWave)
	handle(d, "POST /rollout/waves/{name}/release", o.ReleasePartner)
	d = section("callbacks", "store", o.Relay != nil, 0)
	handle(d, "GET /callbacks", o.Callbacks)
	handle(d, "GET /callbacks/counts", o.Counts)
	handle(d, "GET /callbacks/missing", o.Missing)
	stream(d, "/callbacks/{do:replay|drop}", o.DecideCallbacks)
	handle(d, "GET /callbacks/{id}", o.Callback)
	handle(d, "POST /callbacks/assign", o.AssignAddress)
	handle(d, "POST /callbacks/{id}/{do:replay|drop}", o.DecideCallback)
	d = section("store", "store", o.Store != nil, time.Minute)
	handle(d, "GET /store/clock", o.Clock)
	handle(d, "POST /store/clock", o.ConfirmClock)
	handle(d, "POST /store/keys", o.AddKey)
	handle(d, "POST /store/backup", o.BackedUp)
	return m
}

// A door is where verbs are served.
type door struct {
	*mux.Router
	within time.Duration // how long a verb may take; 0 for no limit
}

const exampleTime = "2026-11-21T09:00:00+09:00"

// keyOfPartner is the key of values that only a body may have: URLs are logged. The partners of a wave, which may be
// many, are sent in a body, too.
const (
	keyOfPartner = "key"
	manyPartners = "partners"
	manyBills    = "ids"
)

// decode fills a value from a request: from its path, its query, and the JSON object of its body.
func decode(r *http.Request, in any) error {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("the query cannot be read: %s", err)
	}
	if given.Has(keyOfPartner) {
		return badRequest("the partner's key must be in the body")
	}
	var body map[string]string
	err = json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&body)
	if err != nil && !errors.Is(err, io.EOF) {
		return badRequest("the body must be empty, or a JSON object of texts")
	}
	for name, text := range body {
		given.Add(name, text)
	}
	for name, text := range mux.Vars(r) {
		given.Add(name, text)
	}
	return Decode(given, in)
}

// Decode fills a value from texts by the keys of its JSON.
func Decode(given url.Values, in any) error {
	literal := map[string]bool{} // by key: whether its value is a number or a flag, and not a text
	for _, field := range reflect.VisibleFields(reflect.TypeOf(in).Elem()) {
		if name, options, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			literal[name] = strings.HasSuffix(options, "string")
		}
	}
	for name, texts := range given {
		isLiteral, known := literal[name]
		text := texts[0]
		switch {
		case !known:
			keys := strings.Join(slices.Sorted(maps.Keys(literal)), ", ")
			return badRequest("there is no key %q: the keys are %s", name, cmp.Or(keys, "none"))
		case len(texts) != 1:
			return badRequest("%s is given more than once", name)
		case text == "":
			return badRequest("%s must not be empty", name)
		case !utf8.ValidString(text) || strings.ContainsRune(text, 0): // the store has no such text
			return badRequest("%s must be UTF-8 without a zero byte", name)
		}
		one, err := json.Marshal(map[string]string{name: text})
		if err == nil {
			err = json.Unmarshal(one, in)
		}
		if wrong, ok := errors.AsType[moves.Mistake](err); ok {
			return badRequest("%s: %s", name, wrong)
		}
		if err != nil || isLiteral && text == "null" { // which JSON takes for every type
			return badRequest(
				"%s cannot be %q: numbers are whole, flags are true or false, times are like %s",
				name, text, exampleTime,
			)
		}
	}
	return nil
}

// Encode returns the query and the body by which [Operator.Handler] gets a value that has the fields of all of these.
func Encode(in ...any) (q url.Values, body []byte) {
	q = url.Values{}
	all := map[string]string{}
	for _, one := range in {
		text, err := json.Marshal(one)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			panic(err) // a value that the handler cannot take either
		}
	}
	for name, text := range all {
		if name == keyOfPartner || name == manyPartners || name == manyBills {
			body, _ = json.Marshal(map[string]string{name: text}) // a text
			continue
		}
		q.Set(name, text)
	}
	return q, body
}

// serve serves requests of a method, with the value that is in them. It answers an error.
func serve[In any](d door, method, path string, answer func(http.ResponseWriter, *http.Request, In) error) {
	d.Path(path).Methods(method).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.within > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), d.within)
			defer cancel()
			r = r.WithContext(ctx)
		}
		var in In
		err := decode(r, &in)
		if err == nil {
			err = answer(w, r, in)
		}
		if err != nil {
			fail(w, r, err)
		}
	})
}

// handle serves a verb.
func handle[In, Out any](d door, route string, verb func(context.Context, In) (Out, error)) {
	method, path, _ := strings.Cut(route, " ")
	serve(d, method, path, func(w http.ResponseWriter, r *http.Request, in In) error {
		out, err := verb(r.Context(), in)
		if err == nil {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_ = json.NewEncoder(w).Encode(out) // an error means that the operator has disconnected
		}
		return err
	})
}

// stream serves a verb whose answer has a line of JSON for each step.
func stream[In, Step any](d door, path string, verb func(context.Context, In, func(Step)) error) {
	serve(d, http.MethodPost, path, func(w http.ResponseWriter, r *http.Request, in In) error {
		lines, flush := json.NewEncoder(w), http.NewResponseController(w)
		return verb(r.Context(), in, func(step Step) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_ = lines.Encode(step) // if the operator has gone, the context of the request ends the work
			_ = flush.Flush()
		})
	})
}

// fail answers with an error: as JSON if the request accepts nothing else, with the reasons, and as text otherwise.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	refused, status := (*Error)(nil), http.StatusInternalServerError
	if errors.As(err, &refused) {
		status = int(refused.Refusal)
	}
	if refused == nil || r.Header.Get("Accept") != "application/json" {
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(refused)
}
