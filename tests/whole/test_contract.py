"""Schemathesis asks what the API's own document allows, and what it forbids: no answer breaks it, none is a fault.

The document is the application's, so a new route is asked as soon as it exists. The same questions come on every run.
"""

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import httpx
import pytest
import requests
import schemathesis
import torch
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
    use_after_free,
)

from backend.app import create_app, openapi_text
from backend.models.steers import Steers
from backend.models.vectors import Vectors, digest
from backend.schema import Array, Problem, SteerCard, View
from backend.settings import Settings
from tests.routes.conftest import TinyShelf

DOCUMENT = json.loads(openapi_text())
ENDLESS = "/api/v1/tabs/{tab}/events"
"""A stream that lasts as long as its tab: tests/routes/test_tabs.py reads it."""
FOCUSED = {"/api/v1/tokens", "/api/v1/links"}
"""The routes that are asked about all of a view's focus. No other reads more of it than the token: `View.question`."""
BRIEF: dict[str, Any] = json.loads(openapi_text())
FOCUS = BRIEF["components"]["schemas"]["Focus"]
FOCUS["properties"] = {"token": FOCUS["properties"]["token"]}


def schema_of(document: dict[str, Any]) -> Any:
    """What schemathesis asks by."""
    return schemathesis.openapi.from_dict(document, config=SchemathesisConfig(seed=1)).exclude(path=ENDLESS)


