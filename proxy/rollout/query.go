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

// answers are the values of a query.
type answers map[string]string

// asked reads a query. Unknown keys, repeated keys and empty values are errors: an empty value comes from an unset variable, and
// the change would not be the one that was meant.
func asked(query string, keys ...string) (answers, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, misunderstood("the query cannot be read: %s", err)
	}
	a := answers{}
	for key, values := range q {
		switch {
		case !slices.Contains(keys, key):
			return nil, misunderstood("there is no key %q: %s", key, cmp.Or(strings.Join(keys, ", "), "none at all")+" can be given")
		case len(values) != 1:
			return nil, misunderstood("%s is given more than once", key)
		case values[0] == "":
			return nil, misunderstood("%s must not be empty", key)
		}
		a[key] = values[0]
	}
	return a, nil
}

func (a answers) by() (string, error) {
	by := a["by"]
	strange := strings.ContainsFunc(by, func(c rune) bool { return !unicode.IsPrint(c) })
	if by == "" || !utf8.ValidString(by) || strange || utf8.RuneCountInString(by) > 100 {
		return "", misunderstood("say who you are with by: a name of up to 100 letters that print, for the audit log")
	}
	return by, nil
}

func (a answers) position() (p position, err error) {
	if p.stage, err = parseStage(a["stage"]); err != nil {
		return p, misunderstood("%s", err)
	}
	percent, given := a["percent"]
	switch {
	case given != (p.stage == StageCanary):
		return p, misunderstood("percent is wanted with canary, and only with it")
	case !given:
		return p, nil
	}
	if p.percent, err = strconv.Atoi(percent); err != nil || p.percent < 0 || p.percent > 100 {
		return p, misunderstood("percent is from 0 to 100, not %q", percent)
	}
	return p, nil
}

func (a answers) force() (bool, error) { return a.flag("force") }

// flag is a value that is true or false, and false if it is not given.
func (a answers) flag(key string) (bool, error) {
	switch value, given := a[key]; {
	case !given, value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, misunderstood("%s is true or false, not %q", key, value)
	}
}

// limit is the most entries of an answer, 100 if it is not given.
func (a answers) limit(most int) (int, error) {
	text, given := a["limit"]
	if !given {
		return 100, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, misunderstood("limit is from 1 to %d, not %q", most, text)
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
