package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"billbridge/translate"
)

// searchOf returns a command that finds the calls of a filter in the log. A line of the log has a bill only if the
// outcome is unknown.
func (c *Console) searchOf(f *callFilter) string {
	config := c.Config()
	all := []string{`.msg == "request"`}
	add := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	for _, key := range []string{"operation", "client", "upstream", "route", "code", "bill"} {
		if value := f.Get(key); value != "" {
			add(".%s == %s", key, quoted(value))
		}
	}
	if id := f.Get("id"); id != "" {
		add("(.id == %[1]s or .trace_id == %[1]s)", quoted(id))
	}
	if form := f.Get("form"); form != "" {
		names := []string{}
		for _, u := range config.Upstreams {
			if string(u.Form) == form {
				names = append(names, u.Name)
			}
		}
		add("(.upstream | IN(%s[]))", quoted(names))
	}
	if f.partners != nil {
		add(`any(%s[] as $p | .partner // "" | startswith($p); .)`, quoted(f.partners))
	}
	if f.slower > 0 {
		add(".ms >= %s", milliseconds(f.slower))
	}
	const toSecond = "2006-01-02T15:04:05" // the log has the time zone of this process
	if !f.From.IsZero() {
		add(".time[:19] >= %s", quoted(f.From.In(time.Local).Format(toSecond)))
	}
	if !f.To.IsZero() {
		add(".time[:19] <= %s", quoted(f.To.In(time.Local).Format(toSecond)))
	}
	if o := f.Get("outcome"); o != "" {
		forms := config.Table.Forms()
		codes := []string{"none", config.Table.SuccessCode(forms[0]), config.Table.SuccessCode(forms[1])}
		notServed := config.Table.OwnCode(translate.OwnUnavailable)
		add("(%s) == %s", fmt.Sprintf(outcomeInLog, notServed, quoted(codes)), quoted(o))
	}
	return "journalctl -u billbridge -o cat | jq -cR 'fromjson? | select(" + strings.Join(all, " and ") + ")'"
}

// outcomeInLog is outcomeOf for a line of the log. A line has upstream_ms if the upstream was called.
const outcomeInLog = `if .outcome then .outcome
elif .upstream_ms and (.reason or .caller_gone) or .code == "%s"
  or .status == 500 and (.upstream_ms | not) then "failed"
elif .upstream_ms | not then "blocked"
elif .status < 400 and (.code | IN(%s[])) then "ok"
else "refused" end`

// quoted returns a value for a jq program between the single quotes of a shell.
func quoted(value any) string {
	text, _ := json.Marshal(value) // texts only
	return strings.ReplaceAll(string(text), "'", `\u0027`)
}
