"""`lmscope steers` lists, shows, makes again and removes, and says how far its numbers are from the product's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from backend.models import snippets
from backend.models.steers import Steers
from backend.models.vectors import VectorCard, Vectors
from backend.schema import ExamplesAsk, SteerCard
from lmscope.cli import app
from tests import tiny

FOX = tuple(f"The quick brown fox jumps over {n} lazy dogs." for n in range(24))
CAT = tuple(f"Off with her head! said the Queen {n}." for n in range(24))
NUMBERS = {"left": torch.ones(32, 2), "right": torch.arange(64.0).reshape(2, 32)}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and nothing that comes with the product."""
    monkeypatch.setenv("LMSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for module in ("steers", "vectors"):
        monkeypatch.setattr(f"backend.models.{module}.SHIPPED", tmp_path / "shipped")
    return tmp_path / "cache"


def told(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["steers", *arguments])


def card(**changes) -> SteerCard:
    about = {
        "kind": "steer", "name": "mood", "id": "0" * 64, "plus": "glad", "minus": "sad", "model": "tiny", "width": 32,
        "digest": "d" * 64, "vocabulary": "e" * 64, "rank": 2,
    }  # fmt: skip
    return SteerCard(**about | changes)


def test_steers_are_listed_shown_and_removed(cache, tmp_path):
    ours = Steers(tmp_path / "shipped").keep(card(name="ours"), NUMBERS)
    mine = Steers(cache).keep(card(), {name: tensor + 1 for name, tensor in NUMBERS.items()})
    sent = Vectors(cache).keep(VectorCard(kind="steer", name="sent"), {name: -part for name, part in NUMBERS.items()})
    listed = told().stdout
    assert listed == told("list").stdout
    assert [name for name in ("ours", "mood", "sent") if name in listed] == ["ours", "mood", "sent"]
    assert listed.count("without evidence") == 3
    ids = [each["id"] for each in json.loads(told("list", "--json").stdout)]
    assert sorted(ids) == sorted([ours.id, mine.id, sent.id])
    assert json.loads(told("show", "mood", "--json").stdout)["plus"] == "glad"
    assert "width 32, rank 2" in told("show", mine.id[:12]).stdout
    removed = told("remove", "mood")
    assert (removed.exit_code, "is deleted" in removed.stderr) == (0, True)
    assert "mood" not in told().stdout
    for command, words in (
        (("remove", "ours"), "comes with the product"),
        (("show", "nobody"), "there are: ours, sent"),
    ):
        refused = told(*command)
        assert refused.exit_code == 1
        assert words in refused.stderr


def test_two_of_one_name_are_told_apart_by_their_ids(cache):
    ids = [Steers(cache).keep(card(), {"left": NUMBERS["left"] + n, "right": NUMBERS["right"]}).id for n in range(2)]
    refused = told("show", "mood")
    assert refused.exit_code == 1
    assert all(id[:12] in refused.stderr for id in ids)


def test_a_steer_of_the_product_is_made_again_and_compared(cache, tmp_path, monkeypatch):
    def toy(models_cache, recipe, progress):
        progress("downloading", 1, 1, "bytes")
        return ExamplesAsk(name="toy", plus=FOX, minus=CAT)

    monkeypatch.setattr("lmscope.steering.fetch", toy)
    monkeypatch.setattr(snippets, "MODEL", str(tiny.folder("llama", tmp_path / "tiny")))
    monkeypatch.setitem(snippets.RECIPES, "sentiment", replace(snippets.RECIPES["sentiment"], steps=20))
    monkeypatch.setattr("backend.studies.judging.TRIED", (1.0,))
    first = told("make", "sentiment")
    assert first.exit_code == 0, first.stderr
    assert "No steer of this name comes with LMScope yet" in first.stderr
    assert "← kept" in first.stdout
    made = next(each for each in Steers(cache).cards() if each.name == "sentiment")
    assert (made.plus, made.minus, made.rank, made.owner) == ("positive review", "negative review", 32, "LMScope")
    numbers = {"left": Vectors(cache).steer(made.id).left_DK, "right": Vectors(cache).steer(made.id).right_KD}
    Steers(tmp_path / "shipped").keep(made, numbers)
    assert "to the last bit" in told("make", "sentiment").stderr
    shutil.rmtree(tmp_path / "shipped")
    Steers(tmp_path / "shipped").keep(made, {"left": 1.5 * numbers["left"], "right": numbers["right"]})
    again = told("make", "sentiment").stderr
    assert "differ by 0.333 of the norm (cosine 1.000000)" in again


def test_what_does_not_come_with_the_product_is_not_made(cache):
    refused = told("make", "joy")
    assert refused.exit_code == 1
    assert "sentiment (movie reviews" in refused.stderr
