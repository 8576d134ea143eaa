"""Which callers are proven: tokens in a file, in the path or as bearer."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.admission.heads import CallerTokens, split_path
from app.admission.review import Request, decode
from app.errors import Denied, UsageError

OLD, NEW = "0" * 64, "z" * 128


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/mutate", ("/mutate", "")),
        (f"/mutate/{OLD}", ("/mutate", OLD)),
        (f"/mutate/{NEW}", ("/mutate", NEW)),
        (f"/mutate/{OLD[1:]}", (f"/mutate/{OLD[1:]}", "")),
        (f"/mutate/{NEW}z", (f"/mutate/{NEW}z", "")),
        (f"/mutate/{OLD[1:]}A", (f"/mutate/{OLD[1:]}A", "")),
        (f"/mutate/{OLD}/", (f"/mutate/{OLD}/", "")),
        (f"/{OLD}", (f"/{OLD}", "")),
        ("", ("", "")),
    ],
)
def test_the_token_is_the_last_segment_of_a_path(path: str, expected: tuple[str, str]) -> None:
    assert split_path(path) == expected


def test_every_token_of_the_file_proves_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{OLD}\n{NEW}\n")
    tokens = CallerTokens(str(file))
    for token in (OLD, NEW):
        assert tokens.proves(token, ())
        assert tokens.proves("", [(b"authorization", f"Bearer {token}".encode())])
    assert not tokens.proves("", ())
    assert not tokens.proves("1" * 64, [(b"authorization", b"Basic " + OLD.encode()), (b"x-token", OLD.encode())])
    assert not tokens.proves("", [(b"authorization", b"Bearer \xff")])


def test_the_file_is_followed_and_a_broken_one_leaves_the_tokens(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(OLD)
    tokens = CallerTokens(str(file))
    file.write_text("short")
    tokens.look()
    assert tokens.proves(OLD, ())
    file.write_text(NEW)
    tokens.look()
    assert (tokens.proves(OLD, ()), tokens.proves(NEW, ())) == (False, True)


@pytest.mark.parametrize("text", ["", "\n", "short", f"{OLD}\nSECRET{OLD}"])
def test_a_file_without_tokens_ends_the_start_and_no_message_repeats_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"--caller-token-file: .*want") as refusal:
        CallerTokens(str(file))
    assert "SECRET" not in str(refusal.value)


def test_a_missing_file_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--caller-token-file: .*No such file"):
        CallerTokens(str(tmp_path / "none"))


def test_no_body_proves_its_caller() -> None:
    body = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","proven":true}}'
    request = decode(body).request
    assert not request.proven
    with pytest.raises(Denied) as refusal:
        request.check_proven()
    assert (refusal.value.code, refusal.value.reason) == (403, "UnprovenCaller")
    request.prove()
    request.check_proven()
    assert not Request("u").proven
