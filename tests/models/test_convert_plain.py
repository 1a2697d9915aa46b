"""A folder that is copied says nothing less than the text it is given."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from backend.models.convert import conversion
from backend.models.progress import silent
from tests import tiny


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    source = tiny.folder("bert", tmp_path / "source")
    pieces = json.loads((source / "tokenizer.json").read_text())
    pieces["truncation"] = {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0}
    pieces["padding"] = {
        "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]",
    }  # fmt: skip
    (source / "tokenizer.json").write_text(json.dumps(pieces))
    (tmp_path / "target").mkdir()
    conversion("plain")({path.name: path for path in source.iterdir()}, tmp_path / "target", silent)
    return tmp_path / "target"


def test_a_tokenizer_that_would_clip_or_pad_no_longer_does(converted: Path) -> None:
    backend = AutoTokenizer.from_pretrained(converted).backend_tokenizer
    assert backend.truncation is None
    assert backend.padding is None
    assert len(backend.encode("the quick brown fox jumps over the lazy dog").ids) > 6


def test_the_weights_are_copied_byte_for_byte(converted: Path) -> None:
    source = converted.parent / "source"
    assert (converted / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
