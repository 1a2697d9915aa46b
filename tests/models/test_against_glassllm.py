"""The whole path from text to one head's map, held to another implementation: glassllm's own NumPy model and tracer."""

import glassllm
import numpy as np
import pytest

from backend.models import forward
from backend.models.attention import head, overview
from backend.models.loaded import Loaded
from backend.schema import HeadAsk, HeadName, Limits, OverviewAsk, View
from tests.package_models import package_loaded

TEXTS = {
    "en": "“Off with her head!” the Queen shouted at the top of her voice.",
    "pt": "Capitu era Capitu, isto é, uma criatura mui particular.",
}

pytestmark = pytest.mark.pretrained


@pytest.fixture(scope="module", params=["en", "pt"])
def pair(request: pytest.FixtureRequest) -> tuple[Loaded, glassllm.Tracer, np.ndarray, str, list[int]]:
    """Our loaded model beside the package's own run of the same text."""
    text = TEXTS[request.param]
    model, tokenizer = glassllm.load_pretrained(request.param)
    ids = list(tokenizer.encode(text))
    tracer = glassllm.Tracer()
    with glassllm.no_grad():
        logits = model.forward(np.array([ids]), trace=tracer)
    return package_loaded(f"glassllm-{request.param}"), tracer, np.asarray(logits.data)[0], text, ids


def test_every_map_equals_the_independent_tracer(pair: tuple) -> None:
    loaded, tracer, _, text, ids = pair
    view = View(model=loaded.name, text=text)
    shape = loaded.anatomy.shape
    for layer in range(shape.layers):
        for number in range(shape.heads):
            answer = head(loaded, HeadAsk(view=view, heads=(HeadName(layer=layer, head=number),)), Limits())
            assert answer.ids == tuple(ids)
            map_TT = np.frombuffer(answer.edited.map.data, "<f4").reshape(answer.edited.map.dims)
            expected = tracer.get("attn.softmax", layer=layer, head=number).value
            assert np.abs(map_TT - expected).max() < 1e-5, (layer, number)


def test_every_entropy_equals_the_one_computed_from_the_independent_maps(pair: tuple) -> None:
    loaded, tracer, _, text, _ = pair
    answer = overview(loaded, OverviewAsk(view=View(model=loaded.name, text=text)), Limits())
    entropy = next(one for one in answer.edited.statistics if one.name == "entropy")
    found = np.frombuffer(entropy.value.data, "<f4").reshape(entropy.value.dims)
    for layer, number in np.ndindex(found.shape):
        weights = tracer.get("attn.softmax", layer=layer, head=number).value.astype(np.float64)
        rows = -np.where(weights > 0, weights * np.log(np.where(weights > 0, weights, 1.0)), 0.0).sum(-1)
        assert found[layer, number] == pytest.approx(rows[1:].mean(), abs=2e-5)  # row 0 has one key and is left out


def test_the_logits_equal_the_independent_model(pair: tuple) -> None:
    loaded, _, expected, _, ids = pair
    logits = forward.run(loaded, [ids], logits=True)[0]
    assert np.abs(logits.numpy() - expected).max() < 5e-5
