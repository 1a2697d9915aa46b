"""A steer made from two classes makes each likelier at its own end, on texts that it never saw; the range is exact."""

from math import log

import pytest

from backend import errors
from backend.models.examples import POLE_LEAST, split
from backend.schema import Example, MakeAsk
from backend.studies.judging import TRIED, doubling
from backend.studies.making import check
from tests import families, tiny


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [(3.3, 10.0, (3.3, 10.0)), (0.4, 64.0, (0.4, 64.0)), (1000.0, 0.05, (None, 0.05)), (5.0, 1e9, (5.0, None))],
)
async def test_the_range_ends_where_the_perplexity_doubles(high, low, expected):
    asked, planned = [], []

    async def worse(strengths, left):
        asked.append(len(strengths))
        planned.append(left)
        return [log(2) * (by / high if by > 0 else -by / low) ** 2 for by in strengths]

    ends = await doubling(worse)
    for end, value in zip(ends, expected, strict=True):
        assert end.doubled == (value is not None)
        if value is None:
            assert end.at == TRIED[-1]
        else:
            octave = max(1.0, value)
            assert value - octave / 32 <= end.at <= value
    assert max(asked) <= 6
    assert len(asked) <= 7
    if max(high, low) < 5:
        assert planned == [4, 3, 2, 1], "as many questions as are left, for who waits"
    assert min(planned) >= 1


def ask(loaded, **changes) -> MakeAsk:
    told = {"model": loaded.name, "name": "n", "plus": "+", "minus": "-", "examples": "0" * 64, "rank": 3}
    return MakeAsk(**told | changes)


def test_what_cannot_be_trained_is_refused_before_any_run(monkeypatch):
    llama = tiny.loaded("llama")
    check(llama, ask(llama), None, lambda: None)
    with pytest.raises(errors.BadQuestion, match="rank of 33") as refused:
        check(llama, ask(llama, rank=33), None, lambda: None)
    assert (refused.value.needed, refused.value.available) == (33, 32)
    monkeypatch.setattr("backend.studies.making.FACTORS_MOST", 1000)
    with pytest.raises(errors.TooLarge, match="too large to train") as large:
        check(llama, ask(llama, rank=None), None, lambda: None)
    assert (large.value.needed, large.value.available) == (7 * 4 * 32 * 32, 1000)
    bert = families.opened("bert")
    with pytest.raises(errors.CannotShow):
        check(bert, ask(bert), None, lambda: None)


def test_the_parts_of_a_making_share_no_text():
    rows = [Example(text=f"text {place}", label=(-1) ** place) for place in range(2 * POLE_LEAST)]
    parts = split(rows, 0.2)
    texts = [row.text for part in (parts.train, parts.stop, parts.judge) for row in part]
    assert len(set(texts)) == len(texts) == len(rows)
