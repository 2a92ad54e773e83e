"""The same words about a run here and about one elsewhere: what each answers, made comparable."""

from __future__ import annotations

import re
from typing import Any

from tests.fleet.fleet_world import Submitter
from tests.support.waiting import eventually

_SCRIPT = "echo one; read x; echo got $x; exit 3"


def assert_same_words(submitter: Submitter, on: str, claude: str) -> None:
    """Play it here and there; exit codes, texts, documents and errors are the same."""
    here = _play(submitter, "here", (), claude)
    there = _play(submitter, "there", ("--on", on), claude)
    differ = [words for words in here.keys() | there.keys() if here.get(words) != there.get(words)]
    assert not differ, [(words, here.get(words), there.get(words)) for words in differ]


def _play(submitter: Submitter, name: str, on: tuple[str, ...], claude: str) -> dict[str, Any]:
    """Each command, and what it answered."""
    answers: dict[str, Any] = {}

    def say(*words: str) -> Any:
        done = submitter(*words)
        shown = " ".join(words).replace(name, "RUN")
        text = _comparable(done.stdout, run_id, name)
        document = done.json if "--json" in words and "logs" not in words else None
        answers[shown] = (done.returncode, text if document is None else _shape(words[0], document))
        return document

    run = ("run", "--json", *on, "-n")
    run_id = submitter(*run, name, "--stdin", "pipe", "sh", "-c", _SCRIPT, expect=0).json["id"]
    eventually(lambda: "one" in submitter("logs", name).stdout, 90, "it says something")
    say("wait", name, "--timeout", "0.1")
    say("status", name, "--json")
    say("result", name, "--json")
    say("send", name, "two")
    say("wait", name)
    say("logs", name, "--json", "--tail", "1")
    say("send", name, "three", "--json")
    say("stop", name)
    say("attach", name)
    say("resume", name, "--json")
    asked = submitter(*run, f"{name}-agent", claude, "-p", "hello", expect=0).json["id"]
    say("wait", asked)
    say("result", f"{name}-agent")
    again = say("resume", f"{name}-agent", "and now", "--json")
    assert again["id"] != asked
    say("wait", again["id"], "--json")
    answers["its result"] = submitter("result", again["id"]).stdout
    answers["resumed from"] = submitter.info(again["id"])["resumed_from"] == asked
    return {
        words.replace(asked, "ASKED").replace(again["id"], "AGAIN"): a
        for words, a in answers.items()
    }


def _comparable(text: str, run_id: str, name: str) -> str:
    text = text.replace(run_id, "ID").replace(name, "RUN")
    return re.sub(r"\b[\d.]+ ?(ms|s)\b", "DURATION", text)


def _shape(verb: str, document: Any) -> Any:
    """Which fields there are, and those that say how a run stands."""
    if "runs" in document:
        return [_shape(verb, one) for one in document["runs"]]
    if "error" in document:
        return {"error": document["error"]["code"]}
    told = ("outcome", "exit_code", "agent", "pty", "is_recorded", "ended_by")
    is_fresh = verb == "resume"  # it may have ended by the time that it is told, or not
    return sorted(document), {} if is_fresh else {key: document.get(key) for key in told}
