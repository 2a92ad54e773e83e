"""The layout of a profile file: which keys there are, and what each must hold.

`profile` reads a whole file's content. Off the launch path: only the loader imports it.
"""

from __future__ import annotations

from holdfast.agents import profile as parts
from holdfast.agents.schema import (
    Each,
    KeyPath,
    Table,
    flag,
    match,
    one_of,
    path,
    regex,
    regex_source,
    seconds,
    sentence,
    template,
    text,
    texts_by_name,
    words,
)

STYLES = ("text", "piece", "call", "output", "answer", "error", "note", "hide")

_sum_or_last = one_of("sum", "last")
_completion = Table(
    parts.CompletionRule,
    {
        "error_when": match,
        "failed": flag,
        "text": Each(path),
        "settle_seconds": seconds,
    },
    rule=True,
)
_usage = Table(
    parts.UsageRule,
    {
        "tokens_in": Each(path),
        "tokens_out": Each(path),
        "tokens": _sum_or_last,
        "cost_usd": path,
        "cost": _sum_or_last,
        "during": flag,
        "per": path,
        "whole_session": flag,
    },
    rule=True,
)
_transcript_fields = ("home", "cwd_dashed", "session", "session_start")
_transcript = Table(
    parts.TranscriptRules,
    {
        "root": template("home"),
        "root_variable": text,
        "root_below_variable": text,
        "paths": Each(template(*_transcript_fields)),
        "confirm": path,
        "at": path,
        "anew": Each(match),
        "completion": Each(_completion),
        "usage": Each(_usage),
        "before": Each(_usage),
        "subagents": text,
    },
    required=("root", "paths"),
)
_limit = Table(
    parts.LimitRule,
    {
        "text": Each(path),
        "only_when": regex,
        "retry_epoch": path,
        "retry_seconds": path,
        "retry_text": regex,
    },
    rule=True,
)
_budget = Table(
    parts.BudgetRules,
    {
        "cost_option": text,
        "cost_known": one_of("step", "turn"),
        "over": Each(Table(parts.OverBudgetRule, {}, rule=True)),
    },
)


class _HookTable(Table):
    """Each way of handing hooks over needs its option or variable."""

    def __call__(self, value: object, place: KeyPath) -> parts.HookRules:
        rules: parts.HookRules = super().__call__(value, place)
        needed = "variable" if rules.way == "file" else "option"
        if getattr(rules, needed) is None:
            place.below(needed).fail("is missing", f"a value for {needed}, by which hooks go")
        return rules


_hooks = _HookTable(
    parts.HookRules,
    {
        "way": one_of("settings", "overrides", "file"),
        "option": text,
        "variable": text,
        "default_file": text,
        "session": path,
        "events": Each(text),
        "terminal_events": Each(text),
        "asking": text,
        "prompt_tool": words("server", "tool", needs=("server", "tool")),
        "prompt_waits": flag,
        "background": Each(text),
        "brief": Each(text),
        "never_with": Each(text),
        "not_headless": flag,
        "key": Each(path),
        "allow": text,
        "deny": text,
        "report": Each(
            Table(
                parts.HookRule,
                {
                    "asks": one_of("permission", "question"),
                    "text": sentence,
                    "alone": flag,
                    "key": Each(path),
                    "settles": flag,
                    "begins_turn": flag,
                    "ends_turn": flag,
                    "failed": flag,
                    "result": Each(path),
                },
                rule=True,
            )
        ),
    },
    required=("session",),
)
_resume = Table(
    parts.ResumeRule,
    {
        "command": words(
            "program", "options", "session", "prompt", needs=("program", "session", "prompt")
        ),
        "default_prompt": text,
    },
    required=("command",),
)
_pretty = Table(
    parts.PrettyRule,
    {"style": one_of(*STYLES), "show": sentence, "each": path, "where": match},
    required=("style",),
    rule=True,
)
_texts = Each(text)
profile = Table(
    parts.AgentProfile,
    {
        "name": text,
        "title": text,
        "checked_with": text,
        "also_checked": texts_by_name,
        "install": text,
        "drain_seconds": seconds,
        "replaces": flag,
        "recognise": Table(
            parts.Recognition,
            {
                "commands": _texts,
                "packages": _texts,
                "scripts": Each(regex_source),
                "modules": _texts,
            },
        ),
        "workload": Table(
            parts.WorkloadName, {"comm": _texts, "cmdline": regex, "relaunches": flag}
        ),
        "options": Table(parts.Options, dict.fromkeys(parts.Options._fields, _texts)),
        "environment": Table(parts.Environment, {"strip": _texts}),
        "session": Each(Table(parts.SessionRule, {"id": path}, required=("id",), rule=True)),
        "completion": Each(_completion),
        "answer": Table(
            parts.AnswerRule,
            {"text": path, "append": flag, "anew": Each(match)},
            required=("text",),
            rule=True,
        ),
        "usage": Each(_usage),
        "budget": _budget,
        "limit": Each(_limit),
        "transcript": _transcript,
        "hooks": _hooks,
        "why_no_hooks": text,
        "resume": _resume,
        "pretty": Each(_pretty),
    },
    required=("name",),
)
