"""Writes completion scripts for bash, zsh and fish from the shapes of the commands.

Run names are asked for with `holdfast ls -q` at the moment of completion. They are never
expanded by the shell: each is compared and added as it is.
"""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.cli.completion import Option, Shape, Word

_SIGNALS = "TERM INT HUP QUIT KILL STOP CONT USR1 USR2 WINCH"
_GLOBAL = "--json -q --quiet -v --verbose -h --help --version"

_BASH = """\
# holdfast completion for bash
_holdfast_add() {  # words from stdin that begin with $1
    local word
    while IFS= read -r word; do
        [[ $word == "$1"* ]] && COMPREPLY+=("$word")
    done
}
_holdfast_kind() {  # what may stand here: $1, for the beginning $2
    case $1 in
        runs) _holdfast_add "$2" < <(holdfast ls -q 2>/dev/null) ;;
        files) compopt -o filenames 2>/dev/null; _holdfast_add "$2" < <(compgen -f -- "$2") ;;
        targets) _holdfast_kind runs "$2"; _holdfast_kind files "$2" ;;
        signals) COMPREPLY+=($(compgen -W "@SIGNALS@" -- "$2")) ;;
        command) COMPREPLY+=($(compgen -c -- "$2")) ;;
        choices:*) COMPREPLY+=($(compgen -W "${1#choices:}" -- "$2")) ;;
    esac
}
_holdfast() {
    local cur=${COMP_WORDS[COMP_CWORD]} at=1 verb options valued kinds count=0 word
    COMPREPLY=()
    while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -* ]]; do ((at++)); done
    if ((at >= COMP_CWORD)); then
        COMPREPLY=($(compgen -W "@COMMANDS@ @GLOBAL@" -- "$cur"))
        return
    fi
    verb=${COMP_WORDS[at]}
    case $verb in
@CASES@
        *) return ;;
    esac
    for ((at++; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ $word == -?* ]]; then
            if [[ " $valued " == *" $word "* ]]; then
                if ((at + 1 == COMP_CWORD)); then
                    case $verb:$word in
@VALUES@
                    esac
                    return
                fi
                ((at++))
            fi
        elif [[ ${kinds[count]} == command ]]; then  # its own words follow
            compopt -o default 2>/dev/null
            _holdfast_kind files "$cur"
            return
        elif [[ ${kinds[count]} != *+ ]]; then
            count=$((count + 1))
        fi
    done
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
        return
    fi
    word=${kinds[count]}
    _holdfast_kind "${word%+}" "$cur"
}
complete -F _holdfast holdfast
"""

_ZSH = """\
#compdef holdfast
# holdfast completion for zsh
_holdfast_runs() {
    local -a runs
    runs=(${(f)"$(holdfast ls -q 2>/dev/null)"})
    compadd -a runs
}
_holdfast() {
    local curcontext="$curcontext" state
    local -a commands
    commands=(
@COMMANDS@
    )
    _arguments -C \\
        '--json[one JSON document on stdout]' \\
        '(-q --quiet)'{-q,--quiet}'[say less]' \\
        '(-v --verbose)'{-v,--verbose}'[say more]' \\
        '(- *)'{-h,--help}'[print help]' \\
        '(- *)--version[print the version]' \\
        '1:command:->command' '*::argument:->argument'
    case $state in
        command) _describe command commands ;;
        argument)
            case $words[1] in
@CASES@
            esac ;;
    esac
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
"""

_FISH = """\
# holdfast completion for fish
function __holdfast_runs
    holdfast ls -q 2>/dev/null
end
complete -c holdfast -f
"""


def bash(shapes: Sequence[Shape]) -> str:
    """The script for bash 4 and later."""
    cases, values = [], []
    for shape in shapes:
        options = " ".join(name for option in shape.options for name in option.names)
        kinds = " ".join(shlex.quote(_bash_kind(word)) for word in shape.words)
        cases.append(
            f'        {shape.verb}) options="{options}" valued="{" ".join(shape.valued)}"'
            f" kinds=({kinds}) ;;"
        )
        values += [_bash_value(shape.verb, option) for option in shape.options if option.value]
    return _fill(_BASH, shapes, "\n".join(cases), "\n".join(filter(None, values)))


