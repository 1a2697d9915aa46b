"""Stored vectors are named by what they hold, whole or absent, and refused where they do not fit."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import save_file

from backend import errors
from backend.models.vectors import NO_VECTORS, Vectors
from backend.schema import VectorCard

RAMP = {"vector": torch.arange(6.0)}
LOW_RANK = {"left": torch.randn(6, 2), "right": torch.randn(2, 6)}


def card(kind: str, name: str = "mine") -> VectorCard:
    return VectorCard(kind=kind, name=name, recipe="made for a test")


def test_what_is_stored_comes_back_after_a_restart(tmp_path):
    ramp = Vectors(tmp_path).keep(card("direction"), RAMP)
    low = Vectors(tmp_path).keep(card("steer"), LOW_RANK)
    after = Vectors(tmp_path)
    assert torch.equal(after.direction(ramp.id).vector_D, RAMP["vector"])
    assert torch.equal(after.steer(low.id).left_DK, LOW_RANK["left"])
    assert torch.equal(after.steer(low.id).right_KD, LOW_RANK["right"])
    assert after.cards() == (ramp, low)
    assert (ramp.shape, low.shape, ramp.recipe) == ((6,), (6, 2), "made for a test")
    assert (tmp_path / "captures" / f"mine@{ramp.id[:12]}").is_dir()


def test_numbers_are_read_once_until_the_file_is_another(tmp_path):
    vectors = Vectors(tmp_path)
    low = vectors.keep(card("steer"), LOW_RANK)
    assert vectors.steer(low.id).left_DK is vectors.steer(low.id).left_DK
    (file,) = tmp_path.glob("steers/*/numbers.safetensors")
    save_file({name: tensor + 1 for name, tensor in LOW_RANK.items()}, file)
    os.utime(file, ns=(1, 1))
    assert torch.equal(vectors.steer(low.id).left_DK, LOW_RANK["left"] + 1)


def test_equal_numbers_have_one_id_and_others_another(tmp_path):
    vectors = Vectors(tmp_path)
    first = vectors.keep(card("direction"), RAMP)
    assert vectors.keep(card("direction", "again"), RAMP).id == first.id
    assert vectors.keep(card("direction"), {"vector": RAMP["vector"] + 1}).id != first.id
    assert vectors.keep(card("direction"), {"vector": RAMP["vector"][:-1]}).id != first.id


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("direction", {"vector": torch.tensor([1.0, torch.nan])}),
        ("direction", {"vector": torch.tensor([[1.0]])}),
        ("direction", {"vector": torch.empty(0)}),
        ("steer", {"left": torch.ones(6, 2), "right": torch.ones(3, 6)}),
        ("steer", {"left": torch.ones(6, 2), "right": torch.full((2, 6), torch.inf)}),
    ],
)
def test_what_is_no_vector_is_refused(tmp_path, kind, numbers):
    with pytest.raises(errors.BadQuestion):
        Vectors(tmp_path).keep(card(kind), numbers)
    assert Vectors(tmp_path).cards() == ()


def test_an_unknown_id_is_said_with_what_to_do(tmp_path):
    steer = Vectors(tmp_path).keep(card("steer"), LOW_RANK)
    for ask in (Vectors(tmp_path).direction, NO_VECTORS.direction):
        with pytest.raises(errors.UnknownVector) as refused:
            ask(steer.id)  # a steer is no direction
        assert "send it again" in refused.value.instead
    with pytest.raises(errors.UnknownVector):
        Vectors(tmp_path).steer(steer.id[:12] + "0" * 52)  # a folder is found by a part of the id, not trusted for it


def test_a_half_written_folder_does_not_count(tmp_path):
    vectors = Vectors(tmp_path)
    kept = vectors.keep(card("direction"), RAMP)
    file = tmp_path / "captures" / f"mine@{kept.id[:12]}" / "numbers.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    assert vectors.cards() == ()
    with pytest.raises(errors.UnknownVector):
        vectors.direction(kept.id)
    assert torch.equal(vectors.direction(vectors.keep(card("direction"), RAMP).id).vector_D, RAMP["vector"])


def test_many_may_store_the_same_at_once(tmp_path):
    vectors = Vectors(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(lambda _: vectors.keep(card("direction"), RAMP).id, range(32)))
    assert len(ids) == 1
    assert [path.name for path in (tmp_path / "captures").iterdir()] == [f"mine@{ids.pop()[:12]}"]
