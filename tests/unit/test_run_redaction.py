from __future__ import annotations

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.run import redaction
from holdfast.run.redaction import REDACTED, redact_argv, redact_text, secrets_in

R = REDACTED


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["x", "--api-key", "abc"], ["x", "--api-key", R]),
        (["x", "--openai-api-key", "abc"], ["x", "--openai-api-key", R]),
        (["x", "--token=abc def"], ["x", f"--token={R}"]),
        (["x", "-password", "abc"], ["x", "-password", R]),
        (["x", "--PASSWORD", "abc"], ["x", "--PASSWORD", R]),
        (["x", "--token", "--verbose"], ["x", "--token", "--verbose"]),
        (["x", "--token"], ["x", "--token"]),
        (["env", "ANTHROPIC_API_KEY=a b"], ["env", f"ANTHROPIC_API_KEY={R}"]),
        (["env", "GITHUB_TOKEN=abc", "A=1"], ["env", f"GITHUB_TOKEN={R}", "A=1"]),
        (["env", "AWS_CREDENTIALS=abc"], ["env", f"AWS_CREDENTIALS={R}"]),
        (["-e", "db_password=abc"], ["-e", f"db_password={R}"]),
        (["git", "clone", "https://me:pw1@h/x"], ["git", "clone", f"https://me:{R}@h/x"]),
        (["sh", "-c", "export API_KEY=abc; go"], ["sh", "-c", f"export API_KEY={R}; go"]),
        (["sh", "-c", 'x --token "abc12345"'], ["sh", "-c", f'x --token "{R}"']),
    ],
)
def test_secrets_in_arguments_are_replaced(argv: list[str], shown: list[str]):
    assert redact_argv(argv) == shown


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-AbCdEfGh12345678",
        "sk-proj-AbCdEfGh1234567890",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "glpat-abcdefghij1234567890",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghij",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "Bearer abcdef0123456789abcdef",
        "x-api-key: abcdef0123456789",
    ],
)
def test_well_known_shapes_are_replaced_anywhere(secret: str):
    shown = redact_text(f'curl -H "{secret}" and go on')
    assert R in shown
    assert secret[-12:] not in shown
    assert shown.endswith("and go on")


def test_a_private_key_is_replaced_whole():
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----"
    assert "MIIE" not in redact_text(f"use {key} now")
    assert redact_text(f"use {key} now").endswith("-----END RSA PRIVATE KEY----- now")


@pytest.mark.parametrize(
    "prompt",
    [
        "fix the token=parse(x) bug in lexer.py",
        "add a --token option and a --password option to the CLI",
        "the primary key=id, and MONKEY=1 must stay",
        "set --max-tokens 4096 and explain Bearer authentication",
        "the task-force-on-issue-1234567 branch; sk-learn is fine",
        "see https://example.com:8080/a@b and mail me@example.com",
        "use npm-check-updates-with-a-long-name-2 and hf_hub_download_with_1_argument",
        "git log --author=me --since=2.weeks",
        "authorization: who may do what?",
        "",
    ],
)
def test_ordinary_prompts_are_not_mangled(prompt: str):
    assert redact_text(prompt) == prompt
    assert redact_argv(["claude", "-p", prompt]) == ["claude", "-p", prompt]


def test_one_secret_among_many_words_is_found_and_no_word_is_joined_to_the_next():
    words = ["make", "-j8", *map(str, range(50))]
    assert redact_argv(words) == words
    assert redact_argv([*words, "--Api-Key", "abc", "x"]) == [*words, "--Api-Key", REDACTED, "x"]
    assert redact_argv(["--to", "ken", "abc"]) == ["--to", "ken", "abc"]


def test_redacting_twice_changes_nothing_more():
    once = redact_argv(["x", "--api-key", "abc", "TOKEN=x", "Bearer abcdef0123456789abcdef"])
    assert redact_argv(once) == once


@pytest.mark.parametrize("pattern", [*redaction._IN_TEXT, redaction._OPTION, redaction._WHOLE])
def test_every_pattern_needs_one_of_the_signs(pattern):
    """No secret is missed because the patterns were not tried."""

    @settings(max_examples=50, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(re.compile(pattern, re.IGNORECASE), fullmatch=True))
    def check(text):
        assert redaction._may_hold_a_secret(text)

    check()


LONG_TEXTS = [
    *("word.", "a://b:", "://a:b", "x.y+z-", "eyJ-", "eyJaaaaaaaaaa.", "-eyJaaaaaaaaaa", "sk-"),
    *("-a-key", "--token ", "--secret= ", "A_KEY_", "KEY='", "bearer  ", "basic\t", "api-key:\n"),
    *("authorization: ", "-----BEGIN A", "-----BEGIN PRIVATE KEY-----", "xoxb-", "github_pat_a"),
]


@pytest.mark.parametrize("piece", LONG_TEXTS)
def test_redaction_takes_no_longer_than_the_text_is_long(piece):
    """A text of 400 KB, which took minutes when each word of it was tried anew."""
    text = "the key " + piece * (400_000 // len(piece))
    began = time.process_time()
    redact_text(text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("before", ["", "x", "token-", "a=", "x.", "'"])
def test_a_web_token_is_replaced_wherever_it_stands(before):
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
    expected = before == "x"  # a part of a longer word
    assert (token in redact_text(f"see {before}{token} there")) is expected


def test_a_password_in_an_address_is_replaced_wherever_it_stands():
    for address in ("https://u:pw12@h/x", ".git+ssh://u:pw12@h", "1x://:pw12@h"):
        assert "pw12" not in redact_text(f"clone {address} now")


_PARTS = st.sampled_from([*"A_9a= ", "KEY", "API", "APIKEY", "TOKEN", "SECRET", "CREDENTIALS", "S"])


@given(st.lists(_PARTS, max_size=4).map("".join))
def test_a_variable_names_a_secret_as_the_pattern_for_texts_says(name: str):
    is_secret = re.fullmatch(redaction._VARIABLE, name) is not None
    assert bool(secrets_in({name: "value"})) is is_secret
