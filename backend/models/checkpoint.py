"""Checkpoint: what a folder holds, read from its headers alone, or the refusal that says why it will not be opened."""

import json
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from backend import errors

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
OTHERS = (".gguf", ".h5", ".msgpack", ".onnx", ".npz")
VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "vocab", "spiece.model", "sentencepiece.bpe.model",
    "source.spm", "tekken.json", "tiktoken.model", "vocab.model", "sentencepiece.model",
)  # fmt: skip
AGAIN = "fetch it again, all files of it"
FLOATS = ("F", "BF")
LAYERS = ("num_hidden_layers", "n_layer")
LAYERS_SHARED = 8
"""Layers may share their tensors, but each tensor serves no more than this many."""
SIZES = (
    *LAYERS, "hidden_size", "n_embd", "vocab_size", "intermediate_size", "n_inner",
    "num_attention_heads", "n_head", "max_position_embeddings", "n_positions",
)  # fmt: skip
"""Numbers of a configuration that a model grows with."""
SLACK = 1024
"""Positions need no weights in some models, so a size may exceed the numbers stored, but not by this much."""


@dataclass(frozen=True)
class Checkpoint:
    """The weights and configuration of one folder, unopened."""

    folder: Path
    config: dict[str, Any]
    weights: tuple[str, ...]
    """Names of the safetensors files that will be read."""
    elements: dict[str, int]
    """Numbers stored, by safetensors dtype (`F32`, `BF16`, …)."""

    @classmethod
    def of(cls, folder: Path, name: str) -> "Checkpoint":
        """Look at a folder. Raises a `ModelRefused` of the fitting kind; loads nothing."""
        if not folder.is_dir():
            raise _no_folder(folder, name)
        names = {path.name for path in folder.iterdir()}
        if not (names & {"config.json", INDEX}) and not any(file.endswith(".safetensors") for file in names):
            check_weights_named(names, name)
        config = read_config(folder, name)
        check_code(config, name)
        check_weights_named(names, name)
        weights = _weights(folder, names, name)
        _check_tokenizer(folder, names, name)
        tensors = [tensor for file in weights for tensor in _tensors(folder / file, name)]
        elements = _elements(tensors)
        check_sizes(config, len(tensors), sum(elements.values()), name)
        return cls(folder, config, weights, elements)

    @property
    def architecture(self) -> str:
        """Such as `LlamaForCausalLM`; empty when the configuration does not say."""
        return next(iter(self.config.get("architectures") or ()), "")

    @property
    def parameters(self) -> int:
        """Numbers stored in the files."""
        return sum(self.elements.values())

    @property
    def quantisation(self) -> str:
        """The method that the configuration names, or `none`."""
        method = self.config.get("quantization_config")
        return str(method.get("quant_method", "unnamed")) if isinstance(method, dict) else "none"

    def bytes_in(self, dtype_bytes: int) -> int:
        """Bytes of the model once its floating numbers have `dtype_bytes` each."""
        return memory_of(self.elements, dtype_bytes)


def memory_of(elements: dict[str, int], dtype_bytes: int) -> int:
    """Bytes in memory of numbers counted by safetensors dtype: floating ones are cast, whole ones are not."""
    return sum(n * (dtype_bytes if dtype.startswith(FLOATS) else _item(dtype)) for dtype, n in elements.items())


def _item(dtype: str) -> int:
    digits = "".join(filter(str.isdigit, dtype))
    return int(digits) // 8 if digits else 1


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """config.json as an object."""
    path = folder / "config.json"
    if not path.is_file():
        raise errors.MissingFile(f"{name} cannot be opened", "there is no config.json beside its weights", AGAIN)
    return _json(path, name)


def check_code(config: dict[str, Any], name: str) -> None:
    """Refuse a model whose class transformers does not have itself: its own code is never run."""
    import transformers
    from transformers import CONFIG_MAPPING

    kind, brings = config.get("model_type"), config.get("auto_map")
    classes = config.get("architectures") or []
    known = kind in CONFIG_MAPPING and (not classes or any(hasattr(transformers, str(each)) for each in classes))
    if known:
        return
    shown = ", ".join(map(str, classes)) or kind or "no architecture"
    if brings:
        raise errors.RemoteCode(
            f"{name} is refused",
            f"its class ({shown}) is Python code of its own repository, which LMScope never runs",
            "choose a model whose class is part of transformers, or a converted copy of this one",
        )
    if kind not in CONFIG_MAPPING:
        raise errors.ModelRefused(
            f"{name} cannot be opened",
            f"its config.json names a model type ({kind or 'none'}) that transformers {transformers.__version__} "
            "does not have",
            "choose a model that this version of transformers knows",
        )


def check_sizes(config: dict[str, Any], tensors: int, numbers: int, name: str) -> None:
    """Refuse a configuration that claims far more than the files hold: building it would fill the memory first."""
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    claimed = [_size_of(text, key) for key in SIZES]
    if max(claimed) > SLACK * numbers or _size_of(text, *LAYERS) > LAYERS_SHARED * tensors:
        raise errors.ModelRefused(
            f"{name} cannot be opened",
            f"its config.json claims sizes ({', '.join(str(size)[:20] for size in claimed if size)}) that its weights "
            f"({tensors:,} tensors, {numbers:,} numbers) cannot have",
            AGAIN,
        )


