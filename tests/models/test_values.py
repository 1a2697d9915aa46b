"""Values are rows of the model's own write matrix, read and found as a table of all values × all words has them."""

import pytest
import torch

from backend import errors
from backend.models import values as instrument
from backend.models.anatomy import matrix
from backend.models.loaded import Loaded
from backend.models.reading import reader
from backend.models.words import spellings, words_of
from backend.schema import Limits, LookupAsk, SearchAsk, ValueAsk
from tests import families, tiny
from tests.package_models import package_loaded

LENSES = tuple(kind for kind in families.WITH_UNITS if kind in families.DECODERS and not families.FAMILIES[kind].stream)
LIMITS = Limits()


def a_word(loaded: Loaded) -> str:
    """A word of the tokenizer's vocabulary that is one token."""
    return next(
        word for id in range(20, 100)
        if (word := words_of(loaded.tokenizer, [id])[str(id)].strip()).isalpha() and word.isascii()
    )  # fmt: skip


def table(loaded: Loaded, reading: str = "folded") -> torch.Tensor:
    """Logits of all values for all words in float64 [L, F, V], row by row through the written definition."""
    used = reader(loaded, reading)
    rows = torch.stack([matrix(loaded.anatomy.write[layer]) for layer in range(loaded.anatomy.shape.layers)]).double()
    if used.centred:
        rows = rows - rows.mean(-1, keepdim=True)
    gain = 1 if used.gain_D is None else used.gain_D.double() * used.scale
    return (rows * gain) @ loaded.anatomy.unembedding.weight.double().T


@pytest.mark.parametrize("kind", LENSES)
def test_every_family_is_searched_as_the_whole_table_says(kind):
    loaded = families.opened(kind)
    ask = SearchAsk(model="x", words=(a_word(loaded),), end="both", ranked="z", limit=7)
    answer = instrument.search(loaded, ask, LIMITS)
    logits = table(loaded)
    z = (logits - logits.mean(-1, keepdim=True)) / logits.std(-1, correction=0, keepdim=True)
    ids = sorted({one.id for one in answer.spellings})
    best = z[..., ids].abs().amax(-1).flatten()
    units = logits.shape[1]
    assert [hit.unit.layer * units + hit.unit.unit for hit in answer.hits] == best.argsort(descending=True)[:7].tolist()
    for hit in answer.hits:
        row = logits[hit.unit.layer, hit.unit.unit]
        assert hit.logit == pytest.approx(float(row[hit.id]), rel=1e-3, abs=1e-4)
        assert hit.z == pytest.approx(float(z[hit.unit.layer, hit.unit.unit, hit.id]), rel=1e-3, abs=1e-3)
        ahead = row > row[hit.id] if hit.end == "promoted" else row < row[hit.id]
        assert hit.rank == int(ahead.sum())
    assert answer.values == len(best)
    assert answer.conditions == loaded.conditions


@pytest.mark.parametrize("kind", LENSES)
def test_every_family_shows_a_value_with_its_words_keys_and_neighbours(kind):
    loaded = families.opened(kind)
    answer = instrument.value(loaded, ValueAsk(model="x", layer=1, unit=5, top=6, similar=4), LIMITS)
    logits_V = table(loaded)[1, 5]
    assert answer.ends.highest == tuple(logits_V.argsort(descending=True)[:6].tolist())
    assert answer.ends.lowest == tuple(logits_V.argsort()[:6].tolist())
    assert answer.mean == pytest.approx(float(logits_V.mean()), rel=1e-3, abs=1e-4)
    assert answer.deviation == pytest.approx(float(logits_V.std(correction=0)), rel=1e-3)
    z = (logits_V - logits_V.mean()) / logits_V.std(correction=0)
    torch.testing.assert_close(
        torch.tensor(answer.highest_z).double(), z.sort(descending=True).values[:6], rtol=1e-3, atol=1e-3
    )
    rows = torch.cat([matrix(loaded.anatomy.write[layer]) for layer in range(2)]).double()
    vector = matrix(loaded.anatomy.write[1])[5]
    cosines = torch.nn.functional.cosine_similarity(rows, vector.double()[None])
    cosines[loaded.anatomy.units + 5] = -2
    near = cosines.argsort(descending=True)[:4]
    assert [one.unit.layer * loaded.anatomy.units + one.unit.unit for one in answer.similar] == near.tolist()
    assert [one.cosine for one in answer.similar] == pytest.approx(cosines[near].tolist(), rel=1e-4)
    assert answer.norm == pytest.approx(float(vector.norm()))
    shown = {*answer.ends.highest, *answer.ends.lowest}.union(*(key.ends.highest for key in answer.keys))
    assert {str(id) for id in shown} <= set(answer.words)


