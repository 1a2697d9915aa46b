"""The tokenizers of the package models on odd text, and the default model's surprise on a plain sentence."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from backend.errors import BadQuestion
from backend.models.opening import open_folder
from backend.models.tokens import answer, tokenise
from backend.schema import Limits, Source, TokensAsk, Turn, View
from tests.models.test_tokens_answer import values

pytestmark = pytest.mark.pretrained
ROOM = Limits.model_validate({"tokens": 4096})
CACHE = Path(os.environ.get("LMSCOPE_CACHE_DIR", Path(__file__).parents[2] / "models_cache"))
NAMES = ("smollm2-135m-instruct", "all-minilm-l6-v2", "splade-bert-tiny", "glassllm-en", "glassllm-pt", "rampart")
ODD = (
    "Hello World, Seán 東京 👩‍👩‍👧 e\u0301!\n\n  שלום\x00 \ufb01",
    " ", "\x00", "<s></s>[MASK]<|im_end|>", "﷽" * 3, "a" * 5000,
    "\u200d\ufeff", "1234567890 × 3.14", "don't — “quoted”…",
)  # fmt: skip


def folder(name: str) -> Path:
    found = sorted((CACHE / "models").glob(f"{name}@*"))
    assert found, f"the package model {name} is not in {CACHE}; fetch it with `make setup`"
    return found[-1]


@cache
def tokenizer_of(name: str) -> Any:
    return AutoTokenizer.from_pretrained(folder(name), local_files_only=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ODD)
def test_odd_text_keeps_its_ids_and_places(name: str, text: str) -> None:
    tokenizer = tokenizer_of(name)
    try:
        found = tokenise(tokenizer, View(model=name, text=text), context=None, limits=ROOM)
    except BadQuestion:
        wordpieces = type(tokenizer).__name__.startswith("Bert")
        assert wordpieces or len(text) > ROOM.tokens
        return
    assert list(found.ids) == tokenizer(text).input_ids
    placed = [(token.start, token.end) for token in found.tokens if token.start is not None]
    assert placed == sorted(placed, key=lambda span: span[0])
    if name.startswith("smollm2"):
        assert "".join(token.piece for token in found.tokens) == text


def test_the_default_models_chat_is_what_its_template_makes() -> None:
    tokenizer = tokenizer_of("smollm2-135m-instruct")
    turns = (Turn(role="user", content=" Hi "), Turn(role="assistant", content="Yes."), Turn(role="user", content="é"))
    found = tokenise(tokenizer, View(model="m", turns=turns), context=None, limits=ROOM)
    messages = [turn.model_dump() for turn in turns]
    assert list(found.ids) == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert "".join(token.piece for token in found.tokens if token.role == "text") == " Hi Yes.é"


def test_the_default_model_expects_paris_and_not_a_banana() -> None:
    source = Source(kind="folder", name="smollm2")
    opened = open_folder(folder("smollm2-135m-instruct"), name="smollm2", source=source, digest="")

    def rank(text: str) -> int:
        found = answer(opened, TokensAsk(view=View(model="smollm2", text=text)), ROOM)
        return int(values(found.scores.rank)[-1])

    assert rank("The capital of France is Paris") == 0
    assert rank("The capital of France is banana") > 1000
