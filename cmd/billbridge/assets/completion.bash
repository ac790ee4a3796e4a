# bash completion of billbridge. For one shell: source <(billbridge assets completion-bash)
# For all shells: billbridge assets completion-bash > /usr/share/bash-completion/completions/billbridge
_billbridge() {
	local cur=${COMP_WORDS[COMP_CWORD]} last=$((COMP_CWORD - 1)) words file
	COMPREPLY=()
	if [[ $cur == = ]]; then # bash splits --flag=value into three words
		cur=
	elif [[ ${COMP_WORDS[last]} == = ]]; then
		((last--))
	fi
	words=$("${COMP_WORDS[0]/#\~/$HOME}" complete -- "${COMP_WORDS[@]:1:last}" 2>/dev/null)
	COMPREPLY=($(compgen -W "${words//FILE/}" -- "$cur"))
	if [[ $words == *FILE* ]]; then
		compopt -o filenames 2>/dev/null
		while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
	fi
}
complete -F _billbridge billbridge
