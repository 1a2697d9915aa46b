"""A steer moved to a model in another basis keeps all of its effect, and to its own model it is what it was."""

import pytest
import torch

from backend import errors
from backend.models import opening
from backend.models.loaded import Loaded
from backend.models.shared_words import embeddings_of, spelled
from backend.models.vectors import Vectors
from backend.schema import Source, SteerCard, Transferred
from backend.settings import Settings
from backend.studies.transfer import NOT_SHOWN, SHORT_IN_ONE, Side, check_shared, survival
from tests import tiny
from tests.routes.test_steer_studies import EXAMPLES
from tests.routes.test_studies import ended

BASIS = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(8))).Q


def rotated() -> Loaded:
    """The tiny Llama in another basis of its stream: its norms have gains of 1, so it says the same of every text."""
    tokenizer = tiny.tokenizer_of("llama")
    model = tiny.model_of("llama", len(tokenizer))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.copy_(BASIS.T @ weight)
            elif "norm" in name:
                assert bool((weight == 1).all())
            else:
                weight.copy_(weight @ BASIS)
    return opening.prepare(
        model, tokenizer, name="tiny-rotated", source=Source(kind="folder", name="r"), digest="1" * 64
    )


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


@pytest.fixture
def models(shelf, tmp_path, monkeypatch):
    """Two more models beside the tiny one, all of which know the server's stored vectors."""
    made = {"tiny-rotated": rotated(), "tiny-wide": tiny.loaded("llama", "tiny-wide", hidden_size=40)}
    monkeypatch.setattr(shelf, "tiny", shelf.tiny | made)
    for loaded in shelf.tiny.values():
        monkeypatch.setattr(loaded, "vectors", Vectors(tmp_path))
    shelf.models |= made
    return shelf.tiny


@pytest.fixture
async def steer(client, models, app) -> SteerCard:
    """A steer of the tiny Llama with a card, and examples."""
    dice = torch.Generator().manual_seed(4)
    numbers = {"left": 0.2 * torch.randn(32, 2, generator=dice), "right": 0.3 * torch.randn(2, 32, generator=dice)}
    llama = models["tiny-llama"]
    card = SteerCard(
        kind="steer", name="made", id="0" * 64, plus="cats", minus="queens", model="tiny-llama",
        digest=llama.conditions.digest, vocabulary=llama.anatomy.vocabulary, width=32, rank=2,
    )  # fmt: skip
    return app.state.house.library.steers.keep(card, numbers)


async def transferred(client, steer: SteerCard, model: str, **more) -> Transferred:
    examples = (await client.post("/steers/examples", json=EXAMPLES | more)).json()["id"]
    ask = {"steer": steer.id, "model": model, "name": "moved", "examples": examples}
    answer = await client.post("/steers/transfer", json=ask)
    assert answer.status_code == 202, answer.text
    job = await ended(client, answer.json()["id"])
    assert job["state"] == "done", job["problem"]
    return Transferred.model_validate(job["result"])


def product(models, id: str) -> torch.Tensor:
    matrix = models["tiny-llama"].vectors.steer(id)
    return matrix.left_DK @ matrix.right_KD


async def test_a_rotated_model_gets_the_rotated_steer_and_keeps_all_of_the_effect(client, models, steer):
    answer = await transferred(client, steer, "tiny-rotated")
    expected = BASIS.T @ product(models, steer.id) @ BASIS
    torch.testing.assert_close(product(models, answer.card.id), expected, rtol=1e-3, atol=1e-5)
    assert answer.fit == pytest.approx(1, abs=1e-6)
    assert answer.survives.mean == pytest.approx(1, abs=1e-3)
    assert answer.survives.high - answer.survives.low < 1e-2
    assert answer.after.plus.mean == pytest.approx(answer.before.plus.mean, abs=1e-5)
    assert answer.before.plus.n == answer.before.minus.n == 20
    assert (answer.card.model, answer.card.width, answer.card.rank) == ("tiny-rotated", 32, 2)
    assert "Moved from tiny-llama" in answer.card.recipe
    shelf = (await client.get("/steers", params={"model": "tiny-rotated"})).json()["steers"]
    assert any(each["fits"] and each["card"]["id"] == answer.card.id for each in shelf)


