"""What in a text shows the sliders: token by token against two plain models, and spans that are the best there are."""

import copy

import numpy as np
import pytest
import torch

from backend.measure.spans import best_spans
from backend.models import forward
from backend.models import steer_evidence as instrument
from backend.models.plan import Row, fold
from backend.schema import EvidenceAnswer, EvidenceAsk, HeadScale, Limits, ResidualAdd, Steer, View
from tests import families, tiny
from tests.models.test_steer import TEXT, TOGETHER, UP, ask, llama, plain_logits, with_vectors


def evidence(loaded, *edits, text: str = TEXT, **options) -> EvidenceAnswer:
    return instrument.evidence(
        loaded, EvidenceAsk(view=View(model="tiny", text=text, edits=edits), **options), Limits()
    )


def each(answer: EvidenceAnswer) -> np.ndarray:
    return np.frombuffer(answer.evidence.data, "<f4")


@pytest.mark.parametrize("against", ["base", "reversed"])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "cohere", "gpt_neox", "lfm2"])
def test_it_is_the_difference_of_two_plain_models(kind, against):
    loaded = with_vectors(copy.copy(families.opened(kind)))
    answer = evidence(loaded, *TOGETHER, against=against)
    turned = tuple(edit.model_copy(update={"by": -edit.by}) for edit in TOGETHER)
    ids = torch.tensor(answer.ids)[1:, None]
    with_T, against_T = (
        plain_logits(kind, answer.ids, *edits)[:-1].log_softmax(-1).gather(1, ids)[:, 0]
        for edits in (TOGETHER, turned if against == "reversed" else ())
    )
    expected = (with_T - against_T).numpy()
    assert np.isnan(each(answer)[0])
    np.testing.assert_allclose(each(answer)[1:], expected, rtol=1e-3, atol=1e-4)
    assert answer.total == pytest.approx(float(expected.sum()), rel=1e-3, abs=1e-3)
    assert 0 < answer.p <= 1


def test_its_spans_are_those_of_the_numbers_shown():
    answer = evidence(llama(), *TOGETHER, spans=2, length=3, permutations=99)
    values = torch.tensor(each(answer).copy()).double()[1:]
    best = best_spans(values, 2, 3)
    assert [(span.first, span.last) for span in answer.spans] == [(a + 1, b + 1) for a, b, _ in best.spans]
    assert answer.best == pytest.approx(best.total, rel=1e-5)
    assert sum(span.evidence for span in answer.spans) == pytest.approx(answer.best)
    assert 0 < len(answer.spans) <= 2


def test_reversed_evidence_turns_with_the_sliders():
    turned = tuple(edit.model_copy(update={"by": -edit.by}) for edit in TOGETHER)
    one, other = evidence(llama(), *TOGETHER), evidence(llama(), *turned)
    np.testing.assert_allclose(each(one)[1:], -each(other)[1:], rtol=1e-5, atol=1e-6)


def test_a_direction_and_other_edits_are_compared_as_they_stand(monkeypatch):
    loaded = llama()
    other, up = HeadScale(layer=0, head=1, by=0), ResidualAdd(layer=1, vector=UP, by=2)
    answer = evidence(loaded, other, up, against="base")
    expected = lnp(loaded, answer.ids, other, up) - lnp(loaded, answer.ids, other)
    np.testing.assert_allclose(each(answer)[1:], expected, rtol=1e-3, atol=1e-4)
    whole = each(answer).copy()
    monkeypatch.setattr(instrument, "BLOCK_BYTES", 1)
    np.testing.assert_allclose(each(evidence(loaded, other, up, against="base"))[1:], whole[1:], rtol=1e-4, atol=1e-5)


def lnp(loaded, ids, *edits) -> np.ndarray:
    """ln P of every token but the first, from one whole run."""
    plan = fold(loaded.anatomy, [Row(edits, len(ids))], len(ids), loaded.vectors)
    logits_TV = forward.run(loaded, [ids], plan, logits=True)[0, :-1].double()
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(ids)[1:, None])[:, 0].numpy()


def test_without_sliders_nothing_is_evidence_and_nothing_is_no_span():
    answer = evidence(llama())
    assert not each(answer)[1:].any()
    assert (answer.spans, answer.best, answer.p, answer.chance) == ((), 0.0, 1.0, 0.0)
    assert any("No slider" in notice for notice in answer.notices)
    assert instrument.evidence_bytes(llama(), EvidenceAsk(view=ask().view), Limits()) > 0


def test_a_text_of_one_token_has_nothing_that_is_predicted():
    loaded = with_vectors(tiny.loaded("gpt2"))
    answer = evidence(loaded, Steer(steer=TOGETHER[0].steer, by=1), text="a")
    assert (len(answer.ids), answer.spans, answer.total, answer.p) == (1, (), 0.0, 1.0)
