"""What is near a concept, among all groups of weights: against products over every row, matrix by matrix, by name."""

import pytest
import torch

from backend import errors
from backend.models import weight_lookup
from backend.schema import GROUPS, ConceptAsk, Limits
from tests import families, tiny
from tests.models.test_weights import SHARED, norms, parts

LIMITS = Limits()


def every(kind, among, reading):
    """All vectors of a group as they meet the embedding [N, D] in float64, and how each is named."""
    model, rows, names = SHARED[kind].model, [], []
    for layer in range(3):
        before, after = norms(kind, layer) if reading == "folded" else (lambda x: x, lambda x: x)
        if among in ("values", "keys"):
            if kind == "llama":
                block = model.model.layers[layer]
                key, value, norm = (
                    block.mlp.gate_proj.weight,
                    block.mlp.down_proj.weight.T,
                    block.post_attention_layernorm,
                )
            else:
                block = model.transformer.h[layer]
                key, value, norm = block.mlp.c_fc.weight.T, block.mlp.c_proj.weight, block.ln_2
            vectors = after(value.double()) if among == "values" else key.double()
            if among == "keys" and reading == "folded":
                vectors = vectors * norm.weight.double()
                vectors = vectors - vectors.mean(-1, keepdim=True) if kind == "gpt2" else vectors
            names += [(layer, unit, None, None) for unit in range(len(vectors))]
            rows.append(vectors)
            continue
        shared = among in ("k", "v") and kind == "llama"
        for head in range(0, 4, 2 if shared else 1):
            matrix = parts(kind, layer, head)["qkvo".index(among)].double()
            eye = torch.eye(32, dtype=torch.float64)
            vectors = after(matrix) if among == "o" else (before(eye) @ matrix).T
            names += [(layer, None, head // 2 if shared else head, index) for index in range(len(vectors))]
            rows.append(vectors)
    return torch.cat(rows), names


@pytest.mark.parametrize("reading", ["raw", "folded"])
@pytest.mark.parametrize("among", GROUPS)
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_what_is_near_is_what_the_products_with_all_rows_say(kind, among, reading):
    loaded = SHARED[kind]
    ask = ConceptAsk(model="x", words=("the", "cat"), among=(among,), reading=reading, limit=7)
    answer = weight_lookup.lookup(loaded, ask, LIMITS)
    rows, names = every(kind, among, reading)
    writes = among in ("values", "o")
    E = (loaded.model.get_output_embeddings() if writes else loaded.model.get_input_embeddings()).weight.double()
    concept = E[[one.id for one in answer.spellings]].mean(0) - E.mean(0)
    scores = rows @ concept
    (group,) = answer.groups
    assert group.searched == len(rows)
    order = scores.argsort(descending=True)[:7].tolist()
    assert [(one.layer, one.unit, one.head, one.index) for one in group.found] == [names[at] for at in order]
    for one, at in zip(group.found, order, strict=True):
        assert one.score == pytest.approx(float(scores[at]), rel=1e-4)
        cosine = scores[at] / rows[at].norm() / concept.norm()
        assert one.cosine == pytest.approx(float(cosine), rel=1e-3)
        assert one.ends.highest == tuple((E @ rows[at]).argsort(descending=True)[:5].tolist())


def test_a_word_of_several_tokens_refuses_the_question_or_is_left_out_where_this_is_asked_for():
    """Left out, the others alone are the concept; where none is left the question is refused either way."""
    loaded = SHARED["llama"]
    ask = ConceptAsk(model="x", words=("the", "thecat"), among=("values",))
    with pytest.raises(errors.SeveralTokens, match="“thecat” is 2 tokens: the · cat") as refused:
        weight_lookup.lookup(loaded, ask, LIMITS)
    assert "“the”" not in refused.value.why
    assert "leave such words out" in refused.value.instead
    answer = weight_lookup.lookup(loaded, ask.model_copy(update={"leave_out": True}), LIMITS)
    alone = weight_lookup.lookup(loaded, ask.model_copy(update={"words": ("the",)}), LIMITS)
    assert answer.groups == alone.groups
    assert any("Left out" in said and "thecat" in said for said in answer.notices)
    with pytest.raises(errors.CannotShow, match="2 tokens") as refused:
        weight_lookup.lookup(loaded, ask.model_copy(update={"words": ("thecat",), "leave_out": True}), LIMITS)
    assert "leave such words out" not in refused.value.instead
    assert refused.value.problem().type == "cannot-show"  # nothing would be left


def test_a_refused_word_names_its_forms_that_are_one_token():
    """“Attention” is a token of the tiny vocabulary, in these letters alone."""
    with pytest.raises(errors.CannotShow, match="one token: “Attention”"):
        weight_lookup.lookup(SHARED["llama"], ConceptAsk(model="x", words=("ATTENTION",)), LIMITS)


def test_read_and_written_vectors_are_looked_up_with_their_own_embedding():
    """The tiny Llama ties nothing, so one embedding in the place of the other would find other vectors."""
    model = SHARED["llama"].model
    assert not torch.equal(model.get_input_embeddings().weight, model.get_output_embeddings().weight)


def test_a_model_without_a_read_out_is_looked_up_with_its_input_embedding_and_says_so():
    loaded = tiny.without_read_out()
    answer = weight_lookup.lookup(loaded, ConceptAsk(model="x", words=("the",)), LIMITS)
    assert all(group.found for group in answer.groups)
    assert any("no read-out" in said for said in answer.notices)
    folded = weight_lookup.lookup(loaded, ConceptAsk(model="x", words=("the",), reading="folded"), LIMITS)
    assert {group.among for group in folded.groups if group.why} == {"values", "o"}
    assert all("no read-out" in group.why for group in folded.groups if group.why)


def test_groups_that_a_family_does_not_show_say_why_and_the_others_are_there():
    answer = weight_lookup.lookup(families.opened("mixtral"), ConceptAsk(model="x", words=("the",)), LIMITS)
    why = {group.among: group.why for group in answer.groups}
    assert {among for among, said in why.items() if said} == {"values", "keys"}
    assert all("mixture of experts" in why[among] for among in ("values", "keys"))
    hybrid = weight_lookup.lookup(families.opened("lfm2"), ConceptAsk(model="x", words=("the",), among=("o",)), LIMITS)
    assert {one.layer for one in hybrid.groups[0].found} == {1}
    with pytest.raises(errors.CannotShow, match="another map stands between"):
        weight_lookup.lookup(families.opened("electra"), ConceptAsk(model="x", words=("the",), among=("q",)), LIMITS)