def _size_of(config: Any, *keys: str) -> int:
    sizes = [config.get(key) for key in keys]
    return max((size for size in sizes if isinstance(size, int) and not isinstance(size, bool)), default=0)


def check_weights_named(names: set[str], name: str) -> None:
    """Judge a listing of file names: raises unless it has safetensors weights."""
    if WEIGHTS in names or INDEX in names:
        return
    if "adapter_config.json" in names:
        raise errors.MissingFile(
            f"{name} cannot be opened", "it is an adapter: it holds changes to a model, not the model",
            "merge it into its base model, save that, and open the result",
        )  # fmt: skip
    if pickles := sorted(file for file in names if file.endswith(PICKLES)):
        raise errors.PickleOnly(
            f"{name} is refused",
            f"its weights are pickles ({', '.join(pickles[:3])}), which can run any code when they are opened",
            "choose a revision with safetensors (many repositories have one), or convert it where you trust it: "
            "load it there and call save_pretrained",
        )
    if others := sorted(file for file in names if file.endswith((*OTHERS, ".safetensors"))):
        why = f"LMScope opens {WEIGHTS} or {INDEX}; this has {', '.join(others[:3])}"
        raise errors.MissingFile(f"{name} cannot be opened", why, "save it with transformers' save_pretrained")
    if "config.json" in names:
        raise errors.MissingFile(f"{name} cannot be opened", f"there is neither {WEIGHTS} nor {INDEX}", AGAIN)
    raise errors.ModelRefused(
        f"{name} is not a model", "it holds neither config.json nor weights",
        "name the folder that holds config.json, model.safetensors and the tokenizer's files",
    )  # fmt: skip


def _no_folder(folder: Path, name: str) -> errors.LmscopeError:
    if folder.exists():
        instead = "give the folder around it, with config.json, model.safetensors and the tokenizer's files"
        return errors.ModelRefused(f"{name} is not a model", "it is a file, not a folder", instead)
    return errors.UnknownModel(f"{name} is not there", "there is no folder of that name", "check the path")


def _json(path: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise errors.ModelRefused(f"{name} cannot be opened", f"{path.name} is damaged: {error}", AGAIN) from error
    if not isinstance(content, dict):
        raise errors.ModelRefused(f"{name} cannot be opened", f"{path.name} does not hold an object", AGAIN)
    return content


def _weights(folder: Path, names: set[str], name: str) -> tuple[str, ...]:
    if WEIGHTS in names:
        return (WEIGHTS,)
    shards = _json(folder / INDEX, name).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise errors.ModelRefused(f"{name} cannot be opened", f"{INDEX} names no files", AGAIN)
    wanted = sorted(set(map(str, shards.values())))
    if strange := [file for file in wanted if Path(file).name != file or not file.endswith(".safetensors")]:
        raise errors.ModelRefused(
            f"{name} is refused", f"{INDEX} names {strange[0][:80]}, which is no safetensors file beside it", AGAIN
        )
    if missing := [file for file in wanted if file not in names]:
        raise errors.MissingFile(
            f"{name} cannot be opened",
            f"{len(missing)} of {len(wanted)} weights files are missing, such as {missing[0]} (named in {INDEX})",
            AGAIN,
        )
    return tuple(wanted)


def _check_tokenizer(folder: Path, names: set[str], name: str) -> None:
    if names & set(VOCABULARIES):
        return
    if "tokenizer_config.json" in names:
        import transformers

        made_by = str(_json(folder / "tokenizer_config.json", name).get("tokenizer_class"))
        tokenizer = getattr(transformers, made_by, None)
        if tokenizer is not None and not getattr(tokenizer, "vocab_files_names", {"": ""}):
            return  # a tokenizer of bytes or characters needs no vocabulary
    raise errors.MissingFile(
        f"{name} cannot be opened", "there are no tokenizer files (such as tokenizer.json) beside its weights",
        "copy the tokenizer's files into the folder, or " + AGAIN,
    )  # fmt: skip


def _elements(tensors: list[tuple[str, list[int]]]) -> dict[str, int]:
    elements: Counter[str] = Counter()
    for dtype, shape in tensors:
        elements[dtype] += prod(shape)
    return dict(elements)


def _tensors(path: Path, name: str) -> list[tuple[str, list[int]]]:
    """dtype and shape of every tensor; the header is checked against the file's size, nothing is read."""
    try:
        with safe_open(path, framework="numpy") as opened:
            parts = [opened.get_slice(key) for key in opened.keys()]  # noqa: SIM118 (not a mapping)
            return [(part.get_dtype(), part.get_shape()) for part in parts]
    except (SafetensorError, OSError, ValueError) as error:
        with path.open("rb") as stream:
            pointer = stream.read(40).startswith(b"version https://git-lfs")
        why = "is a Git LFS pointer, not the weights" if pointer else f"is damaged or cut short: {error}"
        instead = "run `git lfs pull` in the folder" if pointer else AGAIN
        raise errors.ModelRefused(f"{name} cannot be opened", f"{path.name} {why}", instead) from error