ASKED = [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods if path != ENDLESS]
OPERATIONS = [
    pytest.param(method, path, id=f"{method} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
]
CHECKS = [
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    status_code_conformance,
    negative_data_rejection,
    unsupported_method,
]
LATER = {"loading", "busy", "waited", "out-of-memory"}
"""The Problems of a server that works and cannot answer now: the only ones with a status of 500 or more."""
SMALL_TEXTS = ["The cat sat.", "A dog barked."]
SMALL_SET = sha256(json.dumps(SMALL_TEXTS, separators=(",", ":")).encode()).hexdigest()
EXAMPLES = {
    "name": "moods", "plus": [f"A good day {place}." for place in range(20)],
    "minus": [f"A bad day {place}." for place in range(20)],
}  # fmt: skip
EXAMPLES_ID = sha256(
    json.dumps(
        [[text, label] for pole, label in (("plus", 1), ("minus", -1)) for text in EXAMPLES[pole]],
        separators=(",", ":"),
    ).encode()
).hexdigest()
STEER = {
    "kind": "steer", "name": "made", "left": Array.pack("f4", (32, 1), bytes(128)).model_dump(),
    "right": Array.pack("f4", (1, 32), bytes(128)).model_dump(),
}  # fmt: skip
SWEPT = STEER | {
    "name": "swept", "left": Array.pack("f4", (32, 2), bytes(256)).model_dump(),
    "right": Array.pack("f4", (2, 32), bytes(256)).model_dump(),
}  # fmt: skip
SWEPT_ID = digest("steer", {"left": torch.zeros(32, 2), "right": torch.zeros(2, 32)})
MOVED = {"left": torch.zeros(32, 3), "right": torch.zeros(3, 32)}
MOVED_CARD = SteerCard(
    kind="steer", name="moved", id="0" * 64, plus="+", minus="-", model="tiny-llama", digest="0" * 64, vocabulary="",
    width=32, rank=3,
)  # fmt: skip
UNKNOWN = {"not-found", "unknown-job", "unknown-set", "wrong-method"}
KEY = "a key of many characters"
SLOW = list(HealthCheck)


def served(**more: Any) -> Iterator[str]:
    """The application over tiny models, served from a thread for schemathesis, which is not asynchronous."""
    shelf = TinyShelf()
    for loaded in shelf.tiny.values():
        loaded.vectors = Vectors(more["cache_dir"])
    app = create_app(Settings(models=("tiny-llama",), wait_s=5, **more), shelf)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    with httpx.Client(base_url=address) as client:
        while client.get("/api/v1/ready", headers={"Authorization": f"Bearer {KEY}"}).status_code == 503:
            time.sleep(0.01)
        for path, body in (
            ("sets", {"name": "small", "texts": SMALL_TEXTS}),
            ("steers/examples", EXAMPLES),
            ("vectors", SWEPT),
        ):
            client.post(f"/api/v1/{path}", json=body, headers={"Authorization": f"Bearer {KEY}"})
    Steers(more["cache_dir"]).keep(MOVED_CARD, MOVED)
    yield address
    server.should_exit = True
    thread.join()


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    """Schemathesis 4.32 reads a test's name where pytest 9.2 keeps it no more."""
    request.node._nodeid = request.node.nodeid


@pytest.fixture(scope="module")
def schema() -> Any:
    """The whole document."""
    return schema_of(DOCUMENT)


@pytest.fixture(scope="module")
def brief_schema() -> Any:
    """The document with the token alone as a view's focus."""
    return schema_of(BRIEF)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same behind a key."""
    yield from served(cache_dir=tmp_path_factory.mktemp("cache"), key=KEY)


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for thousands of questions."""
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def sender() -> Iterator[httpx.Client]:
    """Sends what it is told; made once, for making one takes longer than a question."""
    with httpx.Client() as client:
        yield client


@pytest.fixture(scope="module")
def asked() -> set[str]:
    """What was asked so far: made sensible, most questions that keep to the schema are the same."""
    return set()


@pytest.fixture(scope="module")
def ended() -> Iterator[dict[str, set[int]]]:
    """The statuses of each operation's answers: where no question is answered, nothing is tested."""
    statuses: dict[str, set[int]] = defaultdict(set)
    yield statuses
    assert [label for label, seen in statuses.items() if not seen & {200, 201, 202, 204}] == []


def is_no_fault(response: Any) -> None:
    """A refusal is a Problem in words, and never a fault of the server."""
    if response.status_code < 400:
        return
    problem = Problem.model_validate_json(response.content)
    assert problem.status == response.status_code
    assert problem.what
    assert problem.why
    assert problem.instead
    assert problem.status < 500 or problem.type in LATER, problem


def sensible(case: Case) -> None:
    """What no schema can say, made true of a question that keeps to the schema, so that it reaches an answer."""
    if case.meta is None or not case.meta.generation.mode.is_positive or not isinstance(case.body, dict):
        return
    if isinstance(view := case.body.get("view"), dict):
        others = {name: value for name, value in view.items() if name not in ("revision", "text", "pair", "turns")}
        view.clear()
        edits, sampling = within(others.get("edits")), others.get("sampling") or {}
        others["sampling"] = sampling | {"tokens": min(sampling.get("tokens", 4), 4)}
        view.update(others, model="tiny-llama", text="The cat sat on the mat.", edits=edits)
    case.body.update(SENSIBLE.get(case.path, {}))
    for name in [name for name, value in case.body.items() if value is None]:
        del case.body[name]


WEIGHTS = {"model": "tiny-llama", "revision": None, "layer": 1, "head": 2}
TWO = {
    "model": "tiny-llama", "revision": None, "other": "tiny-llama", "other_revision": None, "reading": None,
    "by_string": False,
}  # fmt: skip
SENSIBLE: dict[str, dict[str, Any]] = {
    "/api/v1/trace/cell": {"layer": 1, "token": 3, "explain": {"token": 4}},
    "/api/v1/trace/contributions": {"explain": {"token": 3, "target": 7, "foil": 9}},
    "/api/v1/trace/switch": {"layer": 1, "unit": 5, "on": False},
    "/api/v1/capture": {"points": ["residual.0", "blocks.1.attn.hook_pattern"], "positions": None},
    "/api/v1/links": {"link": View(model="tiny-llama", text="The cat.").link()},
    "/api/v1/models": {"model": "tiny-gpt2", "revision": None},
    "/api/v1/sets": {"name": "mine", "texts": SMALL_TEXTS},
    "/api/v1/steers": {
        "model": "tiny-llama",
        "revision": None,
        "name": "mood",
        "examples": EXAMPLES_ID,
        "rank": 2,
        "steps": 1,
        "tokens": 16,
    },
    "/api/v1/steers/examples": {**EXAMPLES, "rows": None, "file": None, "format": None},
    "/api/v1/steers/direction": {
        "model": "tiny-llama",
        "revision": None,
        "examples": EXAMPLES_ID,
        "layer": 1,
        "tokens": 8,
        "held_out": 0.2,
    },
    "/api/v1/steers/transfer": {
        "steer": digest("steer", MOVED),
        "model": "tiny-llama",
        "revision": None,
        "name": "there",
        "ridge": 0.0,
        "examples": None,
    },
    "/api/v1/steers/sweep": {
        "steer": SWEPT_ID,
        "strengths": [0, 1],
        "layer": None,
        "other": None,
        "other_strengths": [],
        "other_layer": None,
        "examples": None,
        "prompts": ["The cat sat"] * 8,
        "tokens": 1,
        "texts": 8,
    },
    "/api/v1/trace/effects": {
        "parts": "heads",
        "heads": [{"layer": 1, "head": 2}],
        "units": [],
        "removal": "zero",
        "set": None,
        "explain": {},
    },
    "/api/v1/values": {"model": "tiny-llama", "revision": None, "layer": 1, "unit": 5, "reading": "folded"},
    "/api/v1/values/search": {"model": "tiny-llama", "revision": None, "words": ["the"]},
    "/api/v1/values/fires": {"view": {"model": "tiny-llama", "text": "a"}, "layer": 0, "unit": 0},
    "/api/v1/values/lookup": {"model": "tiny-llama", "revision": None, "words": ["the"]},
    "/api/v1/weights/pairs": WEIGHTS | {"circuit": "vo", "top": 9},
    "/api/v1/weights/line": WEIGHTS | {"circuit": "qk", "token": 30},
    "/api/v1/weights/subheads": WEIGHTS | {"part": "q"},
    "/api/v1/weights/head": WEIGHTS,
    "/api/v1/weights/changes": {**TWO, "layer": None},
    "/api/v1/weights/stitching": {
        **TWO,
        "examples": None,
        "set": None,
        "texts": 2,
        "tokens": 8,
        "cuts": [1],
        "last": None,
        "positive": None,
        "negative": None,
    },
    "/api/v1/weights/alignment": {**TWO, "groups": ["value"]},
    "/api/v1/weights/lookup": {"model": "tiny-llama", "revision": None, "words": ["the"], "limit": 3},
    "/api/v1/weights/overlaps": {"model": "tiny-llama", "revision": None, "layer": 1, "k": 20},
    "/api/v1/weights/tables": {"model": "tiny-llama", "revision": None, "top": 5, "distance": 0, "filters": {}},
    "/api/v1/weights/heads": {"model": "tiny-llama", "revision": None, "top": 5},
    "/api/v1/weights/keep": {"model": "tiny-llama", "revision": None, "count": 9, "ks": [5], "set": SMALL_SET},
    "/api/v1/weights/active": {"model": "tiny-llama", "revision": None, "k": 9, "active": 2, "set": SMALL_SET},
    "/api/v1/weights/known": {
        "heads": None,
        "tables": None,
        "keep": {"model": "tiny-llama", "count": 9},
        "active": None,
        "similarity": None,
        "changes": None,
        "alignment": None,
        "stitching": None,
    },
    "/api/v1/weights/similarity": {"model": "tiny-llama", "revision": None, "k": 9, "count": 9},
    "/api/v1/trace/patch": {
        "source": {"model": "tiny-llama", "text": "The dog sat on the mat."},
        "places": [{"tap": "residual", "layer": 1, "token": 2}, {"tap": "heads", "layer": 0, "head": 1, "token": 0}],
    },
    "/api/v1/trace/patch/map": {
        "source": {"model": "tiny-llama", "text": "The cat sat on the mat."},
        "tap": "heads",
        "heads": [{"layer": 1, "head": 2}],
        "explain": {},
    },
    "/api/v1/steer": {"token": 3},
    "/api/v1/steer/inside": {"model": "tiny-llama", "revision": None, "steer": SWEPT_ID},
    "/api/v1/trace/mean": {"tap": "ffn", "layer": 1, "unit": 3, "head": None, "set": SMALL_SET},
    "/api/v1/vectors": {
        "kind": "direction",
        "name": "a",
        "vector": Array.pack("f4", (2,), bytes(8)).model_dump(),
        "left": None,
        "right": None,
    },
}
"""Fields whose values no schema can describe well enough; None: left out."""


VIEWS = {
    name
    for schema in DOCUMENT["components"]["schemas"].values()
    for name, field in schema.get("properties", {}).items()
    if field == {"$ref": "#/components/schemas/View"}
}
"""The fields of questions that are whole views."""


def news_of(case: Case) -> set[str]:
    """What a question has to say, in parts: one that has said it all before is not asked again.

    All routes read a view by one schema and refuse a wrong one alike, so that each way to be wrong is asked of one
    route, and some of each.
    """
    sent = case.as_transport_kwargs()
    del sent["headers"]["X-Schemathesis-TestCaseId"]
    sent["headers"] = sorted(sent["headers"].items())
    mode, body = case.meta.generation.mode if case.meta is not None else None, sent.get("json")
    views = {}
    if isinstance(body, dict) and not (mode and mode.is_positive):
        views = {name: body[name] for name in VIEWS if isinstance(body.get(name), dict)}
        sent["json"] = body | dict.fromkeys(views)
    return {repr((case.operation.label, mode, sent)), *(repr((mode, view)) for view in views.values())}


def within(edits: Any) -> list[dict[str, Any]]:
    """Edits of parts that the tiny model has, without stored vectors."""
    parts = {"layer": 3, "head": 4, "unit": 64}
    return [
        {name: value % parts[name] if name in parts else value for name, value in edit.items() if name != "at"}
        for edit in edits or []
        if not any(isinstance(edit.get(name), str) for name in ("to", "vector", "steer"))
    ]


def question_of(method: str, path: str) -> Any:
    """The test of one operation; its questions are made when it runs, and not wherever tests are collected."""
    schema = schemathesis.pytest.from_fixture("schema" if path in FOCUSED else "brief_schema")

    @settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=SLOW,
    )
    @schema.include(method=method.upper(), path=path).parametrize()
    def test_no_question_breaks_the_contract(
        case: Case, address: str, session: requests.Session, asked: set[str], ended: dict[str, set[int]]
    ) -> None:
        sensible(case)
        if case.path == "/api/v1/jobs/{id}" and case.meta is not None and case.meta.generation.mode.is_positive:
            case.path_parameters = {"id": httpx.get(f"{address}/api/v1/jobs").json()[0]["id"]}
        if case.path == "/api/v1/sets/{id}" and case.meta is not None and case.meta.generation.mode.is_positive:
            case.path_parameters = {"id": httpx.get(f"{address}/api/v1/sets").json()["sets"][0]["id"]}
        if case.path == "/api/v1/steers/examples/{id}" and case.meta.generation.mode.is_positive:
            case.path_parameters = {"id": httpx.get(f"{address}/api/v1/steers/examples").json()["sets"][0]["id"]}
        if case.path == "/api/v1/steers/{id}" and case.meta.generation.mode.is_positive:
            case.path_parameters = {"id": httpx.post(f"{address}/api/v1/vectors", json=STEER).json()["id"]}
        if case.path == "/api/v1/steers" and case.method == "GET" and case.meta.generation.mode.is_positive:
            case.query = {"model": "tiny-llama"}
        if not (news := news_of(case) - asked):
            return
        asked |= news
        response = case.call(base_url=address, session=session)
        ended[case.operation.label].add(response.status_code)
        is_no_fault(response)
        case.validate_response(response, checks=CHECKS)
        if response.status_code == 202:  # what the job finds is no answer to this question
            session.delete(f"{address}/api/v1/jobs/{response.json()['id']}")

    return test_no_question_breaks_the_contract


