"""Every family is either right or refused in words."""

import copy

import pytest
import torch
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from backend import errors
from backend.models import forward, kernel, opening
from backend.models.loaded import Loaded
from backend.models.plan import Row, fold
from backend.models.promises import LENS
from backend.models.readout import ReadOut
from backend.models.tokens import READ_OUT
from backend.schema import (
    Edit,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadScale,
    HeadSet,
    ResidualAdd,
    ResidualSet,
    Source,
    Steer,
)
from tests import families
from tests.questions import TOKENS, VECTOR, Made, logits, plan_of, some_ids

each_opened = pytest.mark.parametrize("kind", families.OPENED)
each_decoder = pytest.mark.parametrize("kind", families.DECODERS)


def units_of(loaded: Loaded) -> Tensor:
    """Coefficients [T, F] of block 1."""
    found: list[Tensor] = []
    logits(loaded, read={"ffn.1": lambda units: found.append(units.reshape(TOKENS, -1).clone())})
    return found[0]


def active(loaded: Loaded) -> int:
    """The unit that this text moves most: a rectified one may be silent."""
    return int(units_of(loaded).abs().amax(0).argmax())


def every_edit(kind: str, loaded: Loaded) -> list[Edit]:
    """One edit of each kind that the family takes."""
    layer, family = families.FAMILIES[kind].layers[-1], families.FAMILIES[kind]
    edits: list[Edit] = []
    if not family.stream:
        edits += [ResidualAdd(layer=0, vector=VECTOR, by=1.5), ResidualSet(layer=0, to=0.5, at=(3,))]
    if not family.heads:
        edits += [HeadScale(layer=layer, head=1, by=-2), HeadSet(layer=layer, head=2, to=0.7)]
    if not family.units:
        unit = active(loaded)
        edits += [FfnScale(layer=1, unit=unit, by=-9), FfnSet(layer=1, unit=unit, to=4, at="generated")]
    if not family.fed:
        edits += [FfnOutSet(layer=layer, to=VECTOR, at=(2, 6))]
    return edits if family.steer else [*edits, Steer(steer=VECTOR, by=0.8)]


@pytest.mark.parametrize("kind", families.FAMILIES)
def test_a_family_offers_what_the_table_says_and_says_why_not(kind):
    family = families.FAMILIES[kind]
    if family.refused:
        with pytest.raises(errors.NoAttention) as refusal:
            families.loaded(kind)
        assert family.refused in refusal.value.why
        assert refusal.value.instead
        return
    loaded = families.opened(kind)
    card, shape = loaded.card, loaded.anatomy.shape
    assert shape.attention_layers == family.layers
    assert shape.causal is not family.reads_both_ways
    assert card.can["attention"].can
    why = {
        "heads": family.heads,
        "ffn": family.units,
        "ffn_out": family.fed,
        "residual": family.stream,
        "unembed": family.steer,
    }
    assert {tap: ability.can for tap, ability in card.edits.items()} == {tap: not why[tap] for tap in families.TAPS}
    for tap, words in why.items():
        assert words in card.edits[tap].why
    hybrid = shape.layers != len(family.layers)
    broken = {promise.name for promise in card.promises if promise.kept is False}
    expected = {
        "every layer calls for attention": hybrid, "padding changes nothing": not family.pads,
        "steer has an effect": bool(family.steer), LENS: bool(family.stream),
    }  # fmt: skip
    assert broken == {name for name, breaks in expected.items() if breaks}


@each_opened
def test_maps_and_logits_equal_the_untouched_eager_model(kind):
    loaded, plain = families.opened(kind), families.plain(kind)
    ids = torch.tensor([some_ids(loaded), some_ids(loaded, 4)])
    with torch.no_grad():
        expected = plain(input_ids=ids, output_attentions=True)
    theirs = [maps for maps in expected.attentions if maps is not None]
    ours: dict[int, Tensor] = {}
    found = forward.run(loaded, ids, logits=True, see=lambda call, maps: ours.__setitem__(call.layer, maps.clone()))
    assert len(ours) == len(theirs)
    for layer, maps in zip(sorted(ours), theirs, strict=True):
        torch.testing.assert_close(ours[layer], maps, rtol=0, atol=1e-5)
        if not families.FAMILIES[kind].reads_both_ways:
            assert float(ours[layer].triu(1).abs().max()) == 0
    torch.testing.assert_close(found, expected.logits, rtol=0, atol=1e-5)


