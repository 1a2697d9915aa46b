"""Surprisal, probability, rank and entropy of each token, in blocks of rows, are those of the full logits."""

import math

import pytest
import torch
from torch import Tensor

from backend.errors import Cancelled
from backend.measure.tokens import TokenScores, rows_in, score_tokens


def score(logits_TV: Tensor, ids: list[int], block_bytes: int = 10**9) -> TokenScores:
    return score_tokens(
        logits_TV,
        torch.tensor(ids),
        lambda states_ND, _: states_ND,
        vocabulary=logits_TV.shape[1],
        block_bytes=block_bytes,
    )


def test_the_first_token_is_undefined() -> None:
    scored = score(torch.zeros(3, 5), [0, 1, 2])
    for values in (scored.surprisal_T, scored.probability_T, scored.entropy_T):
        assert math.isnan(values[0])
        assert values[1:].isfinite().all()
    assert scored.rank_T[0] == -1


def test_one_token_has_nothing_defined() -> None:
    scored = score(torch.zeros(1, 5), [3])
    assert scored.surprisal_T.isnan().all()
    assert scored.rank_T.tolist() == [-1]


def test_uniform_logits_have_entropy_and_surprisal_ln_v() -> None:
    scored = score(torch.full((4, 50), 3.0), [7, 0, 49, 20])
    assert torch.allclose(scored.entropy_T[1:], torch.tensor(math.log(50.0)))
    assert torch.allclose(scored.surprisal_T[1:], torch.tensor(math.log(50.0)))
    assert torch.allclose(scored.probability_T[1:], torch.tensor(1 / 50))


def test_many_unlikely_tokens_of_a_large_vocabulary_are_counted() -> None:
    logits = torch.randn(4, 49_152, generator=torch.Generator().manual_seed(0)) * 4 + 20
    logits[:, 100] = logits.logsumexp(-1) + 1
    scored, logps = score(logits, [100] * 4), logits.double().log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    torch.testing.assert_close(scored.surprisal_T[1:].double(), -logps[:3, 100], rtol=0, atol=4e-6)
    torch.testing.assert_close(scored.entropy_T[1:].double(), entropy[:3], rtol=0, atol=2e-5)


def test_among_equally_likely_tokens_the_lower_id_ranks_first() -> None:
    assert score(torch.zeros(4, 6), [0, 0, 3, 5]).rank_T.tolist() == [-1, 0, 3, 5]


def test_a_certain_token_costs_nothing_and_an_impossible_one_everything() -> None:
    certain_TV = torch.full((3, 4), -torch.inf)
    certain_TV[:, 2] = 0.0
    scored = score(certain_TV, [0, 2, 1])
    assert scored.surprisal_T[1] == 0
    assert scored.probability_T[1] == 1
    assert scored.entropy_T[1] == 0
    assert scored.rank_T.tolist() == [-1, 0, 2]
    assert scored.surprisal_T[2] == torch.inf
    assert scored.probability_T[2] == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_every_block_size_gives_what_the_full_logits_give(rows: int) -> None:
    torch.manual_seed(0)
    logits_TV, ids_T = torch.randn(12, 33) * 4, torch.randint(33, (12,))
    scored = score(logits_TV, ids_T.tolist(), block_bytes=rows * 33 * 4)
    logps_TV = logits_TV.double().log_softmax(-1)[:-1]
    targets_T = ids_T[1:]
    expected_T = -logps_TV[range(11), targets_T]
    assert torch.allclose(scored.surprisal_T[1:].double(), expected_T, atol=1e-5)
    assert torch.allclose(scored.probability_T[1:].double(), (-expected_T).exp(), atol=1e-6)
    assert torch.allclose(scored.entropy_T[1:].double(), -(logps_TV.exp() * logps_TV).sum(-1), atol=1e-5)
    order_TV = logits_TV[:-1].argsort(dim=-1, descending=True, stable=True)
    assert scored.rank_T[1:].tolist() == [order_TV[at].tolist().index(targets_T[at]) for at in range(11)]


def test_half_precision_logits_are_scored_in_float32() -> None:
    torch.manual_seed(0)
    logits_TV = (torch.randn(5, 200) * 3).bfloat16()
    ids = [1, 2, 3, 4, 5]
    half, single = score(logits_TV, ids), score(logits_TV.float(), ids)
    assert half.surprisal_T.dtype == torch.float32
    assert torch.equal(half.surprisal_T[1:], single.surprisal_T[1:])


def test_the_last_state_is_never_read_and_no_block_is_larger_than_asked() -> None:
    seen: list[int] = []

    def read(states_ND: Tensor, first: int) -> Tensor:
        seen.append(states_ND.shape[0])
        return states_ND

    score_tokens(torch.zeros(11, 5), torch.zeros(11, dtype=torch.long), read, vocabulary=5, block_bytes=4 * 5 * 4)
    assert seen == [4, 4, 2]
    assert rows_in(block_bytes=1, vocabulary=100_000) == 1


def test_a_cancelled_question_stops_at_the_next_block() -> None:
    blocks: list[int] = []

    def read(states_ND: Tensor, first: int) -> Tensor:
        blocks.append(1)
        return states_ND

    def cancel() -> None:
        if blocks:
            raise Cancelled("Stopped", "you asked for it", "Ask again.")

    with pytest.raises(Cancelled):
        score_tokens(
            torch.zeros(9, 3), torch.zeros(9, dtype=torch.long), read, vocabulary=3, block_bytes=12, cancel=cancel
        )
    assert len(blocks) == 1
