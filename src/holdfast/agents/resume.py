"""The command that goes on with an agent's session: the same program and options, a new prompt."""

from __future__ import annotations

import os

from holdfast.agents.arguments import read_arguments
from holdfast.agents.recognition import locate, may_be_wrapper
from holdfast.errors import Refused, WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agents.profile import AgentProfile, Options


def own_arguments(profile: AgentProfile, argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words up to and with the agent's program, and the agent's own arguments.

    A command in which the agent is not recognised (`--agent claude ./wrapper.sh`) is taken to
    pass its arguments on.
    """
    located = locate(argv)
    if located is not None and located.agent == profile.name:
        return list(located.program), list(located.arguments)
    return list(argv[:1]), list(argv[1:])


def resume_command(
    profile: AgentProfile, argv: Sequence[str], session_id: str, prompt: str | None
) -> list[str]:
    """The argv that continues the session; options are kept, the old prompt and session are not."""
    if profile.resume is None:
        raise Refused(
            f"{profile.title} has no sessions that can be resumed by their id",
            hint="holdfast rerun starts the same command again",
            agent=profile.name,
        )
    if not argv:
        raise WrongUse("a run without a command can't be resumed")
    program, arguments = own_arguments(profile, argv)
    if may_be_wrapper(os.path.basename(program[-1])):
        raise Refused(
            f"where {profile.title} gets its words in this command can't be told: "
            f"{program[-1]} has more to do than to start it",
            hint=f"its session is {session_id}: start {profile.name} with it in a new run",
            agent=profile.name,
        )
    options = _kept(profile.options, arguments)
    text = prompt or profile.resume.default_prompt
    command: list[str] = []
    for word in profile.resume.command:
        if word == "{program}":
            command += program
        elif word == "{options}":
            command += options
        else:
            command.append(word.replace("{session}", session_id).replace("{prompt}", text))
    return command


def _kept(options: Options, arguments: Sequence[str]) -> list[str]:
    """Every option but those that pick a session or carry the prompt; of words, the subcommand."""
    dropped = {*options.session, *options.prompt, *options.headless_flags}
    kept: list[str] = []
    subcommand_seen = False
    for argument in read_arguments(options, arguments):
        if argument.option is not None:
            if argument.option not in dropped:
                kept += argument.words
        elif not subcommand_seen and argument.words[0] in options.subcommands:
            subcommand_seen = True
            kept += argument.words
    return kept