@each_opened
def test_without_edits_logits_are_bit_identical_to_the_same_kernel_without_taps(kind):
    loaded = families.opened(kind)
    ids = torch.tensor([some_ids(loaded)])
    plain = families.without_taps(kind)
    with torch.inference_mode():
        expected = plain(input_ids=ids, use_cache=False).logits
    assert torch.equal(forward.run(loaded, ids, logits=True), expected)


@each_opened
def test_the_library_still_has_an_eager_function_of_the_family(kind):
    anatomy = families.opened(kind).anatomy
    assert anatomy.watched is families.FAMILIES[kind].watched
    for module in anatomy.attention.values():
        if not anatomy.watched:
            assert callable(kernel.eager_of(module))


@each_decoder
def test_reading_out_the_final_states_gives_the_logits(kind):
    loaded = families.opened(kind)
    states = forward.run(loaded, [some_ids(loaded)])[0]
    torch.testing.assert_close(ReadOut(loaded.model)(states), logits(loaded), rtol=0, atol=1e-5)
    assert [each.kept for each in loaded.card.promises if each.name == READ_OUT] == [True]


@pytest.mark.parametrize("kind", [kind for kind in families.DECODERS if not families.FAMILIES[kind].stream])
def test_the_final_norm_of_the_last_stream_is_what_is_read_out(kind):
    loaded = families.opened(kind)
    last: list[Tensor] = []
    states = forward.run(loaded, [some_ids(loaded)], read={f"residual.{loaded.anatomy.shape.layers - 1}": last.append})
    with torch.inference_mode():
        torch.testing.assert_close(loaded.anatomy.final_norm(last[0]), states, rtol=1e-5, atol=1e-5)


@each_opened
def test_each_edit_has_an_effect(kind):
    loaded = families.opened(kind)
    plain = logits(loaded)
    for edit in every_edit(kind, loaded):
        assert float((logits(loaded, edit) - plain).abs().max()) > 1e-4, edit


@each_opened
def test_rows_with_edits_of_their_own_equal_solo_runs(kind):
    loaded = families.opened(kind)
    edits = every_edit(kind, loaded)
    rows = [(), *((edit,) for edit in edits), tuple(edits)]
    ids = [some_ids(loaded, seed) for seed in range(len(rows))]
    together = forward.run(loaded, ids, plan_of(loaded, [Row(row, TOKENS - 4) for row in rows]), logits=True)
    for place, row in enumerate(rows):
        alone = forward.run(loaded, [ids[place]], plan_of(loaded, [Row(row, TOKENS - 4)]), logits=True)[0]
        torch.testing.assert_close(together[place], alone, rtol=1e-4, atol=1e-4)


