"""Admission: what a folder and its configuration must be to be opened as one model of text; else why not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import PreTrainedModel

from backend import errors
from backend.models.readout import trunk_of

BLOCK = re.compile(r"\.(?:layers?|h|blocks?|block)\.(\d+)\.")
"""Where a weight's name says which block it is of."""
WEIGHTS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
"""Types of safetensors that a weight may have; masks and positions are of others."""
WHOLE = {"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"}
NEEDED = ("vocab_size", "hidden_size", "num_hidden_layers")
"""What the configuration of every model of text says."""
ONE_TEXT = "Choose a language model: one that was made for text, with a tokenizer."


def check_text(config: Any, name: str) -> None:
    """Raise `ModelRefused` for what is no single model of text."""
    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise errors.ModelRefused(
            f"{name} cannot be opened",
            f"it is an encoder with a decoder ({kind}): its text would be two, with attention across",
            "Choose a decoder such as Llama or GPT-2, or an encoder such as BERT.",
        )
    try:
        text = config.get_text_config()
    except ValueError as error:
        raise errors.ModelRefused(
            f"{name} cannot be opened", f"it holds several models of text ({kind}), and none is the one", ONE_TEXT
        ) from error
    absent = [word for word in NEEDED if getattr(text, word, None) is None]
    if absent:
        raise errors.ModelRefused(
            f"{name} cannot be opened",
            f"its config.json ({kind}) does not say {', '.join(absent)}, so it is no model of text",
            ONE_TEXT,
        )


def check_weights(folder: Path, name: str) -> None:
    """Raise `PickleOnly` or `MissingFile` for a folder without safetensors."""
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth", ".ckpt", ".pkl"})
    if pickles:
        raise errors.PickleOnly(
            f"{name} cannot be opened",
            f"its weights are pickles ({', '.join(pickles[:3])}), which can run any code when they are opened",
            "Use a revision with safetensors, or convert the weights where you trust them.",
        )
    raise errors.MissingFile(
        f"{name} cannot be opened", "its folder holds no safetensors file", "Download the model again, all files of it."
    )


def check_inputs(model: PreTrainedModel, name: str) -> None:
    """Raise `ModelRefused` for what reads pictures or sound."""
    if model.main_input_name != "input_ids":
        raise errors.ModelRefused(
            f"{name} cannot be opened", f"it reads {model.main_input_name} ({model.config.model_type}), and no text",
            ONE_TEXT,
        )  # fmt: skip


def check_unused(unexpected: Iterable[str], model: PreTrainedModel, folder: Path, name: str) -> None:
    """Raise `ModelRefused` when the files hold weights of the trunk that it has no place for: it would be another.

    Heads for other tasks and poolers are no part of what is shown, and old files hold masks and positions.
    """
    trunk = trunk_of(model)
    parts = {place for place, _ in trunk.named_children()}
    parts |= {place for place, part in model.named_children() if part is trunk}
    buffers = {place.rpartition(".")[2] for place, _ in model.named_buffers()}
    candidates = {
        key for key in unexpected
        if key.partition(".")[0] in parts and "pooler" not in key and key.rpartition(".")[2] not in buffers
    }  # fmt: skip
    if unused := sorted(weights_of(folder, candidates)):
        layers = model.config.get_text_config().num_hidden_layers
        beyond = [key for key in unused if (found := BLOCK.search(key)) and int(found[1]) >= layers]
        why = f"{len(unused)} weights in its files have no place in what its config.json describes"
        if beyond:
            why = f"its config.json says {layers} layers, and its files hold weights of more"
        raise errors.ModelRefused(
            f"{name} cannot be opened", f"{why}, such as {(beyond or unused)[0]}",
            "Correct config.json, or download the model again, all files of it.",
        )  # fmt: skip


def check_numbers(model: PreTrainedModel, folder: Path, name: str) -> None:
    """Raise `ModelRefused` for weights that are stored as whole numbers, without what says how they were rounded."""
    if getattr(model.config, "quantization_config", None) is not None:
        return
    weights = {place for place, weight in model.named_parameters() if weight.is_floating_point()}
    whole = [stored for stored, kind, _ in _stored(folder) if kind in WHOLE and any(_same(w, stored) for w in weights)]
    if whole:
        raise errors.ModelRefused(
            f"{name} cannot be opened",
            f"{len(whole)} of its weights, such as {whole[0]}, are whole numbers in the files, and its config.json has "
            "no quantization_config that would say what they stand for",
            "Download the model again, all files of it, or choose a copy that is not quantised.",
        )


def weights_of(folder: Path, keys: Collection[str]) -> frozenset[str]:
    """Those of the keys whose tensor in the files may be a weight: numbers, in one to three axes."""
    if not keys:
        return frozenset()
    weights = [stored for stored, kind, axes in _stored(folder) if kind in WEIGHTS and 1 <= axes <= 3]
    return frozenset(key for key in keys if any(_same(key, stored) for stored in weights))


def _stored(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Of every tensor in the files: name, type and how many axes; none is read."""
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as opened:
            for stored in opened.keys():  # noqa: SIM118  (it is no dictionary)
                part = opened.get_slice(stored)
                yield stored, part.get_dtype(), len(part.get_shape())


def _same(key: str, stored: str) -> bool:
    """Whether a name of the model and one of the files are the same, with the trunk's own name before it or not."""
    return key == stored or key.endswith(f".{stored}") or stored.endswith(f".{key}")
