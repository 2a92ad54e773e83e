#!/usr/bin/env python3
"""A pretend model on loopback: the real claude, codex and gemini complete turns against it.

The newest prompt of a conversation steers the answer (older ones, as in a resumed session, don't):

    [[run: CMD]]    first ask for CMD through the agent's shell tool, then answer; several are
                    asked for at once
    [[ask: CMD]]    the same, in a way that needs a person's permission in every agent
    [[read: PATH]]  the same through claude's Read tool, which runs several side by side
    [[question: Q]] first put Q to the person, through claude's AskUserQuestion
    [[task: PROMPT]] first hand PROMPT to a subagent of claude's
    [[call: TOOL {JSON}]] first call a tool of an MCP server with these arguments; several are
                    called one after the other
    [[times: N]]    ask for those tools N times, one request after the other, then answer
    [[tokens: I O]] each answer says that it took I tokens in and O out (5 and 7)
    [[delay: S]]    wait S seconds before answering
    [[until: PATH]] wait until there is such a file, a minute at most
    [[hang]]        take the request and never answer
    [[fail: N]]     answer with HTTP status N
    [[limit]]       answer as a used-up quota does; [[limit: S]] says "again in S seconds" (60)

Usage: stub_model.py PORT [REQUEST_LOG]     port 0 picks a free one; it is printed first
REQUEST_LOG gets one JSON line per model request: {"path", "prompts", "tool_result"}.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

ANSWER = "hello from the stub"
TOKENS_IN, TOKENS_OUT = 5, 7
Json = dict[str, Any]


CALLS = ("run", "ask", "read", "question", "task")
SERVER_CALL = "call"


@dataclass(frozen=True)
class Call:
    """A tool that the stub asks for: one of CALLS, and what for."""

    kind: str
    text: str


@dataclass(frozen=True)
class Steering:
    """What the prompt asks of the stub."""

    calls: tuple[Call, ...] = ()
    steps: tuple[Call, ...] = ()  # calls of a server's tools, one after the other
    times: int = 1
    tokens_in: int = TOKENS_IN
    tokens_out: int = TOKENS_OUT
    delay_seconds: float = 0.0
    until_path: str = ""
    hang: bool = False
    fail_status: int | None = None
    limit_seconds: int | None = None

    @classmethod
    def of(cls, prompt: str) -> Steering:
        found = re.findall(r"\[\[(\w+)(?:: *(.*?))?\]\]", prompt, re.DOTALL)
        words = dict(found)
        tokens = [int(word) for word in (words.get("tokens") or "").split()]
        return cls(
            calls=tuple(Call(*one) for one in found if one[0] in CALLS),
            steps=tuple(Call(*one) for one in found if one[0] == SERVER_CALL),
            times=int(words.get("times") or 1),
            **dict(zip(("tokens_in", "tokens_out"), tokens, strict=False)),
            delay_seconds=float(words.get("delay") or 0),
            until_path=words.get("until", ""),
            hang="hang" in words,
            fail_status=int(words["fail"]) if words.get("fail") else None,
            limit_seconds=int(words["limit"] or 60) if "limit" in words else None,
        )


@dataclass(frozen=True)
class Turn:
    """One request to the model, in no API's own terms."""

    prompts: tuple[str, ...]
    results: int  # of tools, since the newest prompt
    tools: frozenset[str]
    model: str = "stub"

    @property
    def steering(self) -> Steering:
        return Steering.of(_newest_prompt(self.prompts[-1]) if self.prompts else "")

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tools to ask for now. Side requests (a title, a summary) offer none."""
        steps = self.steering.steps
        if self.tools and self.results < len(steps):
            return (steps[self.results],)
        is_due = self.tools and self.results < self.steering.times
        return self.steering.calls if is_due else ()


def _newest_prompt(text: str) -> str:
    """The last paragraph of a person's. claude (2.1.326) sends a prompt that met a used-up quota
    and the next one as one message, and puts reminders of its own around them."""
    said = re.sub(r"<system-reminder>.*?</system-reminder>", "", text, flags=re.DOTALL)
    return next((one for one in reversed(said.split("\n\n")) if one.strip()), "")


def _server_call(tools: Iterable[str], call: Call) -> tuple[str, Json]:
    """The full name of a server's tool, as the agent offers it, and its arguments."""
    name, _, given = call.text.partition(" ")
    known = (tool for tool in tools if tool.endswith(f"_{name}") or tool == name)
    return next(known, name), json.loads(given or "{}")


