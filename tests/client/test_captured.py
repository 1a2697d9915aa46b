"""What a client makes of a capture's bytes: whole ones open, and nothing else passes for one."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.schema import CaptureAbout, CapturedTensor, Conditions, Problem, View
from backend.schema.capture import ABOUT, CUT, MEDIA_TYPE
from lmscope.captured import Arriving, Captured
from lmscope.client import AsyncClient, Refused

CONDITIONS = Conditions(
    model="m", revision="", digest="0" * 64, quantisation="none", dtype="bfloat16", device="cpu", kernel="eager",
    versions={},
)  # fmt: skip
VALUES = np.array([[1.5, -2.0, 0.0078125], [3.0, np.inf, -0.0]], "<f4")
PROBLEM = Problem(type="out-of-memory", status=503, what="No room", why="it is full", instead="Wait", request="r7")


def file_of(values: np.ndarray[Any, Any] = VALUES, dtype: str = "F32") -> bytes:
    tensor = CapturedTensor(place="final", axes=("T", "D"), unit="", about="")
    about = CaptureAbout(conditions=CONDITIONS, ids=(1, 2), positions=(0, 1), view="v", tensors={"final": tensor})
    header = json.dumps({
        "__metadata__": {ABOUT: about.model_dump_json()},
        "final": {"dtype": dtype, "shape": values.shape, "data_offsets": [0, values.nbytes]},
    }).encode()  # fmt: skip
    return len(header).to_bytes(8, "little") + header + values.tobytes()


def answering(*chunks: bytes, whole: bool = True, kind: str = MEDIA_TYPE) -> AsyncClient:
    """A client of a server that says this and nothing else."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return AsyncClient(app=app)


@given(st.lists(st.integers(0, 600), max_size=5).map(sorted))
async def test_it_opens_however_the_bytes_are_cut_on_the_way(cuts: list[int]) -> None:
    body = file_of()
    edges = [0, *cuts, len(body)]
    chunks = [body[first:last] for first, last in pairwise(edges)]
    async with answering(*chunks) as client:
        found = await client.capture(View(model="m", text="a"), "final")
    assert np.array_equal(found["final"], VALUES)
    assert (found.ids, found.positions, found.axes) == ((1, 2), (0, 1), {"final": ("T", "D")})


def test_half_precision_opens_as_float32_exactly() -> None:
    upper = (VALUES.view("<u4") >> 16).astype("<u2")
    found = Captured(memoryview(file_of(upper, "BF16")))
    assert found["final"].dtype == np.float32
    assert np.array_equal(found["final"], VALUES)
    assert np.array_equal(np.signbit(found["final"]), np.signbit(VALUES))


@pytest.mark.parametrize("into", [None, "kept.safetensors"])
@pytest.mark.parametrize("whole", [True, False])
async def test_a_stream_that_ends_early_is_refused_with_the_server_s_reason(
    tmp_path: Path, into: str | None, whole: bool
) -> None:
    body = file_of()[:-7] + CUT + PROBLEM.model_dump_json().encode()
    async with answering(body[:100], body[100:], whole=whole) as client:
        with pytest.raises(Refused) as caught:
            await client.capture(View(model="m", text="a"), "final", into=into and tmp_path / into)
    assert caught.value.problem == PROBLEM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (file_of()[:-1], False),
        (file_of()[:-1], True),
        (file_of() + b"x", True),
        (file_of()[:20], True),
        (b"", True),
        (b"\xff" * 64, True),
        ((9).to_bytes(8, "little") + b"not json!", True),
        ((2).to_bytes(8, "little") + b"{}", True),
        (file_of()[:-3] + CUT + b"{}", True),
    ],
)
async def test_what_is_no_whole_capture_is_refused(tmp_path: Path, body: bytes, whole: bool) -> None:
    for into in (None, tmp_path / "kept.safetensors"):
        async with answering(body, whole=whole) as client:
            with pytest.raises(Refused) as caught:
                await client.capture(View(model="m", text="a"), "final", into=into)
        assert caught.value.problem.type == "cut-short"
    assert list(tmp_path.iterdir()) == []


async def test_another_server_is_not_taken_for_lmscope() -> None:
    async with answering(b"<html>", kind="text/html") as client:
        with pytest.raises(Refused) as caught:
            await client.capture(View(model="m", text="a"), "final")
    assert caught.value.problem.type == "not-lmscope"


def test_a_capture_of_another_version_says_so() -> None:
    body = file_of().replace(b"positions", b"positiens")
    with pytest.raises(Refused) as caught:
        Captured(memoryview(body))
    assert caught.value.problem.type == "other-version"


def test_a_file_that_cannot_be_written_is_known_before_anybody_is_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Arriving(tmp_path / "no such folder" / "kept.safetensors")


def test_numbers_of_a_file_stay_on_the_disk_until_they_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "kept.safetensors").write_bytes(file_of())
    found = Captured.open(tmp_path / "kept.safetensors")
    assert np.array_equal(found["final"], VALUES)
    with pytest.raises(ValueError, match="read-only"):
        found["final"][0] = 1
