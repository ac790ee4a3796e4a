package main

import (
	"fmt"
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

// choice returns the allowed values of a flag or an argument. It is empty if any value is allowed.
func choice(v *kong.Value) []string {
	return slices.DeleteFunc(v.EnumSlice(), func(value string) bool { return value == "" })
}

// argumentsOf returns the words that can follow a command, and whether a file name can follow it.
func argumentsOf(n *kong.Node) (words []string, file bool) {
	if n.DefaultCmd != nil {
		words, file = argumentsOf(n.DefaultCmd)
	}
	for _, child := range n.Children {
		words = append(words, child.Name)
	}
	for _, p := range n.Positional {
		words = append(words, choice(p)...)
		file = file || p.Tag.PlaceHolder == "FILE"
	}
	if c, ok := n.Target.Addr().Interface().(interface{ arguments() []string }); ok {
		words = append(words, c.arguments()...)
	}
	return words, file
}

// commandCase returns a pattern for case in a shell, which matches each command with the name of the program before it.
func commandCase(m *kong.Application) string {
	var all []string
	eachCommand(m.Node, m.Name, func(n *kong.Node, words string) {
		if n != m.Node {
			all = append(all, quoteShell(words))
		}
	})
	return strings.Join(all, "|")
}

// quoteShell quotes a word for a shell.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// bashCompletion returns the completion of bash.
func bashCompletion() ([]byte, error) {
	m := model()
	var values, words []byte
	eachCommand(m.Node, m.Name, func(n *kong.Node, command string) {
		arguments, file := argumentsOf(n)
		for _, f := range flagsOf(n) {
			arguments = append(arguments, "--"+f.Name)
			if f.IsBool() {
				continue
			}
			action := "return"
			if list := choice(f.Value); len(list) > 0 {
				action = "words=" + quoteShell(strings.Join(list, " "))
			} else if f.PlaceHolder == "FILE" {
				action = "files=1"
			}
			values = fmt.Appendf(values, "\t%s) %s ;;\n", quoteShell(command+" --"+f.Name), action)
		}
		words = fmt.Appendf(words, "\t\t%s) words=%s", quoteShell(command), quoteShell(strings.Join(arguments, " ")))
		if file {
			words = append(words, " files=1"...)
		}
		words = append(words, " ;;\n"...)
	})
	var out []byte
	out = fmt.Appendf(out, `# bash completion of %[1]s. For one shell: source <(%[1]s assets completion-bash)
# For all shells: %[1]s assets completion-bash > /usr/share/bash-completion/completions/%[1]s
_%[1]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} last=$((COMP_CWORD - 1)) command=%[1]s words= files= i
	COMPREPLY=()
	if [[ $cur == = ]]; then # bash splits --flag=value into three words
		cur=
	elif [[ ${COMP_WORDS[last]} == = ]]; then
		((last--))
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$command ${COMP_WORDS[i]}" in
		%[2]s) command+=" ${COMP_WORDS[i]}" ;;
		esac
	done
	case "$command ${COMP_WORDS[last]}" in
%[3]s	*)
		case $command in
%[4]s		esac
		;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
	if [[ $files ]]; then
		compopt -o filenames 2>/dev/null
		local file
		while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
	fi
}
complete -F _%[1]s %[1]s
`, m.Name, commandCase(m), values, words)
	return out, nil
}