class Dialect(Protocol):
    """One vendor's API."""

    named_events: bool

    def understands(self, path: str) -> bool: ...
    def turn(self, query: Json) -> Turn: ...
    def events(self, turn: Turn, calls: tuple[Call, ...]) -> Iterator[Json]: ...
    def whole(self, turn: Turn) -> Json: ...
    def error(self, message: str) -> Json: ...
    def limit(self, seconds: int) -> tuple[dict[str, str], Json]: ...


class Messages:
    """What claude speaks."""

    named_events = True

    def understands(self, path: str) -> bool:
        return path.startswith("/v1/messages") and "count_tokens" not in path

    def turn(self, query: Json) -> Turn:
        users = [m["content"] for m in query.get("messages", []) if m.get("role") == "user"]
        blocks = [[{"type": "text", "text": u}] if isinstance(u, str) else u for u in users]
        prompts = [_joined(b["text"] for b in u if b.get("type") == "text") for u in blocks]
        # A prompt may follow the results of an earlier turn within one message.
        ends = [bool(user) and user[-1].get("type") == "tool_result" for user in blocks]
        tools = frozenset(t["name"] for t in query.get("tools") or [])
        model = query.get("model", "stub")
        return Turn(tuple(p for p in prompts if p), _true_at_the_end(ends), tools, model)

    def events(self, turn: Turn, calls: tuple[Call, ...]) -> Iterator[Json]:
        answer: Json = {"type": "text_delta", "text": ANSWER}
        blocks = [({"type": "text", "text": ""}, answer)]
        if calls:
            blocks = [self._tool_use(turn.tools, call) for call in calls]
        # Messages with the same id are taken for parts of one.
        message: Json = {
            "id": _fresh("msg"), "type": "message", "role": "assistant", "content": [],
            "model": turn.model, "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": turn.steering.tokens_in, "output_tokens": 1},
        }  # fmt: skip
        stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        yield {"type": "message_start", "message": message}
        for index, (block, delta) in enumerate(blocks):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        usage = {"output_tokens": turn.steering.tokens_out}
        yield {"type": "message_delta", "delta": stop, "usage": usage}
        yield {"type": "message_stop"}

    @staticmethod
    def _tool_use(tools: frozenset[str], call: Call) -> tuple[Json, Json]:
        choices = [{"label": word, "description": word} for word in ("yes", "no")]
        question = {"question": call.text, "header": "stub", "options": choices}
        name, asked = {
            "read": ("Read", {"file_path": call.text}),
            "task": ("Task", {"prompt": call.text, **_SUBAGENT}),
            "question": ("AskUserQuestion", {"questions": [{**question, "multiSelect": False}]}),
        }.get(call.kind, ("Bash", {"command": call.text, "description": "as asked"}))
        if call.kind == SERVER_CALL:
            name, asked = _server_call(tools, call)
        block = {"type": "tool_use", "id": _fresh("toolu"), "name": name, "input": {}}
        return block, {"type": "input_json_delta", "partial_json": json.dumps(asked)}

    def whole(self, turn: Turn) -> Json:
        message: Json = next(self.events(turn, ()))["message"]
        content = [{"type": "text", "text": ANSWER}]
        return {**message, "content": content, "stop_reason": "end_turn"}

    def error(self, message: str) -> Json:
        return {"type": "error", "error": {"type": "api_error", "message": message}}

    def limit(self, seconds: int) -> tuple[dict[str, str], Json]:
        headers = {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(int(time.time()) + seconds),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "x-should-retry": "false",
        }
        message = "This request would exceed your account's rate limit. Please try again later."
        return headers, {"type": "error", "error": {"type": "rate_limit_error", "message": message}}