# Each operation has a test of its own name, so that the workers share them and a failure says which it is.
globals().update(
    {
        f"test_no_question_breaks_the_contract_of_{method}_{re.sub('[^a-z]+', '_', path.removeprefix('/api/v1/'))}":
        question_of(method, path)
        for method, path in ASKED
    }
)  # fmt: skip


def test_no_chain_of_questions_breaks_the_contract(address: str, schema: Any) -> None:
    class Journey(schema.as_state_machine()):  # type: ignore[misc]
        """One question after the other, with the ids that the answers before it gave."""

        def before_call(self, case: Case) -> None:
            sensible(case)

        def call(self, case: Case, **kwargs: Any) -> Any:
            return case.call(base_url=address)

        def validate_response(self, response: Any, case: Case, **_: Any) -> None:
            is_no_fault(response)
            case.validate_response(response, checks=[*CHECKS, use_after_free])

    Journey.run(
        settings=settings(
            max_examples=10,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            stateful_step_count=6,
            suppress_health_check=SLOW,
        )
    )


def filled(path: str) -> str:
    """The address with something in the place of each name."""
    return path.format(name="tiny-llama", id="0" * 32, tab="00000000-0000-4000-8000-000000000000")


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_route_asks_for_the_key_where_there_is_one(
    method: str, path: str, locked: str, sender: httpx.Client
) -> None:
    answer = sender.request(method, locked + filled(path), headers={"Authorization": f"Bearer {KEY}x"})
    if path == "/api/v1/health":
        assert answer.status_code == 200
        return
    assert Problem.model_validate_json(answer.content).type == "key-needed"
    assert KEY not in answer.text


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_route_refuses_another_host(method: str, path: str, address: str, sender: httpx.Client) -> None:
    answer = sender.request(method, address + filled(path), headers={"Host": "rebound.example"})
    assert Problem.model_validate_json(answer.content).type == "wrong-host"


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_route_that_changes_something_refuses_another_site(
    method: str, path: str, address: str, sender: httpx.Client
) -> None:
    if method == "get":
        assert "post" not in path
        return
    answer = sender.request(method, address + filled(path), headers={"Origin": "https://elsewhere.example"})
    assert Problem.model_validate_json(answer.content).type == "forbidden"


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_every_address_names_its_methods_and_knows_no_address_beside_it(
    path: str, address: str, sender: httpx.Client
) -> None:
    for method in {"PUT", "PATCH", "OPTIONS", "TRACE"} - {name.upper() for name in DOCUMENT["paths"][path]}:
        answer = sender.request(method, address + filled(path))
        assert Problem.model_validate_json(answer.content).type == "wrong-method"
        assert answer.headers["allow"].split(", ") == [name.upper() for name in DOCUMENT["paths"][path]]
    answer = sender.get(address + path.replace("{", "").replace("}", "") + "-nothing")
    assert Problem.model_validate_json(answer.content).type in (
        "not-found",
        "unknown-job",
        "unknown-set",
        "wrong-method",
    )
