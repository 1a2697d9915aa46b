"""Values are found exactly as a table of all values × all words finds them, and their spread in closed form is that of
the table."""

import pytest
import torch

from backend.measure import reading, values
from backend.measure.reading import Norm, Reader, read_ends
from backend.measure.values import Moments, Spread

LAYERS, UNITS, WIDTH, WORDS = 3, 11, 8, 57
GAIN = torch.linspace(-1, 2, WIDTH)


def dice() -> torch.Generator:
    return torch.Generator().manual_seed(5)


EMBEDDING = torch.randn(WORDS, WIDTH, generator=dice()) + 0.5
VALUES = torch.randn(LAYERS, UNITS, WIDTH, generator=dice()) * torch.rand(LAYERS, UNITS, 1, generator=dice())
READERS = {
    "raw": Reader(EMBEDDING),
    "rms": Reader(EMBEDDING, GAIN, scale=0.25),
    "layer norm": Reader(EMBEDDING, GAIN, centred=True),
    "half precision": Reader(EMBEDDING.bfloat16(), GAIN, centred=True),
}


def dense(reader: Reader, rows: torch.Tensor = VALUES) -> torch.Tensor:
    """All values × all words in float64, by the definition: [L, F, V]."""
    rows = rows.double()
    if reader.centred:
        rows = rows - rows.mean(-1, keepdim=True)
    gain = 1 if reader.gain_D is None else reader.gain_D.double() * reader.scale
    return (rows * gain) @ reader.embedding_VD.double().T


