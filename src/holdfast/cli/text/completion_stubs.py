"""What bash, zsh and fish load: each asks `holdfast __complete` when TAB is pressed."""

from __future__ import annotations

_BASH = """\
# holdfast completion for bash 4 and later
_holdfast() {
    local how at
    { read -r how at; mapfile -t COMPREPLY; } \\
        < <(command holdfast __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case $how in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
        command)
            if declare -F _command_offset >/dev/null; then _command_offset "$at"
            elif ((at == COMP_CWORD)); then mapfile -t COMPREPLY < <(compgen -c -- "$2")
            else compopt -o default; fi ;;
    esac
}
complete -F _holdfast holdfast
"""

_ZSH = """\
#compdef holdfast
# holdfast completion for zsh
_holdfast() {
    local -a answer how
    answer=("${(@f)$(command holdfast __complete zsh \\
        "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
    how=(${=answer[1]})
    shift answer
    (($#answer)) && _describe holdfast answer
    case $how[1] in
        files) _files ;;
        directories) _files -/ ;;
        command) shift $how[2] words; ((CURRENT -= how[2])); _normal ;;
    esac
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
"""

_FISH = """\
# holdfast completion for fish
function __holdfast
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l answer (command holdfast __complete fish $before[2..] "$typed" 2>/dev/null)
    set -l how (string split ' ' -- $answer[1])
    switch "$how[1]"
        case files
            complete -C "'' $typed"
        case directories
            __fish_complete_directories "$typed" ''
        case command
            set -l words (string escape -- $before[(math $how[2] + 1)..]) "$typed"
            complete -C (string join ' ' -- $words)
    end
    printf '%s\\n' $answer[2..]
end
complete -c holdfast -n 'command -q holdfast' -f -a '(__holdfast)'
"""

STUBS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
