"""How the model reads each token: equal to the full logits of the untouched eager model, edits and all."""

import base64
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from backend.errors import CannotShow, TooLong
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.tokens import READ_OUT, answer, answer_bytes
from backend.schema import Array, HeadScale, Limits, Promise, Scores, TokensAnswer, TokensAsk, View
from tests import tiny

ROOM = Limits.model_validate({"tokens": 4096})
TEXT = "The quick brown fox jumps over 東京, said the Queen."
CUT = HeadScale(layer=1, head=2, by=0)


@cache
def opened_tiny(kind: str) -> Loaded:
    return tiny.loaded(kind)


def values(array: Array) -> Tensor:
    dtype = {"f4": torch.float32, "i4": torch.int32}[array.dtype]
    return torch.frombuffer(bytearray(base64.b64decode(array.bdata)), dtype=dtype).reshape(array.dims)


def ask(opened: Loaded, *, scores: bool = True, **view: Any) -> TokensAnswer:
    asked = TokensAsk(view=View.model_validate({"model": opened.name, "text": TEXT, **view}), scores=scores)
    return answer(opened, asked, ROOM)


def full(model: Any, ids: tuple[int, ...]) -> Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)


def agree(scores: Scores, logps_TV: Tensor, ids: tuple[int, ...]) -> None:
    targets_T = torch.tensor(ids[1:])
    before_TV = logps_TV[:-1]
    expected_T = -before_TV.gather(-1, targets_T[:, None])[:, 0]
    assert torch.allclose(values(scores.surprisal)[1:].double(), expected_T, atol=2e-5)
    assert torch.allclose(values(scores.probability)[1:].double(), (-expected_T).exp(), atol=2e-5)
    assert torch.allclose(values(scores.entropy)[1:].double(), -(before_TV.exp() * before_TV).sum(-1), atol=2e-5)
    ranks_T = (before_TV > before_TV.gather(-1, targets_T[:, None])).sum(-1)
    assert (values(scores.rank)[1:] - ranks_T).abs().max() <= 1
    assert values(scores.rank)[0] == -1
    assert values(scores.surprisal)[0].isnan()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_scores_equal_the_eager_models_full_logits(kind: str) -> None:
    opened = opened_tiny(kind)
    found = ask(opened)
    untouched = tiny.model_of(kind, len(opened.tokenizer))
    untouched.set_attn_implementation("eager")
    assert found.scores is not None
    agree(found.scores, full(untouched, found.ids), found.ids)
    assert found.unedited is None
    assert found.conditions == opened.conditions


def test_edited_and_unedited_are_each_what_they_are_alone() -> None:
    opened = opened_tiny("llama")
    both = ask(opened, edits=[CUT], compare=True)
    edited, plain = ask(opened, edits=[CUT]), ask(opened)
    assert both.scores is not None
    assert both.unedited is not None
    for together, alone in ((both.scores, edited.scores), (both.unedited, plain.scores)):
        assert torch.allclose(values(together.surprisal)[1:], values(alone.surprisal)[1:], atol=1e-5)
    assert not torch.allclose(values(both.scores.surprisal)[1:], values(both.unedited.surprisal)[1:], atol=1e-3)


def test_comparing_without_edits_compares_the_model_with_itself() -> None:
    found = ask(opened_tiny("llama"), compare=True)
    assert found.scores == found.unedited


def test_an_edit_of_the_generated_tokens_leaves_the_prompts_scores_alone() -> None:
    opened = opened_tiny("llama")
    found = ask(
        opened, continuation=" Off with her head!", edits=[{**CUT.model_dump(), "at": "generated"}], compare=True
    )
    edited, plain = values(found.scores.surprisal), values(found.unedited.surprisal)
    border = found.prompt + 1
    assert torch.allclose(edited[1:border], plain[1:border], atol=1e-5)
    assert not torch.allclose(edited[border:], plain[border:], atol=1e-4)


def test_a_masked_model_has_tokens_and_a_reason_instead_of_scores() -> None:
    found = ask(opened_tiny("bert"))
    assert found.scores is None
    assert "left" in found.scores_why
    assert found.tokens


def test_without_scores_the_model_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opened_tiny("llama")
    monkeypatch.setattr(forward, "run", None)
    found = ask(opened, scores=False)
    assert found.scores is None
    assert found.scores_why


def test_a_text_beyond_the_context_is_refused_before_the_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opened_tiny("llama")
    monkeypatch.setattr(forward, "run", None)
    with pytest.raises(TooLong) as refusal:
        ask(opened, text="cat " * 500)
    assert refusal.value.available == tiny.CONTEXT
    assert refusal.value.needed > 500


def test_one_token_has_scores_of_which_none_is_defined() -> None:
    found = ask(opened_tiny("gpt2"), text="a")
    assert values(found.scores.surprisal).isnan().all()
    assert found.scores.rank.dims == (1,)


def test_an_edit_of_a_missing_head_is_refused_with_or_without_scores() -> None:
    opened = opened_tiny("llama")
    for scores in (True, False):
        with pytest.raises(CannotShow, match="head"):
            ask(opened, scores=scores, edits=[HeadScale(layer=0, head=99, by=0)])


def test_bytes_grow_with_the_text_and_double_when_two_rows_are_compared() -> None:
    opened = opened_tiny("llama")

    def needed(**view: Any) -> int:
        return answer_bytes(opened, TokensAsk(view=View.model_validate({"model": "m", **view})))

    assert needed(text="a") < needed(text="a" * 60)
    assert needed(text="a" * 60) < needed(text="a" * 60, edits=[CUT], compare=True)


def test_bytes_are_asked_for_nothing_when_no_forward_is_needed() -> None:
    view = View(model="m", text="a" * 60)
    assert answer_bytes(opened_tiny("bert"), TokensAsk(view=view)) == 0
    assert answer_bytes(opened_tiny("llama"), TokensAsk(view=view, scores=False)) == 0


def test_a_broken_read_out_is_a_reason_and_no_number() -> None:
    opened = tiny.loaded("gpt2")
    broken = Promise(name=READ_OUT, kept=False, detail="they differ by 3 logits")
    opened.card = opened.card.model_copy(update={"promises": (broken,)})
    found = ask(opened)
    assert found.scores is None
    assert "differ by 3 logits" in found.scores_why


def test_the_promise_that_scores_rest_on_is_checked_at_load() -> None:
    assert {promise.name: promise.kept for promise in opened_tiny("llama").card.promises}[READ_OUT] is True