GATED = ("llama", "phi3", "glm4", "doge")
PLAIN = ("gpt2", "opt", "gptj", "mpt", "nemotron", "starcoder2", "openai-gpt")


@pytest.mark.parametrize("kind", GATED + PLAIN)
def test_keys_make_the_coefficient_that_the_write_matrix_takes(kind):
    """Against the coefficients of a run: act(gate · x) (up · x), or act(key · x), at the unit named."""
    loaded = families.opened(kind)
    seen: dict[str, torch.Tensor] = {}
    block, keys = loaded.anatomy.blocks[1], loaded.keys.of[1]
    modules = {part.module for part in keys.values()}
    handles = [m.register_forward_hook(lambda module, args, out: seen.update(x=args[0])) for m in modules]
    handles.append(loaded.anatomy.write[1].register_forward_pre_hook(lambda module, args: seen.update(m=args[0])))
    with torch.no_grad():
        loaded.model(input_ids=torch.arange(20, 26)[None])
    for handle in handles:
        handle.remove()
    assert set(keys) == ({"gate", "up"} if kind in GATED else {"key"})
    bias = {name: _bias(part) for name, part in keys.items()}
    made = {name: seen["x"].flatten(0, -2) @ part.rows().T + bias[name] for name, part in keys.items()}
    acts = ("activation", "relu", "gelu", "silu", "newgelu")
    act = next(m for m in block.modules() if any(name in type(m).__name__.lower() for name in acts))
    expected = act(made["gate"]) * made["up"] if kind in GATED else act(made["key"])
    torch.testing.assert_close(seen["m"].flatten(0, -2), expected, rtol=1e-4, atol=1e-5)


def _bias(part):
    bias = getattr(part.module, "bias", None)
    return 0 if bias is None else bias[part._taken(len(bias))]


def test_keys_that_no_row_makes_are_not_shown_and_the_answer_says_why():
    answer = instrument.value(families.opened("bitnet"), ValueAsk(model="x", layer=0, unit=0), LIMITS)
    assert answer.keys == ()
    assert "is the gate is not clear" in answer.notices[0]
    with pytest.raises(errors.CannotShow, match="keys of this model are not known"):
        instrument.lookup(families.opened("bitnet"), LookupAsk(model="x", words=("the",), of="keys"), LIMITS)


@pytest.mark.parametrize("kind", ["gemma2", "olmo2", "granite", "llama", "gpt2", "cohere", "phi", "opt"])
def test_a_norm_or_multiplier_between_a_value_and_the_stream_is_told_with_its_words(kind):
    loaded = families.opened(kind)
    found = instrument.search(loaded, SearchAsk(model="x", words=(a_word(loaded),), limit=1), LIMITS)
    page = instrument.value(loaded, ValueAsk(model="x", layer=1, unit=0), LIMITS)
    assert found.notices == page.notices
    assert any("through a norm or a multiplier" in told for told in found.notices) == (
        kind in {"gemma2", "olmo2", "granite"}
    )


