"""LM-Debugger's switch: the number is the one that its hook would have made, in a run with that very hook."""

import pytest
import torch

from backend import errors
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.switch import switch
from backend.schema import FfnSet, HeadScale, Limits, SwitchAnswer, SwitchAsk, View
from tests import bent, tiny
from tests.bent import TEXT
from tests.models.test_cell import PLAIN

UNIT = 3


def switched(loaded: Loaded, on: bool, layer: int = 1, unit: int = UNIT, **view) -> SwitchAnswer:
    ask = SwitchAsk(view=View(model=loaded.name, **{"text": TEXT} | view), layer=layer, unit=unit, on=on)
    return switch(loaded, ask, Limits())


def units_under_hook(loaded: Loaded, ids: list[int], layer: int, pre: float) -> torch.Tensor:
    """The published hook, on a model of its own: coordinate of the first matrix's output overwritten everywhere."""

    def overwrite(module, args, output):
        output = output.clone()
        output[..., UNIT] = pre
        return output

    (key,) = loaded.anatomy.keys[layer]
    found = []
    handle = key.register_forward_hook(overwrite)
    try:
        forward.run(loaded, [ids], read={f"ffn.{layer}": lambda held: found.append(held.reshape(len(ids), -1).clone())})
    finally:
        handle.remove()
    return found[0]


@pytest.mark.parametrize("kind", sorted(PLAIN))
def test_on_and_off_are_what_the_published_hook_makes(kind):
    loaded = bent.opened(kind)
    ids = loaded.tokenizer(TEXT)["input_ids"]
    clean: list[torch.Tensor] = []
    forward.run(loaded, [ids], read={"ffn.1": lambda held: clean.append(held.reshape(len(ids), -1)[-1].clone())})
    weight_FD = loaded.anatomy.write[1].weight.detach()
    weight_FD = weight_FD if weight_FD.shape[0] == loaded.anatomy.units else weight_FD.T
    pre = float((clean[0].abs() * weight_FD.norm(dim=1)).max()) + 0.01
    on, off = switched(loaded, True), switched(loaded, False)
    assert on.pre_activation == pytest.approx(pre, rel=1e-5)
    units_TF = units_under_hook(loaded, ids, 1, pre)
    assert units_TF[:, UNIT].tolist() == pytest.approx([on.edit.to] * len(ids), rel=1e-5)
    assert on.edit == FfnSet(layer=1, unit=UNIT, to=on.edit.to)
    assert (off.pre_activation, off.edit) == (0.0, FfnSet(layer=1, unit=UNIT, to=0))


def test_the_largest_score_is_that_of_the_unedited_prompt_at_its_last_token():
    loaded = bent.opened("gpt2")
    plain = switched(loaded, True)
    edited = switched(loaded, True, edits=(FfnSet(layer=1, unit=UNIT, to=500.0), HeadScale(layer=0, head=1, by=5)))
    assert edited.edit == plain.edit
    longer = switched(loaded, True, continuation=" The cat sat on the mat")
    assert longer.edit.to == pytest.approx(plain.edit.to, rel=1e-5)
    assert abs(switched(loaded, True, text="The cat").edit.to - plain.edit.to) > 1e-3


def test_gated_blocks_switch_off_and_say_why_they_have_no_on():
    loaded = bent.opened("llama")
    off = switched(loaded, False)
    assert off.edit == FfnSet(layer=1, unit=UNIT, to=0)
    assert "act(g) · u" in off.about
    with pytest.raises(errors.CannotShow, match="cannot be switched on") as refusal:
        switched(loaded, True)
    assert "ffn.set" in refusal.value.instead


@pytest.mark.parametrize(
    ("kind", "where", "words"),
    [
        ("gpt2", {"layer": 9}, "There is no layer 9"),
        ("gpt2", {"unit": 128}, "There is no unit L1U128"),
        ("mixtral", {}, "mixture of experts"),
    ],
)
def test_what_is_not_there_is_refused_in_words(kind, where, words):
    loaded = bent.opened(kind) if kind == "mixtral" else tiny.loaded(kind)
    with pytest.raises(errors.CannotShow) as refusal:
        switched(loaded, False, **where)
    assert words in f"{refusal.value.what} {refusal.value.why}"
