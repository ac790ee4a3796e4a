package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// model returns the commands and flags of this program.
func model() *kong.Application { return kong.Must(&commands{}, parserOptions...).Model }

// flagsOf returns the flags of a command, or of its default command, and of its parents.
func flagsOf(n *kong.Node) (flags []*kong.Flag) {
	if n.DefaultCmd != nil {
		n = n.DefaultCmd
	}
	for _, group := range n.AllFlags(true) {
		flags = append(flags, group...)
	}
	return flags
}

// A flag that may be left out has the choice "", which no message lists: nobody gives it.
func TestNoMessageListsAnEmptyChoice(t *testing.T) {
	t.Parallel()
	m := model()
	optional := 0
	eachCommand(m.Node, m.Name, func(n *kong.Node, words string) {
		for _, f := range flagsOf(n) {
			if f.Enum == "" || !slices.Contains(f.EnumSlice(), "") {
				continue
			}
			optional++
			_, _, errs := runCommand(t, false, append(strings.Fields(words)[1:], "--"+f.Name, "no-such-choice")...)
			if strings.Contains(errs, `""`) || !strings.Contains(errs, "--"+f.Name+` must be one of "`) {
				t.Errorf("%s --%s: %s", words, f.Name, errs)
			}
		}
	})
	if optional < 5 {
		t.Errorf("only %d flags have such a choice", optional)
	}
}

// People find the command that they need among few: each one more is one more to know. Each has help, and so has each flag.
func TestCommandsAreFew(t *testing.T) {
	t.Parallel()
	var all []string
	eachCommand(model().Node, "", func(n *kong.Node, words string) {
		if n.Help == "" || slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Help == "" }) ||
			slices.ContainsFunc(n.Positional, func(p *kong.Positional) bool { return p.Help == "" }) {
			t.Errorf("%s, or a flag or an argument of it, has no help", words)
		}
		if len(n.Children) == 0 && !n.Hidden {
			all = append(all, strings.TrimSpace(words))
		}
	})
	if len(all) < 30 || len(all) > 42 {
		t.Errorf("%d commands: %q", len(all), all)
	}
}