class Responses:
    """What codex speaks."""

    named_events = True

    def understands(self, path: str) -> bool:
        return path.endswith("/responses")

    def turn(self, query: Json) -> Turn:
        items = query.get("input") or []
        users = [i for i in items if i.get("type") == "message" and i.get("role") == "user"]
        prompts = [_joined(c.get("text", "") for c in u["content"]) for u in users]
        since = [i.get("role") != "user" for i in items]
        newest = items[len(items) - _true_at_the_end(since) :]
        results = [i for i in newest if i.get("type", "").endswith("_call_output")]
        tools = query.get("tools") or []
        named = [t.get("name", "") for t in tools]
        named += [f"{t['name']}__{one['name']}" for t in tools for one in t.get("tools", ())]
        return Turn(tuple(p for p in prompts if p), len(results), frozenset(named))

    def events(self, turn: Turn, calls: tuple[Call, ...]) -> Iterator[Json]:
        answer: Json = {
            "type": "message", "id": _fresh("msg"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        }  # fmt: skip
        items = [self._shell_call(turn.tools, call) for call in calls] or [answer]
        tokens_in, tokens_out = turn.steering.tokens_in, turn.steering.tokens_out
        response: Json = {"id": "resp_stub", "object": "response", "output": []}
        usage = {
            "input_tokens": tokens_in, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens_out, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        }  # fmt: skip
        done = {**response, "status": "completed", "output": items, "usage": usage}
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
        for index, item in enumerate(items):
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": done}

    @staticmethod
    def _shell_call(tools: frozenset[str], call: Call) -> Json:
        if call.kind == SERVER_CALL:
            full, given = _server_call(tools, call)
            space, _, tool = full.rpartition("__")
            item = {"type": "function_call", "id": _fresh("fc"), "call_id": _fresh("call")}
            return {**item, "namespace": space, "name": tool, "arguments": json.dumps(given)}
        name = "shell"
        asked: Json = {"command": ["sh", "-c", call.text]}
        if "exec_command" in tools:
            name, asked = "exec_command", {"cmd": call.text}
        elif "shell_command" in tools:
            name, asked = "shell_command", {"command": call.text}
        if call.kind == "ask":  # codex asks a person only for what leaves its sandbox
            asked |= {"sandbox_permissions": "require_escalated", "justification": "as asked"}
        item = {"type": "function_call", "id": _fresh("fc"), "call_id": _fresh("call")}
        return {**item, "name": name, "arguments": json.dumps(asked)}

    def whole(self, turn: Turn) -> Json:
        done: Json = list(self.events(turn, ()))[-1]["response"]
        return done

    def error(self, message: str) -> Json:
        return {"error": {"type": "server_error", "code": None, "message": message}}

    def limit(self, seconds: int) -> tuple[dict[str, str], Json]:
        error = {
            "type": "usage_limit_reached", "message": "The usage limit has been reached",
            "plan_type": "plus", "resets_at": int(time.time()) + seconds,
        }  # fmt: skip
        return {}, {"error": error}


class GenerateContent:
    """What gemini speaks."""

    named_events = False

    def understands(self, path: str) -> bool:
        return "generatecontent" in path.lower()

    def turn(self, query: Json) -> Turn:
        users = [c for c in query.get("contents") or [] if c.get("role") == "user"]
        prompts = [_joined(p.get("text", "") for p in u["parts"]) for u in users]
        ends = [any("functionResponse" in part for part in u["parts"]) for u in users]
        declared = [d for t in query.get("tools") or [] for d in t.get("functionDeclarations", [])]
        tools = frozenset(d["name"] for d in declared)
        return Turn(tuple(p for p in prompts if p), _true_at_the_end(ends), tools)

    def events(self, turn: Turn, calls: tuple[Call, ...]) -> Iterator[Json]:
        tokens_in, tokens_out = turn.steering.tokens_in, turn.steering.tokens_out
        parts: list[Json] = [{"functionCall": self._function(turn, one)} for one in calls]
        content = {"role": "model", "parts": parts or [{"text": ANSWER}]}
        usage = {
            "promptTokenCount": tokens_in, "candidatesTokenCount": tokens_out,
            "totalTokenCount": tokens_in + tokens_out,
        }  # fmt: skip
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": turn.model}

    @staticmethod
    def _function(turn: Turn, call: Call) -> Json:
        name, args = "run_shell_command", {"command": call.text}
        if call.kind == SERVER_CALL:
            name, args = _server_call(turn.tools, call)
        return {"name": name, "args": args}

    def whole(self, turn: Turn) -> Json:
        return next(self.events(turn, ()))

    def error(self, message: str) -> Json:
        return {"error": {"code": 500, "message": message, "status": "INTERNAL"}}

    def limit(self, seconds: int) -> tuple[dict[str, str], Json]:
        kind = "type.googleapis.com/google.rpc."
        violation = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
        }
        error = {
            "code": 429, "status": "RESOURCE_EXHAUSTED",
            "message": "You exceeded your current quota. "
            f"Please retry in {seconds}s.",
            "details": [
                {"@type": kind + "QuotaFailure", "violations": [violation]},
                {"@type": kind + "RetryInfo", "retryDelay": f"{seconds}s"},
            ],
        }  # fmt: skip
        return {}, {"error": error}


