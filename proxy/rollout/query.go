package rollout

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// params are the values of a query.
type params map[string]string

// parseQuery reads a query. Unknown keys, repeated keys and empty values are errors: an empty value can come from an unset variable, and
// would change something else.
func parseQuery(query string, keys ...string) (params, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, badRequest("the query cannot be read: %s", err)
	}
	a := params{}
	for key, values := range q {
		switch {
		case !slices.Contains(keys, key):
			return nil, badRequest("there is no key %q: the keys are %s", key, cmp.Or(strings.Join(keys, ", "), "none"))
		case len(values) != 1:
			return nil, badRequest("%s is given more than once", key)
		case values[0] == "":
			return nil, badRequest("%s must not be empty", key)
		case !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0): // the store has no such text; not repeated, since it may hold a key
			return nil, badRequest("%s must be UTF-8 without a zero byte", key)
		}
		a[key] = values[0]
	}
	return a, nil
}

func (a params) by() (string, error) {
	by := a["by"]
	strange := strings.ContainsFunc(by, func(c rune) bool { return !unicode.IsPrint(c) })
	if by == "" || strange || utf8.RuneCountInString(by) > 100 {
		return "", badRequest("by must be your name, for the audit log: 1 to 100 printable characters")
	}
	return by, nil
}

func (a params) position() (p position, err error) {
	if p.stage, err = parseStage(a["stage"]); err != nil {
		return p, badRequest("%s", err)
	}
	percent, given := a["percent"]
	switch {
	case given != (p.stage == StageCanary):
		return p, badRequest("percent is required with stage canary, and not allowed with other stages")
	case !given:
		return p, nil
	}
	if p.percent, err = strconv.Atoi(percent); err != nil || p.percent < 0 || p.percent > 100 {
		return p, badRequest("percent must be 0 to 100, but is %q", percent)
	}
	return p, nil
}

// force names reasons, separated by commas. true names none, false is no force.
func (a params) force() (f force, err error) {
	switch value, given := a["force"]; {
	case !given, value == "false":
		return f, nil
	case value == "true":
		return force{bare: true}, nil
	default:
		for name := range strings.SplitSeq(value, ",") {
			kind := ReasonKind(strings.TrimSpace(name))
			if !slices.Contains(ReasonKinds, kind) {
				return f, badRequest("force must name reasons: some of %s, separated by commas, but has %q", AllReasons(), name)
			}
			f.names = append(f.names, kind)
		}
		return f, nil
	}
}

// flag is a value that is true or false, and false if it is not given.
func (a params) flag(key string) (bool, error) {
	switch value, given := a[key]; {
	case !given, value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, badRequest("%s must be true or false, but is %q", key, value)
	}
}

// limit is the most entries of an answer, 100 if it is not given.
func (a params) limit(most int) (int, error) {
	text, given := a["limit"]
	if !given {
		return 100, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, badRequest("limit must be 1 to %d, but is %q", most, text)
	}
	return limit, nil
}

// short is a duration without the zeros at its end.
func short(d time.Duration) string {
	if d > time.Second {
		d = d.Truncate(time.Second)
	}
	text := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if cut, ok := strings.CutSuffix(text, zero); ok && strings.ContainsAny(cut[max(0, len(cut)-1):], "hm") {
			text = cut
		}
	}
	return text
}