@each_decoder
def test_left_padding_and_longer_batch_mates_change_nothing(kind):
    loaded = families.opened(kind)
    texts = [some_ids(loaded, 1), some_ids(loaded, 2, 7)]
    edits = every_edit(kind, loaded)[:3]
    gap = TOKENS - 7
    mask_BT = torch.tensor([[1] * TOKENS, [0] * gap + [1] * 7])
    rows = [Row((), 6), Row(tuple(edits), 6, tokens=7)]
    together = forward.run(
        loaded, [texts[0], [1] * gap + texts[1]], plan_of(loaded, rows), mask_BT=mask_BT, logits=True,
        positions_BT=(mask_BT.cumsum(-1) - 1).clamp(min=0),
    )  # fmt: skip
    alone = [
        forward.run(loaded, [ids], plan_of(loaded, [Row(row.edits, 6)], len(ids)), logits=True)[0]
        for ids, row in zip(texts, rows, strict=True)
    ]
    torch.testing.assert_close(together[0], alone[0], rtol=1e-5, atol=1e-5)
    (promise,) = [each for each in loaded.card.promises if each.name == "padding changes nothing"]
    assert promise.kept is families.FAMILIES[kind].pads
    if not families.FAMILIES[kind].pads:
        return  # its card says so
    torch.testing.assert_close(together[1, gap:], alone[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", families.WITH_UNITS)
def test_switching_a_unit_off_takes_its_value_vector_times_its_coefficient_away(kind):
    loaded = families.opened(kind)
    write = loaded.anatomy.write[1]
    weight = write.weight if isinstance(write, Conv1D) else write.weight.T
    coefficients, unit = units_of(loaded), active(loaded)
    outputs: list[Tensor] = []
    handle = write.register_forward_hook(lambda module, args, out: outputs.append(out.reshape(TOKENS, -1).clone()))
    logits(loaded)
    logits(loaded, FfnScale(layer=1, unit=unit, by=0))
    handle.remove()
    expected = -coefficients[:, unit, None] * weight[unit]
    torch.testing.assert_close(outputs[1] - outputs[0], expected, rtol=1e-4, atol=1e-5)


@each_opened
def test_a_set_to_what_is_there_changes_nothing(kind):
    loaded, family, at = families.opened(kind), families.FAMILIES[kind], (4,)
    layer, stored = family.layers[-1], Made(loaded)
    found: dict[str, Tensor] = {}
    taps = (f"heads.{layer}", "residual.0", "ffn.1", f"ffn_out.{layer}")
    plain = logits(loaded, read={tap: lambda x, tap=tap: found.__setitem__(tap, x.clone()) for tap in taps})
    same: list[Edit] = []
    if not family.heads:
        stored.stored["b" * 64] = found[f"heads.{layer}"].reshape(TOKENS, loaded.anatomy.shape.heads, -1)[4, 2]
        same += [HeadSet(layer=layer, head=2, to="b" * 64, at=at), HeadScale(layer=layer, head=1, by=1)]
    if not family.stream:
        stored.stored["c" * 64] = found["residual.0"].reshape(TOKENS, -1)[4]
        same += [ResidualSet(layer=0, to="c" * 64, at=at), ResidualAdd(layer=0, vector=VECTOR, by=0)]
    if not family.units:
        unit = active(loaded)
        value = float(found["ffn.1"].reshape(TOKENS, -1)[4, unit])
        same += [FfnSet(layer=1, unit=unit, to=value, at=at), FfnScale(layer=1, unit=unit, by=1)]
    if not family.fed:
        stored.stored["d" * 64] = found[f"ffn_out.{layer}"].reshape(TOKENS, -1)[4]
        same += [FfnOutSet(layer=layer, to="d" * 64, at=at)]
    if not family.steer:
        same.append(Steer(steer=VECTOR, by=0))
    plan = fold(loaded.anatomy, [Row(tuple(same), TOKENS)], TOKENS, stored)
    again = forward.run(loaded, [some_ids(loaded)], plan, logits=True)[0]
    torch.testing.assert_close(again, plain, rtol=0, atol=1e-5)


def fuses(kind: str) -> bool:
    """Whether the family runs SDPA through the shared function."""
    return families.model_class(kind)._supports_sdpa and not families.FAMILIES[kind].watched


@pytest.mark.parametrize("kind", [kind for kind in families.OPENED if fuses(kind)])
def test_the_fused_kernel_shows_the_maps_and_logits_of_eager(kind):
    loaded = families.opened(kind)
    ids = torch.tensor([some_ids(loaded)])
    expected: dict[int, Tensor] = {}
    plain = forward.run(loaded, ids, logits=True, see=lambda call, maps: expected.__setitem__(call.layer, maps.clone()))
    fused = copy.copy(loaded)
    kernel.put(fused.model, kernel.FUSED)
    try:
        found: dict[int, Tensor] = {}
        got = forward.run(fused, ids, logits=True, see=lambda call, maps: found.__setitem__(call.layer, maps.clone()))
    finally:
        kernel.put(loaded.model, kernel.EAGER)
    for layer, maps in expected.items():
        torch.testing.assert_close(found[layer], maps, rtol=0, atol=1e-5)
    torch.testing.assert_close(got, plain, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", families.OPENED)
def test_a_folder_of_every_family_opens_as_the_model_that_was_saved(kind, tmp_path):
    loaded = families.opened(kind)
    families.model(kind).save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    source = Source(kind="folder", name=kind)
    opened = opening.open_folder(tmp_path, name=kind, source=source, digest="d")
    assert opened.card.edits == loaded.card.edits
    torch.testing.assert_close(logits(opened), logits(loaded), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["gemma2", "gpt_oss", "modernbert", "deepseek_v32", "llama4_text", "falcon", "bloom"])
def test_a_family_opened_for_a_graphics_card_keeps_the_same_promises(kind, monkeypatch):
    """The fused kernel from the first probe on, where the family has one; what is watched stays eager."""
    monkeypatch.setattr(kernel, "choose", lambda model, device: kernel.FUSED if model._supports_sdpa else kernel.EAGER)
    loaded, expected = families.loaded(kind), families.opened(kind)
    assert loaded.fused is (expected.model._supports_sdpa and not expected.anatomy.watched)
    assert loaded.card.shape == expected.card.shape
    assert loaded.card.edits == expected.card.edits
    assert [promise.name for promise in loaded.card.promises if promise.kept is False] == []
    torch.testing.assert_close(logits(loaded), logits(expected), rtol=0, atol=1e-4)
