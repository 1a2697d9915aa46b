"""What a capture holds is what the plain eager model computes there, as hooks of the test itself see it."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from backend import errors
from backend.models import capture, forward, opening
from backend.models.loaded import Loaded
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import CaptureAbout, CaptureAsk, HeadScale, Limits, ResidualAdd, Source, Steer, View
from backend.schema.capture import ABOUT, PLACES, THEIRS, pattern
from lmscope.captured import Captured
from tests import families, tiny

TEXT = "The cat sat on the mat, and the dog barked."
HEADS, WIDTH = 4, 8
EVERY = (
    "embedding",
    "query.*",
    "key.*",
    "value.*",
    "maps.*",
    "heads.*",
    "ffn.*",
    "ffn_out.*",
    "residual.*",
    "final",
    "logits",
)


@pytest.fixture(scope="module")
def models() -> dict[str, Loaded]:
    return {kind: tiny.loaded(kind) for kind in tiny.KINDS}


def captured(loaded: Loaded, points: tuple[str, ...], limits: Limits | None = None, **more: Any) -> Captured:
    view = more.pop("view", None) or View(model=loaded.name, text=TEXT, **more.pop("of_view", {}))
    pieces: list[bytes] = []
    ask = CaptureAsk(view=view, points=points, **more)
    capture.pour(loaded, ask, limits or Limits(), pieces.append)
    return Captured(memoryview(b"".join(pieces)))


class Eager:
    """The plain model of transformers with eager attention, and what its own modules took and gave."""

    def __init__(self, model: PreTrainedModel, ids: tuple[int, ...]) -> None:
        self.model: Any = model
        self.model.set_attn_implementation("eager")
        self.taken: dict[str, Tensor] = {}
        self.given: dict[str, Tensor] = {}
        for name, part in self.model.named_modules():
            part.register_forward_hook(self._see(name), with_kwargs=True)
        with torch.inference_mode():
            self.output = self.model(
                torch.tensor([ids]), output_attentions=True, output_hidden_states=True, use_cache=False
            )

    def _see(self, name: str) -> Callable[..., None]:
        def see(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
            taken = args[0] if args else named.get("hidden_states")
            if isinstance(taken, Tensor):
                self.taken[name] = taken[0] if taken.ndim == 3 else taken  # OPT flattens rows and tokens
            self.given[name] = output[0] if isinstance(output, Tensor) else output[0][0]

        return see


def plain(kind: str, ids: tuple[int, ...]) -> Eager:
    return Eager(tiny.model_of(kind, len(tiny.tokenizer_of(kind))), ids)


def heads(flat_TD: Tensor) -> Tensor:
    return flat_TD.unflatten(-1, (-1, WIDTH))


def llama(eager: Eager, layer: int) -> dict[str, Tensor]:
    at = f"model.layers.{layer}"
    positions = torch.arange(eager.given["model.embed_tokens"].shape[0])[None]
    cos, sin = eager.model.model.rotary_emb(eager.given["model.embed_tokens"][None], positions)
    plain = [heads(eager.given[f"{at}.self_attn.{name}_proj"]).transpose(0, 1)[None] for name in "qk"]
    query, key = (turned[0].transpose(0, 1) for turned in apply_rotary_pos_emb(*plain, cos, sin))
    return {
        "query": query, "key": key, "value": heads(eager.given[f"{at}.self_attn.v_proj"]),
        "heads": heads(eager.taken[f"{at}.self_attn.o_proj"]), "ffn": eager.taken[f"{at}.mlp.down_proj"],
        "ffn_out": eager.given[f"{at}.mlp.down_proj"], "residual": eager.given[at],
    }  # fmt: skip


def gpt2(eager: Eager, layer: int) -> dict[str, Tensor]:
    at = f"transformer.h.{layer}"
    query, key, value = (heads(part) for part in eager.given[f"{at}.attn.c_attn"].chunk(3, -1))
    return {
        "query": query, "key": key, "value": value, "heads": heads(eager.taken[f"{at}.attn.c_proj"]),
        "ffn": eager.taken[f"{at}.mlp.c_proj"],
        "ffn_out": eager.given[f"{at}.mlp.c_proj"], "residual": eager.given[at],
    }  # fmt: skip


def bert(eager: Eager, layer: int) -> dict[str, Tensor]:
    at = f"bert.encoder.layer.{layer}"
    return {
        **{name: heads(eager.given[f"{at}.attention.self.{name}"]) for name in ("query", "key", "value")},
        "heads": heads(eager.taken[f"{at}.attention.output.dense"]), "ffn": eager.taken[f"{at}.output.dense"],
        "ffn_out": eager.given[f"{at}.output.dense"], "residual": eager.given[at],
    }  # fmt: skip


BY_HAND = {"llama": llama, "gpt2": gpt2, "bert": bert}
EMBEDDED = {"llama": "model.embed_tokens", "gpt2": "transformer.drop", "bert": "bert.embeddings"}
FINAL = {"llama": "model.norm", "gpt2": "transformer.ln_f", "bert": "bert.encoder.layer.2"}


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_place_is_what_the_plain_eager_model_has_there(models: dict[str, Loaded], kind: str) -> None:
    found = captured(models[kind], EVERY)
    eager = plain(kind, found.ids)
    expected = {"embedding": eager.given[EMBEDDED[kind]], "final": eager.given[FINAL[kind]]}
    expected["logits"] = eager.output.logits[0]
    for layer in range(3):
        expected |= {f"{name}.{layer}": value for name, value in BY_HAND[kind](eager, layer).items()}
        expected[f"maps.{layer}"] = eager.output.attentions[layer][0]
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].shape == tuple(value.shape), name
        assert np.abs(found[name] - value.numpy()).max() <= 1e-5, name
    assert np.array_equal(found["residual.0"], eager.output.hidden_states[1][0].numpy())
    assert np.array_equal(found["maps.2"], eager.output.attentions[2][0].numpy())


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_file_is_safetensors_and_says_what_it_holds(models: dict[str, Loaded], kind: str) -> None:
    loaded, pieces = models[kind], []
    view = View(model=loaded.name, text=TEXT)
    capture.pour(loaded, CaptureAsk(view=view, points=EVERY), Limits(), pieces.append)
    opened = load(b"".join(pieces))
    own = Captured(memoryview(b"".join(pieces)))
    assert {name: value.numpy().tobytes() for name, value in opened.items()} == {n: v.tobytes() for n, v in own.items()}
    about = own.about
    assert about.conditions == loaded.conditions
    assert about.view == view.digest()
    assert about.positions == tuple(range(len(about.ids)))
    for name, told in about.tensors.items():
        assert len(told.axes) == own[name].ndim
        assert set(told.axes) <= set(about.legend)
    sizes = {
        "T": len(about.ids), "S": len(about.ids), "H": HEADS, "G": loaded.anatomy.shape.kv_heads, "W": WIDTH,
        "D": loaded.anatomy.shape.width, "F": loaded.anatomy.units, "V": own["logits"].shape[-1],
    }  # fmt: skip
    for name, axes in own.axes.items():
        assert own[name].shape == tuple(sizes[axis] for axis in axes), name


def test_names_of_transformerlens_are_equal_to_places_of_ours(models: dict[str, Loaded]) -> None:
    found = captured(
        models["llama"],
        ("hook_embed", "embedding", "blocks.*.hook_resid_pre", "blocks.*.hook_resid_post", "residual.*", "heads.1",
         "blocks.1.attn.hook_z", "blocks.1.attn.hook_pattern", "maps.1", "blocks.1.attn.hook_v", "value.1",
         "blocks.1.attn.hook_rot_q", "query.1", "blocks.1.mlp.hook_post", "ffn.1", "ln_final.hook_out", "final"),
    )  # fmt: skip
    pairs = {
        "hook_embed": "embedding", "blocks.0.hook_resid_pre": "embedding", "blocks.2.hook_resid_pre": "residual.1",
        "blocks.2.hook_resid_post": "residual.2", "blocks.1.attn.hook_z": "heads.1",
        "blocks.1.attn.hook_pattern": "maps.1", "blocks.1.attn.hook_v": "value.1",
        "blocks.1.attn.hook_rot_q": "query.1", "blocks.1.mlp.hook_post": "ffn.1", "ln_final.hook_out": "final",
    }  # fmt: skip
    for theirs, ours in pairs.items():
        assert np.array_equal(found[theirs], found[ours]), theirs
        assert found.about.tensors[theirs].place == ours


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_name_of_transformerlens_is_offered_only_where_its_definition_holds(
    models: dict[str, Loaded], kind: str
) -> None:
    """Its definitions, taken at the modules of the plain model: block inputs, projections before any rotation, …"""
    loaded = models[kind]
    ids = captured(loaded, ("embedding",)).ids
    eager = plain(kind, ids)
    block = {"llama": "model.layers.1", "gpt2": "transformer.h.1", "bert": "bert.encoder.layer.1"}[kind]
    embed = {"llama": "model.embed_tokens", "gpt2": "transformer.wte", "bert": "bert.embeddings.LayerNorm"}[kind]
    if kind == "gpt2":
        query, key, value = (heads(part) for part in eager.given[f"{block}.attn.c_attn"].chunk(3, -1))
    else:
        inside = f"{block}.self_attn." if kind == "llama" else f"{block}.attention.self."
        names = ("q_proj", "k_proj", "v_proj") if kind == "llama" else ("query", "key", "value")
        query, key, value = (heads(eager.given[inside + name]) for name in names)
    by_hand = BY_HAND[kind](eager, 1)
    theirs = {
        "hook_embed": eager.given[embed], "blocks.1.hook_in": eager.taken[block],
        "blocks.1.hook_out": eager.given[block],
        "blocks.1.hook_resid_pre": eager.taken[block], "blocks.1.hook_resid_post": eager.given[block],
        "blocks.1.attn.hook_q": query, "blocks.1.attn.hook_k": key, "blocks.1.attn.hook_v": value,
        "blocks.1.attn.hook_rot_q": by_hand["query"], "blocks.1.attn.hook_rot_k": by_hand["key"],
        "blocks.1.attn.hook_pattern": eager.output.attentions[1][0], "blocks.1.attn.hook_z": by_hand["heads"],
        "blocks.1.mlp.hook_post": by_hand["ffn"], "blocks.1.hook_mlp_out": by_hand["ffn_out"],
        "ln_final.hook_out": eager.given[FINAL[kind] if kind != "bert" else "cls.predictions.transform.LayerNorm"],
    }  # fmt: skip
    assert {name.replace(".L.", ".1.") for name in THEIRS} == set(theirs)
    refused = set()
    for name, value in theirs.items():
        try:
            found = captured(loaded, (name,))
        except errors.CannotShow:
            refused.add(name.rsplit(".", 1)[-1] if "ln_final" not in name else "norm")
        else:
            assert np.abs(found[name] - value.numpy()).max() <= 1e-6, name
    assert (
        refused
        == {
            "llama": {"hook_q", "hook_k"},
            "gpt2": {"hook_embed", "hook_rot_q", "hook_rot_k"},
            "bert": {"hook_embed", "hook_rot_q", "hook_rot_k", "hook_mlp_out", "norm"},
        }[kind]
    )


def test_a_stream_that_is_changed_between_blocks_is_not_the_next_block_s_input() -> None:
    tokenizer = tiny.tokenizer_of("llama")
    model: Any = tiny.model_of("llama", len(tokenizer))
    model.model.layers[1].register_forward_pre_hook(lambda _, args: (args[0] * 2, *args[1:]))
    loaded = opening.prepare(model, tokenizer, name="odd", source=Source(kind="folder", name="odd"))
    assert list(captured(loaded, ("blocks.*.hook_resid_pre",))) == [
        "blocks.0.hook_resid_pre",
        "blocks.2.hook_resid_pre",
    ]
    with pytest.raises(errors.CannotShow, match="more than hand the stream on"):
        captured(loaded, ("blocks.1.hook_resid_pre",))


def test_chosen_positions_are_the_same_numbers_in_the_order_asked(models: dict[str, Loaded]) -> None:
    whole, some = (captured(models["llama"], EVERY, positions=at) for at in (None, (5, 0, 6)))
    assert some.positions == (5, 0, 6)
    for name, axes in whole.axes.items():
        expected = whole[name].take((5, 0, 6), axis=axes.index("T"))
        tolerance = 1e-5 if name == "logits" or name.startswith("maps") else 0  # matrix products of another size
        assert np.abs(some[name] - expected).max() <= tolerance, name


def test_edits_are_captured_and_compared_with_the_unedited_model(models: dict[str, Loaded]) -> None:
    edits = (HeadScale(layer=1, head=2, by=0.0),)
    both = captured(models["llama"], ("heads.*", "residual.*", "logits"), of_view={"edits": edits, "compare": True})
    edited = captured(models["llama"], ("heads.*", "residual.*", "logits"), of_view={"edits": edits})
    plain = captured(models["llama"], ("heads.*", "residual.*", "logits"))
    assert set(both) == set(edited) | {f"unedited/{name}" for name in plain}
    assert not both["heads.1"][:, 2].any()
    for name in plain:
        assert np.abs(both[name] - edited[name]).max() <= 1e-5
        assert np.abs(both[f"unedited/{name}"] - plain[name]).max() <= 1e-5
    assert np.abs(both["residual.0"] - both["unedited/residual.0"]).max() <= 1e-6
    assert np.abs(both["residual.2"] - both["unedited/residual.2"]).max() > 1e-3
    assert both.about.tensors["unedited/heads.1"].place == "heads.1"


def test_half_precision_travels_as_it_is_or_as_float32_and_is_the_same() -> None:
    loaded = tiny.loaded("llama")
    loaded.model.to(torch.bfloat16)
    half = type(loaded.points).of(loaded)
    loaded.points = half
    as_is, wide = (captured(loaded, ("residual.1", "maps.1", "logits"), dtype=dtype) for dtype in ("model", "float32"))
    for name in as_is:
        assert np.array_equal(as_is[name], wide[name])
        assert as_is[name].dtype == np.float32
    assert as_is._tensors["residual.1"]["dtype"] == "BF16"
    assert as_is._tensors["maps.1"]["dtype"] == "F32"


def test_a_capture_of_one_layer_keeps_no_other(models: dict[str, Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, alive = models["llama"], []
    plain, most = capture._pieces, 0

    def pieces(value: Tensor) -> Any:
        nonlocal most
        gc.collect()
        most = max(most, sum(one() is not None for one in alive))
        alive.append(weakref.ref(value))
        return plain(value)

    monkeypatch.setattr(capture, "_pieces", pieces)
    captured(loaded, ("residual.*", "maps.*", "ffn.*"))
    assert len(alive) == 9
    assert most <= 1
    reads: list[set[str]] = []
    run = forward.run

    def watched(*args: Any, **named: Any) -> Tensor:
        reads.append(set(named["read"]) | ({"calls"} if named["hold"] else set()))
        return run(*args, **named)

    monkeypatch.setattr(forward, "run", watched)
    captured(loaded, ("residual.1",))
    assert reads == [{"residual.1"}]


def test_what_comes_in_another_order_than_at_load_is_still_right(models: dict[str, Loaded]) -> None:
    loaded = models["gpt2"]
    expected = captured(loaded, EVERY)
    found = loaded.points
    backwards = dict(reversed(found.found.items()))
    backwards["logits"] = backwards.pop("logits")
    loaded.points = type(found)(backwards, found.facts, found.no_logits)
    try:
        other = captured(loaded, EVERY)
    finally:
        loaded.points = found
    assert set(other) == set(expected)
    assert all(np.array_equal(other[name], expected[name]) for name in expected)


def test_what_waits_for_its_turn_is_not_what_the_model_made_of_it_since(models: dict[str, Loaded]) -> None:
    view, sent = View(model="m", text=TEXT), []
    layout = capture.plan(models["gpt2"], CaptureAsk(view=view, points=("embedding", "residual.0")), Limits())
    pouring = capture._Pouring(layout, sent.append)
    stream = torch.ones(1, layout.asked.tokens, 32)
    pouring.take("residual.0", stream)
    assert sent == []
    stream += 1
    pouring.take("embedding", stream)
    pouring.close()
    assert [np.frombuffer(piece, "<f4").max() for piece in sent] == [2.0, 1.0]


def test_something_announced_that_never_comes_is_a_failure(
    models: dict[str, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = forward.run
    monkeypatch.setattr(forward, "run", lambda *args, **named: run(*args, **(named | {"read": {}})))
    with pytest.raises(RuntimeError, match="announced"):
        captured(models["llama"], ("residual.1",))


def test_the_limit_is_checked_before_any_forward_and_names_both_numbers(
    models: dict[str, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = len(captured(models["llama"], ("embedding",)).ids)
    needed = 3 * 4 * tokens * 32
    monkeypatch.setattr(forward, "run", None)
    ask = CaptureAsk(view=View(model="m", text=TEXT), points=("residual.*",))
    capture.cost(models["llama"], ask, Limits(capture_bytes=needed))
    with pytest.raises(errors.TooLarge) as caught:
        capture.cost(models["llama"], ask, Limits(capture_bytes=needed - 1))
    assert (caught.value.needed, caught.value.available) == (needed, needed - 1)
    assert f"{needed:,}" in caught.value.why
    assert "positions" in caught.value.instead


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("residual.3", "no layer 3"),
        ("residuals.1", "residual.L"),
        ("residual", "residual.L"),
        ("residual.L", "residual.0"),
        ("blocks.7.hook_resid_post", "no layer 7"),
        ("blocks.0.attn.hook_q", "query.0"),
        ("blocks.0.hook_resid_mid", "residual.L"),
        ("ln_final.hook_normalized", "final"),
        ("blocks.0.hook_attn_out", "heads.L"),
        ("blocks.*.attn.hook_pattrn", "blocks.L.attn.hook_pattern"),
        ("*", "query.L"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_the_nearest(models: dict[str, Loaded], point: str, said: str) -> None:
    with pytest.raises(errors.CannotShow) as caught:
        captured(models["llama"], ("embedding", point))
    assert said in f"{caught.value.what}. {caught.value.why}. {caught.value.instead}"


def test_a_model_without_read_out_says_so() -> None:
    whole = tiny.loaded("bert")
    trunk = opening.prepare(whole.model.bert, whole.tokenizer, name="trunk", source=Source(kind="folder", name="trunk"))
    assert captured(trunk, ("final",))["final"].shape[-1] == 32
    with pytest.raises(errors.CannotShow, match="predicts no tokens"):
        captured(trunk, ("logits",))


class One:
    """Stored vectors: a direction of ones, and a steer of rank 1."""

    left, right = torch.linspace(-1, 1, 32)[:, None], torch.linspace(2, -1, 32)[None]

    def direction(self, id: str) -> Direction:
        return Direction(torch.ones(32))

    def steer(self, id: str) -> SteerMatrix:
        return SteerMatrix(self.left, self.right)


def test_steers_act_on_the_logits_and_leave_the_final_states(
    models: dict[str, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = models["llama"]
    monkeypatch.setattr(loaded, "vectors", One())
    monkeypatch.setattr(capture, "LOGITS_BYTES", 3 * 4 * loaded.anatomy.shape.vocabulary)  # blocks of three tokens
    edits = (Steer(steer="a" * 64, by=0.5, at=(1, 2, 5)),)
    view = View(model="m", text=TEXT, edits=edits, compare=True)
    found = captured(loaded, ("final", "logits"), view=view)
    assert np.array_equal(found["final"], found["unedited/final"])
    states_TD = torch.tensor(found["final"])
    moved_TD = states_TD.clone()
    moved_TD[[1, 2, 5]] += 0.5 * (states_TD @ One.left @ One.right)[[1, 2, 5]]
    weight = loaded.model.get_output_embeddings().weight
    for name, expected_TD in (("logits", moved_TD), ("unedited/logits", states_TD)):
        assert np.abs(found[name] - (expected_TD @ weight.T).numpy()).max() <= 1e-5, name
    some = captured(loaded, ("logits",), view=view, positions=(5, 3, 1))
    assert np.abs(some["logits"] - found["logits"][[5, 3, 1]]).max() <= 1e-5


def test_a_direction_added_to_the_stream_shows_in_what_the_next_block_takes(
    models: dict[str, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`residual.L` is read after its edits: it is what the next block really takes."""
    loaded = models["llama"]

    monkeypatch.setattr(loaded, "vectors", One())
    view = View(model="m", text=TEXT, edits=(ResidualAdd(layer=0, vector="a" * 64, by=2.0),), compare=True)
    found = captured(loaded, ("residual.0", "blocks.1.hook_resid_pre"), view=view)
    assert np.allclose(found["residual.0"], found["unedited/residual.0"] + 2.0, atol=1e-5)
    assert np.array_equal(found["residual.0"], found["blocks.1.hook_resid_pre"])