def _bash_kind(word: Word) -> str:
    kind = f"choices:{' '.join(word.choices)}" if word.kind == "choices" else word.kind
    return f"{kind}+" if word.repeats and kind != "command" else kind


def _bash_value(verb: str, option: Option) -> str:
    if option.value is None or option.value.kind == "none":
        return ""
    names = "|".join(f"{verb}:{name}" for name in option.names)
    kind = shlex.quote(_bash_kind(option.value).removesuffix("+"))
    return f'                        {names}) _holdfast_kind {kind} "$cur" ;;'


def _fill(script: str, shapes: Sequence[Shape], cases: str, values: str) -> str:
    return (
        script.replace("@CASES@", cases)
        .replace("@VALUES@", values or "                        *) ;;")
        .replace("@COMMANDS@", " ".join(shape.verb for shape in shapes))
        .replace("@GLOBAL@", _GLOBAL)
        .replace("@SIGNALS@", _SIGNALS)
    )


def zsh(shapes: Sequence[Shape]) -> str:
    """The script for zsh, with or without an entry in fpath."""
    commands = [f"        {shlex.quote(f'{s.verb}:{s.text}')}" for s in shapes]
    cases = []
    for shape in shapes:
        words = [spec for option in shape.options for spec in _zsh_options(option)]
        words += [_zsh_word(word, place) for place, word in enumerate(shape.words, start=1)]
        lines = " \\\n                        ".join(words)
        cases.append(f"                {shape.verb}) _arguments -S {lines} ;;")
    script = _ZSH.replace("@COMMANDS@", "\n".join(commands))
    return script.replace("@CASES@", "\n".join(cases))


def _zsh_options(option: Option) -> list[str]:
    text = option.text
    for special in "[]:":
        text = text.replace(special, f"\\{special}")
    value = f":{option.value.metavar}:{_zsh_action(option.value)}" if option.value else ""
    return [shlex.quote(f"*{name}[{text}]{value}") for name in option.names]


def _zsh_word(word: Word, place: int) -> str:
    name = word.metavar.replace(":", "\\:")
    if word.kind == "command":
        return shlex.quote(f"*::{name}:_normal")
    position = "*" if word.repeats else str(place)
    return shlex.quote(f"{position}:{name}:{_zsh_action(word)}")


def _zsh_action(word: Word) -> str:
    if word.kind == "choices":
        return f"({' '.join(word.choices)})"
    return {
        "runs": "_holdfast_runs",
        "files": "_files",
        "targets": "{_holdfast_runs; _files}",
        "signals": f"({_SIGNALS})",
    }.get(word.kind, " ")


def fish(shapes: Sequence[Shape]) -> str:
    """The script for fish."""
    lines = [_FISH.rstrip("\n")]
    for name, text in (("json", "one JSON document on stdout"), ("version", "print the version")):
        lines.append(f"complete -c holdfast -n __fish_use_subcommand -l {name} -d {_fish(text)}")
    for shape in shapes:
        start = f"complete -c holdfast -n __fish_use_subcommand -a {shape.verb}"
        lines.append(f"{start} -d {_fish(shape.text)}")
    for shape in shapes:
        seen = f"complete -c holdfast -n {_fish(f'__fish_seen_subcommand_from {shape.verb}')}"
        lines += [f"{seen} {_fish_option(option)}" for option in shape.options]
        lines += [f"{seen} {words}" for word in shape.words if (words := _fish_word(word))]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    parts = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    if option.value:
        parts += ["-r", _fish_word(option.value)]
    return " ".join(filter(None, [*parts, f"-d {_fish(option.text)}"]))


def _fish_word(word: Word) -> str:
    if word.kind == "choices":
        return f"-a {_fish(' '.join(word.choices))}"
    return {
        "runs": "-a '(__holdfast_runs)'",
        "files": "-F",
        "targets": "-F -a '(__holdfast_runs)'",
        "signals": f"-a {_fish(_SIGNALS)}",
        "command": "-a '(__fish_complete_subcommand)'",
    }.get(word.kind, "")


def _fish(text: str) -> str:
    """Quoted as fish has it: only backslash and quote are special."""
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


SCRIPTS: dict[str, Callable[[Sequence[Shape]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
