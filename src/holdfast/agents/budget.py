"""What can be seen of an agent in the way that it is started: enough to hold a budget of tokens or
of cost, or to go on after a used-up quota?

Pure: each answer is a reason why not, or None.
"""

from __future__ import annotations

from holdfast.agents.arguments import has_any, has_many_turns, is_headless
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agents.profile import AgentProfile


class Unseen(Record):
    """Why a figure is not known while the agent works, and the options that would change that."""

    why: str
    add: str = ""


def why_tokens_unseen(
    profile: AgentProfile, arguments: Sequence[str], *, is_split: bool = False
) -> Unseen | None:
    """Why its tokens can't be counted while it works. `is_split`: stderr goes elsewhere."""
    transcript = profile.transcript
    rules = [*profile.usage, *(transcript.usage if transcript else ())]
    if not any(rule.tokens_in or rule.tokens_out for rule in rules):
        return Unseen(f"{profile.title} does not say how many tokens it uses")
    if _is_readable(profile, arguments) or _has_named_transcript(profile, arguments, is_split):
        return None
    return _unreadable(profile, "tokens")


def has_own_cost_option(profile: AgentProfile, arguments: Sequence[str]) -> bool:
    """Whether an option of its own holds its cost, in the way that it is started."""
    return profile.budget.cost_option is not None and is_headless(profile.options, arguments)


def why_cost_unseen(profile: AgentProfile, arguments: Sequence[str]) -> Unseen | None:
    """Why its cost is not known before it ends."""
    if not any(rule.cost_usd for rule in profile.usage):
        return Unseen(f"{profile.title} does not say what it costs")
    if not _is_readable(profile, arguments):
        return _unreadable(profile, "cost")
    ends_with_turn = not has_many_turns(profile.options, arguments)
    if profile.budget.cost_known != "step" and ends_with_turn:
        return Unseen(f"{profile.title} tells its cost when its turn is over, and then it ends")
    return None


def why_not_resumed(
    profile: AgentProfile, arguments: Sequence[str], *, is_split: bool = False
) -> Unseen | None:
    """Why it can't go on by itself when its quota is back. `is_split`: stderr goes elsewhere."""
    if profile.resume is None:
        return Unseen(f"{profile.title} has no sessions that can be resumed by their id")
    if not profile.limit:
        return Unseen(f"{profile.title} does not say that its quota is used up")
    is_one_turn = is_headless(profile.options, arguments)
    if not is_one_turn or has_many_turns(profile.options, arguments):
        return Unseen(f"{profile.title} does not end when its quota is used up: it waits for input")
    if _is_readable(profile, arguments):
        return None
    rules = (profile.session, profile.limit)
    has_lines = all(any(rule.when.line is not None for rule in group) for group in rules)
    if has_lines and not is_split:
        return None
    return _unreadable(profile, "session")


def _unreadable(profile: AgentProfile, what: str) -> Unseen:
    options = " ".join(word.replace("=", " ") for word in profile.options.readable)
    return Unseen(f"{profile.title} tells its {what} only with {options}", options)


def _is_readable(profile: AgentProfile, arguments: Sequence[str]) -> bool:
    options = profile.options
    return all(has_any(options, arguments, [one]) for one in options.readable)


def _has_named_transcript(profile: AgentProfile, arguments: Sequence[str], is_split: bool) -> bool:
    """Whether a plain line of its output, or of stderr, leads to a transcript with its tokens."""
    if profile.transcript is None or not profile.transcript.usage or is_split:
        return False
    is_named = any(rule.when.line is not None for rule in profile.session)
    return is_named and is_headless(profile.options, arguments)
