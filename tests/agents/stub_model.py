#!/usr/bin/env python3
"""A pretend model on loopback: the real claude, codex and gemini complete turns against it.

The newest prompt of a conversation steers the answer (older ones, as in a resumed session, don't):

    [[run: CMD]]    first ask for CMD through the agent's shell tool, then answer
    [[delay: S]]    wait S seconds before answering
    [[hang]]        take the request and never answer
    [[fail: N]]     answer with HTTP status N
    [[limit]]       answer as a used-up quota does; [[limit: S]] says "again in S seconds" (60)

Usage: stub_model.py PORT [REQUEST_LOG]     port 0 picks a free one; it is printed first
REQUEST_LOG gets one JSON line per model request: {"path", "prompts", "tool_result"}.
"""

from __future__ import annotations

import json
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


@dataclass(frozen=True)
class Steering:
    """What the prompt asks of the stub."""

    command: str | None = None
    delay_seconds: float = 0.0
    hang: bool = False
    fail_status: int | None = None
    limit_seconds: int | None = None

    @classmethod
    def of(cls, prompt: str) -> Steering:
        words = {m[1]: m[2] for m in re.finditer(r"\[\[(\w+)(?:: *(.*?))?\]\]", prompt, re.DOTALL)}
        return cls(
            command=words.get("run"),
            delay_seconds=float(words.get("delay") or 0),
            hang="hang" in words,
            fail_status=int(words["fail"]) if words.get("fail") else None,
            limit_seconds=int(words["limit"] or 60) if "limit" in words else None,
        )


@dataclass(frozen=True)
class Turn:
    """One request to the model, in no API's own terms."""

    prompts: tuple[str, ...]
    has_tool_result: bool
    tools: frozenset[str]
    model: str = "stub"

    @property
    def steering(self) -> Steering:
        return Steering.of(self.prompts[-1] if self.prompts else "")

    @property
    def command(self) -> str | None:
        """The command to ask for now. Side requests (a title, a summary) offer no tools."""
        return self.steering.command if self.tools and not self.has_tool_result else None


class Dialect(Protocol):
    """One vendor's API."""

    named_events: bool

    def understands(self, path: str) -> bool: ...
    def turn(self, query: Json) -> Turn: ...
    def events(self, turn: Turn, command: str | None) -> Iterator[Json]: ...
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
        answered = any(b.get("type") == "tool_result" for b in (blocks[-1] if blocks else []))
        tools = frozenset(t["name"] for t in query.get("tools") or [])
        return Turn(tuple(p for p in prompts if p), answered, tools, query.get("model", "stub"))

    def events(self, turn: Turn, command: str | None) -> Iterator[Json]:
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": ANSWER}
        if command is not None:
            block = {"type": "tool_use", "id": "toolu_stub", "name": "Bash", "input": {}}
            asked = json.dumps({"command": command, "description": "as asked"})
            delta = {"type": "input_json_delta", "partial_json": asked}
        message: Json = {
            "id": "msg_stub", "type": "message", "role": "assistant", "content": [],
            "model": turn.model, "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": TOKENS_IN, "output_tokens": 1},
        }  # fmt: skip
        stop = {"stop_reason": "tool_use" if command else "end_turn", "stop_sequence": None}
        yield {"type": "message_start", "message": message}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": TOKENS_OUT}}
        yield {"type": "message_stop"}

    def whole(self, turn: Turn) -> Json:
        message: Json = next(self.events(turn, None))["message"]
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
        answered = bool(items) and items[-1].get("type", "").endswith("_call_output")
        tools = frozenset(t.get("name", "") for t in query.get("tools") or [])
        return Turn(tuple(p for p in prompts if p), answered, tools)

    def events(self, turn: Turn, command: str | None) -> Iterator[Json]:
        item: Json = {
            "type": "message", "id": "msg_stub", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        }  # fmt: skip
        if command is not None:
            item = {"type": "function_call", "id": "fc_stub", "call_id": "call_stub"}
            item |= self._shell_call(turn.tools, command)
        response: Json = {"id": "resp_stub", "object": "response", "output": []}
        usage = {
            "input_tokens": TOKENS_IN, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": TOKENS_OUT, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": TOKENS_IN + TOKENS_OUT,
        }  # fmt: skip
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": done}

    @staticmethod
    def _shell_call(tools: frozenset[str], command: str) -> Json:
        if "exec_command" in tools:
            return {"name": "exec_command", "arguments": json.dumps({"cmd": command})}
        if "shell_command" in tools:
            return {"name": "shell_command", "arguments": json.dumps({"command": command})}
        return {"name": "shell", "arguments": json.dumps({"command": ["sh", "-c", command]})}

    def whole(self, turn: Turn) -> Json:
        done: Json = list(self.events(turn, None))[-1]["response"]
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
        last = users[-1]["parts"] if users else []
        declared = [d for t in query.get("tools") or [] for d in t.get("functionDeclarations", [])]
        tools = frozenset(d["name"] for d in declared)
        answered = any("functionResponse" in part for part in last)
        return Turn(tuple(p for p in prompts if p), answered, tools)

    def events(self, turn: Turn, command: str | None) -> Iterator[Json]:
        part: Json = {"text": ANSWER}
        if command is not None:
            part = {"functionCall": {"name": "run_shell_command", "args": {"command": command}}}
        content = {"role": "model", "parts": [part]}
        usage = {
            "promptTokenCount": TOKENS_IN, "candidatesTokenCount": TOKENS_OUT,
            "totalTokenCount": TOKENS_IN + TOKENS_OUT,
        }  # fmt: skip
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": turn.model}

    def whole(self, turn: Turn) -> Json:
        return next(self.events(turn, None))

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
        if steering.fail_status is not None:
            self._send_json(dialect.error("asked to fail"), steering.fail_status)
        elif steering.limit_seconds is not None:
            headers, error = dialect.limit(steering.limit_seconds)
            self._send_json(error, 429, {"retry-after": str(steering.limit_seconds), **headers})
        elif streamed:
            self._send_events(list(dialect.events(turn, turn.command)), dialect.named_events)
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
        row = {"path": path, "prompts": turn.prompts, "tool_result": turn.has_tool_result}
        with self._log_lock, open(self._request_log, "a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")


def main() -> None:
    server = StubServer(int(sys.argv[1]), *sys.argv[2:3])
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
