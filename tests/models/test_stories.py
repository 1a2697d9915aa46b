"""What the README says that SmolLM2 does is what it does: the stories of the trace, told by runs of their own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.models.contributions import contributions
from backend.models.patch import patch
from backend.models.trace import trace
from backend.models.vectors import Vectors
from backend.schema import (
    ContributionsAsk,
    Edit,
    Explain,
    Explained,
    FfnSet,
    HeadScale,
    Limits,
    PatchAsk,
    PatchPlace,
    TraceAsk,
    View,
)
from benchmarks.opened import NAME, smollm2
from lmscope.answers import numbers
from lmscope.traced import TraceInNumpy

pytestmark = pytest.mark.pretrained
LIMITS = Limits()
CAPITAL = View(model=NAME, text="The capital of France is")
JOHN_GAVE = View(model=NAME, text="When Mary and John went to the store, John gave a drink to")
MARY_GAVE = View(model=NAME, text="When Mary and John went to the store, Mary gave a drink to")
GIVER, LAST = 9, 13
"""The second name of both sentences, and their last token."""
MOVERS = ((23, 3), (20, 0), (29, 1), (29, 0), (16, 0), (1, 5))
"""The heads whose removal changes Mary minus John most."""


def explained(view: View, explain: Explain, loaded: Any | None = None) -> Explained:
    ask = ContributionsAsk(view=view, explain=explain, values=0)
    return contributions(loaded or smollm2(), ask, LIMITS).explained


def without(view: View, units: list[tuple[int, int]]) -> View:
    return view.model_copy(update={"edits": tuple(FfnSet(layer=layer, unit=unit, to=0) for layer, unit in units)})


def id_of(word: str) -> int:
    (id,) = smollm2().tokenizer(word, add_special_tokens=False)["input_ids"]
    return int(id)


def test_paris_emerges_in_the_last_blocks() -> None:
    lens = TraceInNumpy(trace(smollm2(), TraceAsk(view=CAPITAL, tracked=(id_of(" Paris"),)), LIMITS))
    assert lens.words[-1, -1, 0] == " Paris"
    assert lens.tracked_probability[-1, -1, 0] > 0.7
    assert (lens.tracked_probability[:28, -1, 0] < 0.01).all()
    assert (lens.rank[1:22, -1, 0] > 1000).all()  # after blocks 0 to 20


def test_the_values_whose_removal_counts_most_carry_the_answer() -> None:
    paris = Explain(target=id_of(" Paris"), foil=id_of(" the"))
    side = contributions(smollm2(), ContributionsAsk(view=CAPITAL, explain=paris, values=20), LIMITS).edited
    whole = explained(CAPITAL, paris)
    names = [(unit.layer, unit.unit) for unit in side.units]
    effects = {name: whole.logits - explained(without(CAPITAL, [name]), paris).logits for name in names}
    most = sorted(effects, key=lambda name: effects[name], reverse=True)[:5]
    off = explained(without(CAPITAL, most), paris)
    assert whole.probability > 0.75
    assert off.probability < 0.1
    assert off.logits < -2


@pytest.fixture
def keeping(tmp_path: Path) -> Any:
    """The model beside a folder for patched vectors."""
    return replace(smollm2(), vectors=Vectors(tmp_path))


def patched(keeping: Any, *places: PatchPlace) -> Explained:
    """Mary minus John once these places hold what the other sentence has there."""
    ask = PatchAsk(view=JOHN_GAVE, source=MARY_GAVE, places=places)
    edits: tuple[Edit, ...] = patch(keeping, ask, LIMITS, keeping.vectors).edits
    names = Explain(target=id_of(" Mary"), foil=id_of(" John"))
    return explained(JOHN_GAVE.model_copy(update={"edits": edits}), names, keeping)


def test_the_name_moves_from_the_giver_to_the_last_token_between_blocks_18_and_23(keeping: Any) -> None:
    def stream(layer: int, token: int) -> float:
        return patched(keeping, PatchPlace(tap="residual", layer=layer, token=token)).logits

    plain = explained(JOHN_GAVE, Explain(target=id_of(" Mary"), foil=id_of(" John"))).logits
    assert plain > 6
    assert stream(18, GIVER) < -5
    assert stream(18, LAST) > 6
    assert stream(23, GIVER) > 5
    assert stream(23, LAST) < -5
    assert abs(stream(18, 3) - plain) < 1e-4  # before the sentences differ there is nothing to patch


def test_head_23_3_carries_most_of_it() -> None:
    names = Explain(target=id_of(" Mary"), foil=id_of(" John"))
    ask = ContributionsAsk(view=JOHN_GAVE, explain=names, values=0)
    direct_LH = numbers(contributions(smollm2(), ask, LIMITS).edited.heads)
    off = JOHN_GAVE.model_copy(update={"edits": (HeadScale(layer=23, head=3, by=0),)})
    assert divmod(int(direct_LH.argmax()), 9) == (23, 3)
    assert direct_LH[23, 3] == pytest.approx(2.86, abs=0.01)
    assert explained(JOHN_GAVE, names).logits - explained(off, names).logits == pytest.approx(3.05, abs=0.01)


def test_six_heads_at_the_last_token_carry_the_name(keeping: Any) -> None:
    places = (PatchPlace(tap="heads", layer=layer, head=head, token=LAST) for layer, head in MOVERS)
    assert patched(keeping, *places).logits < -2
    assert patched(keeping, PatchPlace(tap="heads", layer=23, head=0, token=LAST)).logits > 4