def test_every_place_and_name_is_documented_and_reachable(models: dict[str, Loaded]) -> None:
    assert set(models["llama"].points.found) == {
        place.replace("L", str(layer)) for place in PLACES for layer in range(3)
    }
    assert {same.place for same in THEIRS.values()} <= set(PLACES)
    facts = set(models["llama"].points.facts)
    assert {same.needs for same in THEIRS.values()} - {""} == facts


def test_metadata_is_one_json_that_other_tools_can_read(models: dict[str, Loaded], tmp_path: Any) -> None:
    from safetensors import safe_open

    pieces: list[bytes] = []
    capture.pour(
        models["llama"], CaptureAsk(view=View(model="m", text=TEXT), points=("final",)), Limits(), pieces.append
    )
    (tmp_path / "one.safetensors").write_bytes(b"".join(pieces))
    with safe_open(tmp_path / "one.safetensors", "np") as opened:
        about = CaptureAbout.model_validate_json(opened.metadata()[ABOUT])
        assert opened.get_tensor("final").shape == (len(about.ids), 32)


FAMILIES = ("mistral", "gemma2", "qwen3", "gpt_oss", "mixtral", "gpt_neox", "opt", "roberta", "lfm2")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_lets_out_what_its_plain_model_has(family: str) -> None:
    """Soft-caps, sinks, windows, parallel blocks, mixtures, mixers: at modules of the same names in the plain model."""
    loaded = families.loaded(family)
    stems = dict.fromkeys(pattern(place)[0].replace("L", "*", 1) for place in loaded.points.found)
    found = captured(loaded, tuple(stems))
    assert set(found) == set(loaded.points.found)
    names = {part: name for name, part in loaded.model.named_modules()}
    anatomy = loaded.anatomy
    eager = Eager(families.model(family, len(loaded.tokenizer)), found.ids)
    expected = {"logits": eager.output.logits[0]}
    for layer, block in enumerate(anatomy.blocks):
        expected[f"residual.{layer}"] = eager.given[names[block]]
    for layer, module in anatomy.projections.items():
        expected[f"heads.{layer}"] = eager.taken[names[module]].unflatten(-1, (anatomy.shape.heads, -1))
    for layer, module in anatomy.write.items():
        expected[f"ffn.{layer}"] = eager.taken[names[module]]
    maps = [one[0] for one in eager.output.attentions if one is not None]
    expected |= {f"maps.{layer}": one for layer, one in zip(anatomy.shape.attention_layers, maps, strict=True)}
    assert set(expected) <= set(found)
    for name, value in expected.items():
        assert np.abs(found[name] - value.reshape(found[name].shape).numpy()).max() <= 1e-5, name