@pytest.mark.parametrize("name", READERS)
def test_mean_and_deviation_in_closed_form_are_those_of_the_whole_table(name, monkeypatch):
    monkeypatch.setattr(values, "PART_BYTES", 4 * WIDTH * 10)  # the embedding in six blocks
    reader = READERS[name]
    spread = Spread.of(lambda layer: VALUES[layer], LAYERS, Moments.of(reader))
    deviation, mean = torch.std_mean(dense(reader), -1, correction=0)
    torch.testing.assert_close(spread.mean_LF.double(), mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(spread.deviation_LF.double(), deviation, rtol=1e-5, atol=1e-6)
    assert spread.nbytes == 2 * 4 * LAYERS * UNITS


@pytest.mark.parametrize("end", ["promoted", "suppressed", "both"])
@pytest.mark.parametrize("ranked", ["logit", "z"])
@pytest.mark.parametrize("name", READERS)
def test_a_search_finds_what_the_whole_table_holds(name, ranked, end, monkeypatch):
    monkeypatch.setattr(values, "BLOCK_BYTES", 4 * WORDS * 3)  # three values at a time
    reader, words, limit = READERS[name], [4, 20, 9], 12
    logits = dense(reader)
    z = (logits - logits.mean(-1, keepdim=True)) / logits.std(-1, correction=0, keepdim=True)
    score = (z if ranked == "z" else logits)[..., words]
    score = {"promoted": score, "suppressed": -score, "both": torch.cat([score, -score], -1)}[end]
    best, which = score.max(-1)
    expected = best.flatten().argsort(descending=True)[:limit]
    spread = Spread.of(lambda layer: VALUES[layer], LAYERS, Moments.of(reader)) if ranked == "z" else None
    hits = values.search(lambda layer: VALUES[layer], LAYERS, reader, words, end=end, spread=spread, limit=limit, top=4)
    assert (hits.layer_N * UNITS + hits.unit_N).tolist() == expected.tolist()
    for place, (layer, unit) in enumerate(zip(hits.layer_N.tolist(), hits.unit_N.tolist(), strict=True)):
        chosen = int(which[layer, unit])
        assert int(hits.word_N[place]) == words[chosen % 3]
        assert bool(hits.suppressed_N[place]) == (end == "suppressed" or chosen >= 3)
        row, id = logits[layer, unit], int(hits.word_N[place])
        assert float(hits.logit_N[place]) == pytest.approx(float(row[id]), rel=1e-4, abs=1e-5)
        assert float(hits.z_N[place]) == pytest.approx(float(z[layer, unit, id]), rel=1e-4, abs=1e-5)
        ahead = row < row[id] if hits.suppressed_N[place] else row > row[id]
        assert int(hits.rank_N[place]) == int(ahead.sum())
        assert hits.ends.highest_NK[place].tolist() == row.argsort(descending=True)[:4].tolist()
        assert hits.ends.lowest_NK[place].tolist() == row.argsort()[:4].tolist()


def test_of_equal_words_the_lower_id_is_ahead_from_both_ends():
    embedding = torch.ones(6, 2)
    embedding[3] = 2
    hits = values.search(
        lambda layer: torch.eye(2), 1, Reader(embedding), [4], end="promoted", spread=None, limit=1, top=2
    )
    assert (hits.rank_N.tolist(), hits.ends.highest_NK[0, 0].item()) == ([4], 3)
    hits = values.search(
        lambda layer: torch.eye(2), 1, Reader(embedding), [4], end="suppressed", spread=None, limit=1, top=2
    )
    assert hits.rank_N.tolist() == [3]


def test_a_value_of_zeros_has_no_z_and_is_found_last():
    rows = torch.randn(1, 4, WIDTH, generator=dice())
    rows[0, 2] = 0
    reader = READERS["raw"]
    spread = Spread.of(lambda layer: rows[layer], 1, Moments.of(reader))
    hits = values.search(lambda layer: rows[layer], 1, reader, [3], end="both", spread=spread, limit=9, top=1)
    assert int(hits.unit_N[-1]) == 2
    assert bool(hits.z_N.isnan()[-1])
    assert len(hits.unit_N) == 4


def test_a_search_asks_between_layers_whether_anybody_waits():
    asked: list[int] = []
    values.search(
        lambda layer: VALUES[layer], LAYERS, READERS["raw"], [1], end="both", spread=None, limit=3, top=1,
        cancel=lambda: asked.append(1),
    )  # fmt: skip
    assert len(asked) >= LAYERS


@pytest.mark.parametrize("cosine", [False, True])
def test_the_nearest_rows_are_those_of_the_whole_table_without_the_one_that_is_left_out(cosine):
    direction = VALUES[1, 4]
    rows = VALUES.flatten(0, 1).double()
    scores = (
        torch.nn.functional.cosine_similarity(rows, direction.double()[None]) if cosine else rows @ direction.double()
    )
    order = [place for place in scores.argsort(descending=True).tolist() if place != UNITS + 4][:7]
    layer_N, unit_N, score_N = values.nearest(
        lambda layer: VALUES[layer], LAYERS, direction, 7, cosine=cosine, but=(1, 4)
    )
    assert (layer_N * UNITS + unit_N).tolist() == order
    torch.testing.assert_close(score_N.double(), scores[order], rtol=1e-5, atol=1e-6)


def test_every_row_may_be_asked_for():
    found = values.nearest(lambda layer: VALUES[layer], LAYERS, VALUES[0, 0], 10**6, cosine=True, but=(0, 0))
    assert len(found[0]) == LAYERS * UNITS - 1


@pytest.mark.parametrize("name", READERS)
def test_both_ends_are_those_of_the_whole_table(name):
    reader, rows = READERS[name], VALUES.flatten(0, 1)
    logits = dense(reader, rows)
    ends = read_ends(reader, rows, 5, block_bytes=4 * WORDS * 2)
    assert torch.equal(ends.highest_NK, logits.argsort(-1, descending=True)[:, :5])
    assert torch.equal(ends.lowest_NK, logits.argsort(-1)[:, :5])
    torch.testing.assert_close(ends.lowest_logit_NK.double(), logits.sort(-1).values[:, :5], rtol=1e-4, atol=1e-5)
    assert read_ends(reader, rows[:0], 5).highest_NK.shape == (0, 5)


def test_an_embedding_in_half_precision_is_read_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(reading, "CONVERTED_ROWS", 10)
    reader = READERS["half precision"]
    assert max(map(len, reader.blocks())) == 10
    torch.testing.assert_close(reader.logits(VALUES[0]).double(), dense(reader, VALUES[0]), rtol=1e-4, atol=1e-5)


def test_what_is_no_norm_is_not_taken_for_one():
    assert Norm.of(lambda states: states.tanh(), WIDTH) is None
    assert Norm.of(torch.nn.Identity(), WIDTH) is None
    with torch.no_grad():
        assert Norm.of(torch.nn.LayerNorm(WIDTH), WIDTH) is not None