async def test_to_itself_it_is_what_it_was(client, models, steer):
    answer = await transferred(client, steer, "tiny-llama")
    torch.testing.assert_close(product(models, answer.card.id), product(models, steer.id), rtol=1e-4, atol=1e-5)
    assert answer.survives.mean == pytest.approx(1, abs=1e-4)
    assert answer.shared == len(spelled(models["tiny-llama"]))


async def test_to_another_width_and_another_tokenizer(client, models, steer):
    """Random models share nothing but words: the map fits badly, and it says how badly."""
    answer = await transferred(client, steer, "tiny-wide")
    assert product_of(models, answer.card.id).shape == (40, 40)
    assert 0 < answer.fit < 0.5
    assert answer.notices == (NOT_SHOWN,), "random numbers have no effect of which a share could survive"
    other = await transferred(client, steer, "tiny-gpt2", plus=[*EXAMPLES["plus"], "A"])  # one token there
    ours, theirs = spelled(models["tiny-llama"]), spelled(models["tiny-gpt2"])
    assert other.shared == len(ours.keys() & theirs.keys()) > 300
    assert "cut texts into other tokens" in other.notices[0]
    assert SHORT_IN_ONE.format(1) in other.notices
    assert other.before.plus.n == other.after.plus.n == 20


def product_of(models, id: str) -> torch.Tensor:
    matrix = models["tiny-wide"].vectors.steer(id)
    return matrix.left_DK @ matrix.right_KD


@pytest.mark.parametrize(("more", "status", "words"), [
    ({"steer": "0" * 64}, 404, "no steer"), ({"examples": "0" * 64}, 404, "does not hold"),
    ({"ridge": -1}, 422, "ridge"),
])  # fmt: skip
async def test_what_cannot_be_moved_is_refused_at_once(client, steer, more, status, words):
    answer = await client.post("/steers/transfer", json={"steer": steer.id, "model": "tiny-wide", "name": "n"} | more)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["what"] + answer.json()["why"]


async def test_other_weights_under_the_same_name_are_refused(client, models, steer, monkeypatch):
    other = models["tiny-llama"].conditions.model_copy(update={"digest": "9" * 64})
    monkeypatch.setattr(models["tiny-llama"], "conditions", other)
    job = (await client.post("/steers/transfer", json={"steer": steer.id, "model": "tiny-wide", "name": "n"})).json()
    assert "is another one now" in (await ended(client, job["id"]))["problem"]["what"]


def test_too_few_shared_words_are_refused_with_the_share(models):
    side = Side(models["tiny-llama"].conditions, "v", 420, 32, {bytes([65 + n]): n for n in range(26)})
    with pytest.raises(errors.CannotShow, match="too few words") as refused:
        check_shared(5, side, side)
    assert "5 of 26 tokens (19.2% of the smaller" in refused.value.why
    assert (refused.value.needed, refused.value.available) == (32, 5)


def test_words_are_spelled_alike_whatever_the_tokenizer(models):
    llama, gpt2 = spelled(models["tiny-llama"]), spelled(models["tiny-gpt2"])
    assert b"<s>" not in llama
    assert all(models["tiny-gpt2"].tokenizer.decode([gpt2[word]]).encode() == word for word in (b"The", b" cat", b"a"))
    assert llama[b" cat"] != gpt2[b" cat"]
    weight = models["tiny-gpt2"].model.lm_head.weight
    assert torch.equal(embeddings_of(models["tiny-gpt2"], [7, 3]), weight[[7, 3]])


async def test_of_no_effect_nothing_survives_and_it_says_so(client, models, steer, app):
    nothing = {"left": torch.zeros(32, 2), "right": torch.zeros(2, 32)}
    answer = await transferred(client, app.state.house.library.steers.keep(steer, nothing), "tiny-rotated")
    assert answer.survives is None
    assert answer.before.plus.mean == 0
    assert any("no effect on these texts" in notice for notice in answer.notices)


def test_what_survives_is_effect_over_effect():
    before = torch.tensor([-0.2, -0.4, 0.1, 0.3], dtype=torch.float64)
    found = survival(before, torch.tensor([-0.1, -0.2, 0.0, 0.2], dtype=torch.float64), 2)
    assert found.mean == pytest.approx((0.1 + 0.15) / (0.2 + 0.3))
    assert survival(before, before / 2, 2).high == pytest.approx(0.5)