@pytest.mark.parametrize("of", ["values", "keys"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_lookup_is_the_product_with_the_mean_of_the_words_less_the_mean_of_all(kind, of):
    loaded = tiny.loaded(kind)
    words = (a_word(loaded),)
    answer = instrument.lookup(loaded, LookupAsk(model="x", words=words, of=of, limit=9), LIMITS)
    E = loaded.anatomy.unembedding.weight.double()
    q = E[[one.id for one in answer.spellings]].mean(0) - E.mean(0)
    rows = []
    for layer, block in enumerate(loaded.anatomy.blocks):
        if of == "values":
            rows.append(matrix(loaded.anatomy.write[layer]))
        else:
            rows.append(block.mlp.c_fc.weight.T if kind == "gpt2" else block.mlp.gate_proj.weight)
    scores = torch.cat(rows).double() @ q
    order = scores.argsort(descending=True)[:9]
    assert [found.unit.layer * len(rows[0]) + found.unit.unit for found in answer.found] == order.tolist()
    assert [found.score for found in answer.found] == pytest.approx(scores[order].tolist(), rel=1e-4)
    assert answer.searched == len(scores)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_value_that_is_a_words_own_embedding_is_found_first_by_z(kind):
    loaded = tiny.loaded(kind)
    word = a_word(loaded)
    id = spellings(loaded.tokenizer, [word], loaded.anatomy.shape.vocabulary)[0].id
    with torch.no_grad():
        matrix(loaded.anatomy.write[2])[17] = 3 * loaded.anatomy.unembedding.weight[id]
    for ranked in ("z", "logit"):
        ask = SearchAsk(model="x", words=(word,), ranked=ranked, reading="raw", limit=3)
        first = instrument.search(loaded, ask, LIMITS).hits[0]
        assert (str(first.unit), first.id, first.rank) == ("L2U17", id, 0)
        assert first.ends.highest[0] == id
    lookup = instrument.lookup(loaded, LookupAsk(model="x", words=(word,)), LIMITS)
    assert str(lookup.found[0].unit) == "L2U17"


def test_only_a_little_is_kept_and_what_is_kept_changes_nothing():
    loaded = tiny.loaded("llama")
    ask = SearchAsk(model="x", words=(a_word(loaded),), ranked="z")
    cold = instrument.search(loaded, ask, LIMITS)
    kept = loaded.kept.bytes
    assert instrument.search(loaded, ask, LIMITS) == cold
    assert loaded.kept.bytes == kept <= 8 * instrument._count(loaded) + 4 * loaded.anatomy.shape.width
    loaded.kept.clear()
    assert instrument.search(loaded, ask, LIMITS) == cold


@pytest.mark.parametrize("kind", [kind for kind in families.OPENED if families.FAMILIES[kind].units])
def test_what_has_no_units_says_why(kind):
    loaded = families.opened(kind)
    assert not loaded.card.can["values"].can
    for ask, answer in (
        (ValueAsk(model="x", layer=0, unit=0), instrument.value),
        (SearchAsk(model="x", words=("the",)), instrument.search),
        (LookupAsk(model="x", words=("the",)), instrument.lookup),
    ):
        with pytest.raises(errors.CannotShow, match=r"units are not known: ."):
            answer(loaded, ask, LIMITS)


def test_a_model_that_reads_both_ways_has_values_raw_only():
    loaded = families.opened("bert")
    assert loaded.card.can["values"].can
    with pytest.raises(errors.CannotShow) as caught:
        instrument.value(loaded, ValueAsk(model="x", layer=0, unit=0), LIMITS)
    assert "raw" in caught.value.instead
    answer = instrument.value(loaded, ValueAsk(model="x", layer=0, unit=0, reading="raw", top=3), LIMITS)
    assert answer.ends.highest == tuple(table(loaded, "raw")[0, 0].argsort(descending=True)[:3].tolist())


@pytest.mark.parametrize(
    ("layer", "unit", "said"), [(3, 0, "3 layers"), (0, 48, "48 units"), (9999, 9_999_999, "no layer")]
)
def test_a_value_out_of_range_is_refused_with_the_numbers(layer, unit, said):
    with pytest.raises(errors.CannotShow, match=said):
        instrument.value(tiny.loaded("llama"), ValueAsk(model="x", layer=layer, unit=unit), LIMITS)


@pytest.mark.parametrize("kind", families.WITH_UNITS)
def test_the_card_says_whether_values_are_offered(kind):
    loaded = families.opened(kind)
    narrow = loaded.anatomy.unembedding.weight.shape[1] != loaded.anatomy.shape.width
    can = loaded.card.can["values"]
    assert can.can == (not narrow)
    assert narrow == ("output embedding takes" in can.why)


SMOLLM2 = "smollm2-135m-instruct"


def test_on_a_trained_model_a_word_finds_the_values_that_speak_of_it():
    loaded = package_loaded(SMOLLM2)
    ask = SearchAsk(model="x", words=("London",), ranked="z", limit=5)
    answer = instrument.search(loaded, ask, LIMITS)
    assert [one.text for one in answer.spellings] == ["London", " London"]
    words = [answer.words[str(id)].strip() for id in answer.hits[0].ends.highest]
    assert {"British", "Britain"} & set(words)
