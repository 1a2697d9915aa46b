"""Stitched models: a twin in another basis takes over at any block as if nothing had happened; controls do not."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import BertForSequenceClassification

from backend import errors
from backend.models import opening
from backend.models.loaded import Loaded
from backend.schema import Example, Source, StitchingAnswer, StitchingAsk
from backend.studies import stitching
from tests import tiny
from tests.studies import twins
from tests.studies.direct import Direct, Reported, Shelves

TEXTS = ("The cat sat on the mat.", "Mary gave a drink to John.", "The dog barked at the quick brown fox.", "Off!")
EXAMPLES = tuple(Example(text=text, label=1 if place % 2 else -1) for place, text in enumerate(TEXTS * 2))


@cache
def model(kind: str, twin: str = "") -> Loaded:
    made = twins.plain(kind)
    return twins.opened(
        twins.rotated(made, kind) if twin else made, "bert" if kind == "encoder" else kind, f"{kind} {twin}".strip()
    )


def named(name: str, id: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, id=id)


async def stitched(one: Loaded, other: Loaded, told: Reported | None = None, **options: Any) -> StitchingAnswer:
    ask = StitchingAsk(model=one.name, other=other.name, **options)
    library = Shelves(
        one, other, sets=SimpleNamespace(get=lambda id: SimpleNamespace(card=named("prose", "a" * 64), texts=TEXTS)),
        examples=SimpleNamespace(get=lambda id: SimpleNamespace(card=named("films", id), rows=EXAMPLES)),
    )  # fmt: skip
    stitching.look(ask, library)
    await stitching.before(Direct(one), ask, library)
    found = await stitching.study(Direct(one), ask, library, told or Reported())
    return StitchingAnswer.model_validate(found)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "encoder"])
async def test_a_twin_in_another_basis_goes_on_as_if_nothing_had_happened_and_controls_do_not(kind):
    answer = await stitched(model(kind), model(kind, "rotated"))
    assert answer.reading == ("raw" if kind == "encoder" else "folded")
    assert answer.measure == ("agreement" if kind == "encoder" else "nll")
    assert answer.texts == answer.of == len(TEXTS)
    assert (answer.examples, answer.set, answer.named) == (None, "a" * 64, "prose")
    by_kernel = {name: [each for each in answer.points if each.kernel == name] for name in NAMES}
    assert [(each.lower, each.upper) for each in by_kernel["stitched"]] == [(cut, cut) for cut in range(5)]
    for point in by_kernel["stitched"]:
        assert point.agreement.mean == pytest.approx(1, abs=1e-4), point.lower
        if answer.whole is not None:
            assert point.value.mean == pytest.approx(answer.whole.mean, abs=1e-3)
    for name in ("identity", "random"):
        assert max(each.agreement.mean for each in by_kernel[name]) < 0.9
    assert ("its final norm" in answer.about) == (kind != "encoder"), "the blocks of an encoder end with their norms"
    assert ("its read-out" in answer.about) == (kind != "encoder")
    if kind != "encoder":
        assert answer.lower_whole.mean == pytest.approx(answer.whole.mean, abs=1e-4), "it is one function"
        expected = torch.stack([nll(model(kind, "rotated"), text) for text in TEXTS]).mean()
        assert answer.whole.mean == pytest.approx(float(expected), abs=1e-4)


NAMES = ("stitched", "identity", "random")


def nll(loaded: Loaded, text: str) -> torch.Tensor:
    """By transformers: mean of −ln p over the tokens but the first."""
    ids = torch.tensor([loaded.tokenizer(text)["input_ids"]])
    with torch.inference_mode():
        return loaded.model(input_ids=ids, labels=ids).loss


async def test_the_last_blocks_of_the_upper_model_follow_where_so_many_are_asked_for():
    answer = await stitched(model("llama"), model("llama"), last=1, cuts=(1, 3, 4))
    assert [(each.lower, each.upper) for each in answer.points][:3] == [(1, 3), (3, 3), (4, 3)]
    own = next(each for each in answer.points if (each.kernel, each.lower) == ("stitched", 3))
    assert own.agreement.mean == pytest.approx(1, abs=1e-4)
    assert answer.directions == 32


async def test_models_of_other_width_and_depth_are_stitched_without_the_identity():
    other = twins.opened(twins.plain("llama", num_hidden_layers=2, hidden_size=24), "llama", "small")
    answer = await stitched(model("llama"), other)
    assert {each.kernel for each in answer.points} == {"stitched", "random"}
    assert [each.upper for each in answer.points if each.kernel == "stitched"] == [0, 0, 1, 1, 2]
    assert answer.directions == 24


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return critic(tmp_path_factory.mktemp("classifier"), "Positive", "Negative")


def critic(folder: Path, *labels: str) -> Loaded:
    """A classifier of thrown weights, read back from a folder."""
    tokenizer = tiny.tokenizer_of("bert")
    config = tiny.model_of("bert", len(tokenizer)).config
    named = {"num_labels": len(labels), "id2label": dict(enumerate(labels))}
    torch.manual_seed(3)
    BertForSequenceClassification(config.__class__(**config.to_dict() | named)).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return opening.open_folder(folder, name="critic", source=Source(kind="folder", name="critic"), digest="d")


async def test_accuracy_is_that_of_the_class_s_own_answers(classifier, tmp_path):
    answer = await stitched(classifier, classifier, examples="0" * 64)
    assert answer.measure == "accuracy"
    assert answer.labels == ("Positive", "Negative")
    assert answer.chance == 0.5
    assert (answer.positive, answer.negative, answer.examples, answer.named) == (0, 1, "0" * 64, "films")
    assert f"{len(EXAMPLES)} of the labelled texts “films” (000000000000)" in answer.about
    whole = classifier.classifier.whole
    with torch.inference_mode():
        said = [int(whole(**classifier.tokenizer(e.text, return_tensors="pt")).logits.argmax()) for e in EXAMPLES]
    right = [(label == 0) == (each.label > 0) for label, each in zip(said, EXAMPLES, strict=True)]
    assert answer.whole.mean == answer.lower_whole.mean == pytest.approx(sum(right) / len(right))
    for point in answer.points:
        if point.kernel != "random":
            assert point.value.mean == pytest.approx(answer.whole.mean), "stitched to itself it is itself"
    other = await stitched(classifier, classifier, examples="0" * 64, positive=1, cuts=(3,))
    assert other.whole.mean == pytest.approx(1 - answer.whole.mean)


async def test_of_three_labels_only_that_of_its_pole_is_right_on_a_text(tmp_path):
    three = critic(tmp_path, "negative", "neutral", "positive")
    whole = three.classifier.whole
    with torch.inference_mode():
        logits = torch.cat([whole(**three.tokenizer(each.text, return_tensors="pt")).logits for each in EXAMPLES])
        whole.classifier.bias.sub_(logits.mean(0))
    said = (logits - logits.mean(0)).argmax(1).tolist()
    assert len(set(said)) > 1, "no label is likelier on all texts"
    for plus, minus in ((2, 0), (1, 0), (0, 1), (0, 2)):
        named = {} if (plus, minus) == (2, 0) else {"positive": plus, "negative": minus}
        answer = await stitched(three, three, examples="0" * 64, cuts=(2,), **named)
        right = [label == (plus if each.label > 0 else minus) for label, each in zip(said, EXAMPLES, strict=True)]
        assert answer.whole.mean == answer.lower_whole.mean == pytest.approx(sum(right) / len(right))
        assert answer.points[0].value.mean == pytest.approx(sum(right) / len(right)), "stitched to itself it is itself"
        assert f"{three.classifier.labels[minus]} for − texts" in answer.about


async def test_a_classifier_without_labelled_texts_says_that_its_accuracy_is_not_measured(classifier):
    answer = await stitched(classifier, classifier, cuts=(1,))
    assert answer.measure == "agreement"
    assert answer.whole is None
    assert any("no labelled texts" in notice for notice in answer.notices)


async def test_mapping_is_advised_where_it_leads_somewhere_and_refused_before_there_is_a_job_where_not(monkeypatch):
    """The Llama puts <s> before every text, so no text is cut alike; without it every text is."""
    one, other = model("llama"), model("gpt2")
    library = Shelves(
        one, other, sets=SimpleNamespace(get=lambda id: SimpleNamespace(card=named("prose", "a" * 64), texts=TEXTS))
    )
    ask = StitchingAsk(model=one.name, other=other.name)
    with pytest.raises(errors.CannotShow, match="different tokens") as refused:
        await stitching.before(Direct(one), ask, library)
    assert "different vocabularies" in refused.value.what
    assert "by_string" not in refused.value.instead
    with pytest.raises(errors.CannotShow, match="no text to measure"):
        await stitching.before(Direct(one), ask.model_copy(update={"by_string": True}), library)
    cut = stitching.encoded
    monkeypatch.setattr(
        stitching, "encoded", lambda loaded, cancel, **more: [
            replace(text, ids=text.ids[1:]) if loaded is one else text for text in cut(loaded, cancel, **more)
        ],
    )  # fmt: skip
    with pytest.raises(errors.CannotShow, match="different vocabularies") as refused:
        await stitching.before(Direct(one), ask, library)
    assert "by_string" in refused.value.instead
    await stitching.before(Direct(one), ask.model_copy(update={"by_string": True}), library)


async def test_what_is_no_question_is_refused(classifier):
    one = model("llama")
    with pytest.raises(errors.BadQuestion, match="without labels"):
        await stitched(one, one, examples="0" * 64, set="1" * 64)
    with pytest.raises(errors.CannotShow, match="no 5 blocks"):
        await stitched(one, one, cuts=(5,))
    with pytest.raises(errors.CannotShow, match="no 9 blocks"):
        await stitched(one, one, last=9)
    with pytest.raises(errors.CannotShow, match="no label 2"):
        await stitched(classifier, classifier, examples="0" * 64, positive=2)
    with pytest.raises(errors.BadQuestion, match="both poles"):
        await stitched(classifier, classifier, examples="0" * 64, positive=1, negative=1)
    with pytest.raises(errors.CannotShow, match="reading `folded`"):
        await stitched(classifier, classifier, reading="folded")


async def test_partial_answers_tell_how_many_texts_they_are_of(monkeypatch):
    monkeypatch.setattr(stitching, "PUBLISH_S", 0.0)
    told = Reported()
    await stitched(model("gpt2"), model("gpt2"), told, cuts=(2,))
    partials = [StitchingAnswer(**each) for each in told.partials]
    assert [each.texts for each in partials] == [1, 2, 3, 4]
    assert all(point.agreement.n == each.texts for each in partials for point in each.points)