DIALECTS: tuple[Dialect, ...] = (Messages(), Responses(), GenerateContent())


_numbers = itertools.count(1)
_SUBAGENT = {"description": "as asked", "subagent_type": "general-purpose"}


def _true_at_the_end(flags: list[bool]) -> int:
    """How many of the last ones are true."""
    return sum(1 for _ in itertools.takewhile(bool, reversed(flags)))


def _fresh(kind: str) -> str:
    return f"{kind}_stub{next(_numbers)}"


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


class Stub(BaseHTTPRequestHandler):
    """Serves all dialects; which one is told by the path."""

    protocol_version = "HTTP/1.1"
    server: StubServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send_json({})

    def do_HEAD(self) -> None:
        self._send_json({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        dialect = next((d for d in DIALECTS if d.understands(path)), None)
        if dialect is None:
            self._send_json({})
            return
        query = json.loads(body or b"{}")
        turn = dialect.turn(query)
        self.server.note(path, turn)
        streamed = bool(query.get("stream")) or "stream" in path
        self._answer(dialect, turn, streamed)

    def _answer(self, dialect: Dialect, turn: Turn, streamed: bool) -> None:
        steering = turn.steering
        if steering.hang:
            threading.Event().wait()
        time.sleep(steering.delay_seconds)
        ends = time.monotonic() + 60
        while steering.until_path and not os.path.exists(steering.until_path):
            if time.monotonic() > ends:
                break
            time.sleep(0.05)
        if steering.fail_status is not None:
            self._send_json(dialect.error("asked to fail"), steering.fail_status)
        elif steering.limit_seconds is not None:
            headers, error = dialect.limit(steering.limit_seconds)
            self._send_json(error, 429, {"retry-after": str(steering.limit_seconds), **headers})
        elif streamed:
            self._send_events(list(dialect.events(turn, turn.calls)), dialect.named_events)
        else:
            self._send_json(dialect.whole(turn))

    def _send_json(
        self, value: Json, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, content in (headers or {}).items():
            self.send_header(name, content)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_events(self, events: list[Json], named: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True


class StubServer(ThreadingHTTPServer):
    """The stub as a server; `serve` runs it in this process, tests may run it in a thread."""

    daemon_threads = True

    def __init__(self, port: int, request_log: str | None = None) -> None:
        super().__init__(("127.0.0.1", port), Stub)
        self._request_log = request_log
        self._log_lock = threading.Lock()

    def note(self, path: str, turn: Turn) -> None:
        if self._request_log is None:
            return
        tools = sorted(turn.tools)
        row = {"path": path, "prompts": turn.prompts, "tool_result": turn.results > 0}
        row["tools"] = tools
        with self._log_lock, open(self._request_log, "a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")


def main() -> None:
    server = StubServer(int(sys.argv[1]), *sys.argv[2:3])
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
