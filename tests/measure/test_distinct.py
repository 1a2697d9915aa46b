"""Distinct n-grams of texts that can be counted by hand."""

from backend.measure.distinct import distinct, grams


def test_texts_that_can_be_counted_by_hand():
    assert distinct([[1, 2, 1, 2]]) == (2 / 4, 2 / 3, 2 / 2)
    assert distinct([[5, 5, 5, 5]]) == (1 / 4, 1 / 3, 1 / 2)
    assert distinct([[1, 2, 3], [1, 2, 3]]) == (3 / 6, 2 / 4, 1 / 2), "what two texts share counts once"
    assert distinct([[1], []]) == (1.0, 0.0, 0.0)
    assert grams([1, 2, 3], 2) == [(1, 2), (2, 3)], "none goes over the border of two texts"
