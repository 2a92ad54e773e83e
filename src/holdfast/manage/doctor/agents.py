"""`doctor --agents`: which coding agents are here, and what Holdfast can see of each.

A missing or broken agent breaks no guarantee of Holdfast: it is reported, and nothing fails.
"""

from __future__ import annotations

from holdfast.manage.doctor.findings import DoctorFinding, missing, works
from holdfast.manage.plaintext import home_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.installed import FoundAgent


def finding(agent: FoundAgent) -> DoctorFinding:
    """For people."""
    if agent.path is None:
        return missing(agent.name, f"{agent.title} is not on PATH", agent.install)
    where = home_path(agent.path)
    if agent.version is None:
        return missing(agent.name, f"{where} does not work: {agent.problem}", agent.install)
    return works(agent.name, f"{_version(agent)}, {where}; {_visible(agent)}")


def _version(agent: FoundAgent) -> str:
    """With what was found in that version, if it was tried."""
    if agent.checked_with is None or agent.checked_with == agent.version:
        return str(agent.version)
    others = agent.also_checked or {}
    if agent.version in others:
        return f"{agent.version} ({others[agent.version]})"
    checked = ", ".join((agent.checked_with, *others))
    return f"{agent.version} (its profile was checked with {checked})"


def _visible(agent: FoundAgent) -> str:
    named = {
        "session": agent.sees.session,
        "completion": agent.sees.completion,
        "usage": agent.sees.usage,
        "limits": agent.sees.limit,
    }
    seen = ", ".join(f"{what} ({how})" for what, how in named.items() if how)
    text = f"sees {seen}" if seen else "sees nothing of what it says"
    if agent.readable_with:
        text += f", when run with {agent.readable_with}"
    holds = agent.sees.budget
    text += f"; holds {holds}" if holds else "; --max-tokens and --max-cost are refused"
    asks, hooks = agent.sees.attention, agent.sees.hooks
    why_not = f" ({agent.sees.why_no_hooks})" if agent.sees.why_no_hooks else ""
    reports = f"reports by hooks ({hooks}): {asks}"
    text += f"; {reports}" if asks else f"; reports nothing while it waits{why_not}"
    if agent.sees.approve is None:
        text += "; --approve is refused"
    resume = agent.sees.resume
    return text + (f"; can resume {resume}" if resume else "; can't be resumed")
