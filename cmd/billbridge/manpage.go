package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// manPage returns the manual page. It has no date, so that each build of a version has the same page.
func manPage() ([]byte, error) {
	m := model()
	var out []byte
	summary, rest, _ := strings.Cut(m.Help, "\n\n")
	name, about, _ := strings.Cut(summary, " is a ")
	out = fmt.Appendf(out, `.TH %s 1 "" "%s %s" "User Commands"
.SH NAME
%s \- %s
.SH SYNOPSIS
.B %s
.I command
[\fIflags\fR]
.SH DESCRIPTION
%s
.PP
.nf
%s
.fi
.SH COMMANDS
`, strings.ToUpper(m.Name), m.Name, version, roff(name), roff(strings.TrimSuffix(about, ".")), m.Name, roff(summary), roff(rest))
	eachCommand(m.Node, m.Name, func(n *kong.Node, words string) {
		if !n.Leaf() {
			return
		}
		out = fmt.Appendf(out, ".SS %s\n%s\n", roff(words), roff(n.Help))
		for _, p := range n.Positional {
			out = fmt.Appendf(out, ".TP\n.I %s\n%s\n", roff(p.Summary()), roff(p.Help))
		}
		for _, f := range flagsOf(n) {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			out = fmt.Appendf(out, ".TP\n.B %s\n%s\n", roff(f.Summary()), roff(f.Help))
			if envs := f.Tag.Envs; len(envs) > 0 {
				out = fmt.Appendf(out, "Environment: %s.\n", roff(strings.Join(envs, ", ")))
			}
		}
		if n.Detail != "" {
			out = fmt.Appendf(out, ".PP\n.nf\n%s\n.fi\n", roff(n.Detail))
		}
	})
	out = fmt.Appendf(out, `.SH EXIT STATUS
.TP
.B %d
Success.
.TP
.B %d
Refused or failed.
.TP
.B %d
Wrong usage.
`, exitOK, exitError, exitUsage)
	return out, nil
}

// roff escapes a text for a manual page.
func roff(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			out.WriteString(`\e`)
		case r == '-':
			out.WriteString(`\-`)
		case r == '\'':
			out.WriteString(`\(aq`)
		case r == '`':
			out.WriteString(`\(ga`)
		case r == '^':
			out.WriteString(`\(ha`)
		case r == '~':
			out.WriteString(`\(ti`)
		case r > '~':
			out.WriteString(fmt.Sprintf(`\[u%04X]`, r))
		default:
			out.WriteRune(r)
		}
	}
	lines := strings.Split(out.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
