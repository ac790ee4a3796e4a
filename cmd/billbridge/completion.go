package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// model returns the commands and flags of this program, for the completion.
func model() *kong.Application { return kong.Must(&commands{}, parserOptions...).Model }

// eachCommand calls f for n and each command below it, with the words that select the command.
func eachCommand(n *kong.Node, words string, f func(n *kong.Node, words string)) {
	f(n, words)
	for _, child := range n.Children {
		eachCommand(child, words+" "+child.Name, f)
	}
}

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

// completeCommand is what the completion of a shell asks: see assets/completion.bash.
type completeCommand struct {
	Words []string `arg:"" optional:"" help:"The words before the one that is completed."`
}

// Run prints the words that can follow, one per line. FILE stands for the name of a file.
func (c *completeCommand) Run(s system) error {
	n, last, words := model().Node, "", []string{}
	for _, last = range c.Words {
		if i := slices.IndexFunc(n.Children, func(child *kong.Node) bool { return child.Name == last }); i >= 0 {
			n = n.Children[i]
		}
	}
	for _, f := range flagsOf(n) {
		if "--"+f.Name == last && !f.IsBool() {
			return show(s.out, "words", valuesOf(f.Value))
		}
		words = append(words, "--"+f.Name)
	}
	for ; n != nil; n = n.DefaultCmd {
		for _, child := range n.Children {
			if !child.Hidden {
				words = append(words, child.Name)
			}
		}
		for _, p := range n.Positional {
			words = append(words, valuesOf(p)...)
		}
		if c, ok := n.Target.Addr().Interface().(interface{ arguments() []string }); ok {
			words = append(words, c.arguments()...)
		}
	}
	return show(s.out, "words", words)
}

// valuesOf returns the values of a flag or an argument, if there are only some, or FILE.
func valuesOf(v *kong.Value) []string {
	if v.Tag.PlaceHolder == "FILE" {
		return []string{"FILE"}
	}
	return v.EnumSlice()
}

// quoteShell quotes a word for a shell.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
