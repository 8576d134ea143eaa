"""The bare process imports what Berth's libraries are, and nothing of Berth."""

from __future__ import annotations

from bench.bare_start import libraries


def test_neither_the_standard_library_nor_this_project_is_a_library() -> None:
    names = ["json", "encodings.utf_8", "app", "app.kube.client", "bench.load", "msgspec", "uvicorn.protocols.http"]
    assert libraries(names) == ["msgspec", "uvicorn.protocols.http"]
