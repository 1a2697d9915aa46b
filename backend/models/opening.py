"""Opening: from a folder of safetensors to a model that answers, or a refusal that says why."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from backend import errors
from backend.models import admission, circuits, kernel, patch, promises, removal, sliders, taps, values
from backend.models.anatomy import Anatomy
from backend.models.classifier import Classifier
from backend.models.induction import induction
from backend.models.keys import Keys
from backend.models.loaded import Kept, Loaded
from backend.models.points import Points
from backend.models.progress import Progress, silent
from backend.models.projections import Projections
from backend.models.steers import vocabulary_digest
from backend.schema import Ability, Conditions, ModelCard, Source

SUPPORTED = "Choose a folder or hub repository with safetensors weights of a model that transformers knows."


def open_folder(
    folder: Path,
    *,
    name: str,
    revision: str = "",
    source: Source,
    digest: str,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float32",
    kept_bytes: int = 512 * 1024 * 1024,
    progress: Progress = silent,
) -> Loaded:
    """Open a Hugging Face folder. Only safetensors are read and no code of the folder is run.

    Raises `ModelRefused` (one of its kinds) when the folder cannot be opened safely or has no attention to show.
    """
    progress(f"reading the configuration of {name}", 0, None, "")
    config = _config(folder, name)
    admission.check_text(config, name)
    admission.check_weights(folder, name)
    device = torch.device(device)
    model_class = _class_of(config)
    progress(f"opening the weights of {name}", 0, None, "")
    model, drawn, unused = _read(model_class, folder, config, device, dtype, name)
    tokenizer = _tokenizer(folder, name)
    with _in_words(name):
        progress(f"checking what {name} can show", 0, None, "")
        loaded = prepare(
            model, tokenizer, name=name, revision=revision, source=source, digest=digest, kept_bytes=kept_bytes
        )
        loaded.drawn, loaded.classifier = drawn, Classifier.of(folder, model)
        loaded.unused = unused - set(loaded.classifier.whole.state_dict() if loaded.classifier else ())
        progress(f"measuring induction in {name}", 0, None, "")
        induction(loaded)
    return loaded


@contextmanager
def _in_words(name: str) -> Iterator[None]:
    """A model whose own code breaks down while it is looked at is refused: its architecture may be any."""
    try:
        yield
    except errors.NoAttention as error:
        raise errors.NoAttention(f"{name} cannot be opened", error.why, error.instead) from error
    except (errors.LmscopeError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        raise errors.ModelRefused(
            f"{name} cannot be opened",
            f"its architecture was looked at and broke down ({type(error).__name__}: {_first_line(error)})",
            SUPPORTED,
        ) from error


def prepare(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    name: str,
    revision: str = "",
    source: Source,
    digest: str = "",
    kept_bytes: int = 512 * 1024 * 1024,
) -> Loaded:
    """Make a model in memory ready for questions: kernel chosen, parts found, taps placed, promises checked."""
    model.eval().requires_grad_(False)
    chosen = kernel.put(model)
    anatomy = replace(Anatomy.of(model), vocabulary=vocabulary_digest(tokenizer))
    taps.place(anatomy)
    conditions = Conditions(
        model=name, revision=revision, digest=digest, quantisation=source.quantisation,
        dtype=_word(model.dtype), device=str(model.device), kernel=kernel.SHOWN[chosen], versions=_versions(),
    )  # fmt: skip
    card = ModelCard(
        name=name, revision=revision, state="loaded", source=source, architecture=type(model).__name__, digest=digest,
        dtype=conditions.dtype, device=conditions.device, kernel=conditions.kernel, memory_bytes=_bytes(model),
        estimated_bytes=_bytes(model), shape=anatomy.shape, chat_template=bool(tokenizer.chat_template),
    )  # fmt: skip
    loaded = Loaded(name, revision, model, tokenizer, anatomy, conditions, card, Kept(kept_bytes))
    checked = _checked(loaded)
    loaded.noise = checked.noise
    loaded.points = Points.of(loaded)
    loaded.keys = Keys.found(loaded)
    loaded.projections = Projections.found(loaded)
    loaded.card = card.model_copy(update={"promises": checked.promises, "can": checked.can, "edits": checked.edits})
    loaded.card = loaded.card.model_copy(update={"can": checked.can | _more(loaded)})
    gc.collect()
    return loaded


def _more(loaded: Loaded) -> dict[str, Ability]:
    """What a model offers beyond its promises."""
    return {
        "values": values.ability(loaded), "effects": removal.ability(loaded), "patch": patch.ability(loaded),
        "steer": sliders.ability(loaded),
        "weights": circuits.ability(loaded),
    }  # fmt: skip


def _checked(loaded: Loaded) -> promises.Checked:
    """The promises; a model that breaks down on eight ordinary tokens is refused instead."""
    try:
        return promises.check(loaded)
    except errors.CannotShow as error:
        raise errors.ModelRefused(
            f"{loaded.name} cannot be opened",
            f"it breaks down on ordinary tokens: {error.why}",
            "Fetch its weights again; if they are right, choose another LMSCOPE_DTYPE.",
        ) from error


def _config(folder: Path, name: str) -> Any:
    if not (folder / "config.json").is_file():
        raise errors.MissingFile(
            f"{name} cannot be opened", "its folder has no config.json", "Download the model again, all files of it."
        )
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the classes of configurations check what they are given, each in its own way
        if "trust_remote_code" in str(error):
            raise errors.RemoteCode(
                f"{name} cannot be opened", "it brings Python code of its own, which this server never runs", SUPPORTED
            ) from error
        raise errors.ModelRefused(
            f"{name} cannot be opened", f"its configuration is not understood: {_first_line(error)}", SUPPORTED
        ) from error


def _class_of(config: Any) -> Any:
    """The class that keeps the read-out where the checkpoint has one."""
    for architecture in config.architectures or ():
        if architecture in MODEL_FOR_MASKED_LM_MAPPING_NAMES.values():
            return AutoModelForMaskedLM
        if architecture in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
            return AutoModelForCausalLM
    return AutoModel


def _read(
    model_class: Any, folder: Path, config: Any, device: torch.device, dtype: str | torch.dtype, name: str
) -> tuple[PreTrainedModel, frozenset[str], frozenset[str]]:
    """The model, those of its parameters that the files lack, and weights in the files that it has no place for."""
    if isinstance(dtype, str) and dtype != "auto":
        dtype = getattr(torch, dtype)

    def read(attention: str) -> tuple[Any, dict[str, Any]]:
        found: tuple[Any, dict[str, Any]] = model_class.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, local_files_only=True, trust_remote_code=False,
            output_loading_info=True, attn_implementation=attention,
        )  # fmt: skip
        return found

    try:
        try:
            model, report = read(kernel.EAGER)
        except KeyError as error:  # a family that picks a class by this name knows only transformers' own
            if error.args != (kernel.EAGER,):
                raise
            model, report = read("eager")
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # so does the code of every architecture, when it is built
        raise errors.ModelRefused(f"{name} cannot be opened", _why_not(error), SUPPORTED) from error
    admission.check_inputs(model, name)
    drawn = frozenset(key for key in report["missing_keys"] if "pooler" in key)
    absent = sorted({*report["missing_keys"]} - drawn)
    if absent:
        raise errors.MissingFile(
            f"{name} cannot be opened",
            f"{len(absent)} of its weights are not in the files, such as {absent[0]}; they would be random numbers",
            "Download the model again, all files of it.",
        )
    admission.check_numbers(model, folder, name)
    admission.check_unused(report["unexpected_keys"], model, folder, name)
    opened: PreTrainedModel = model.to(device)
    return opened, drawn, admission.weights_of(folder, report["unexpected_keys"])


def _tokenizer(folder: Path, name: str) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers raises nothing finer for a damaged file
        found = f"{type(error).__name__}: {_first_line(error)}"
        raise errors.MissingFile(
            f"{name} cannot be opened", f"its tokenizer's files are damaged or do not belong together ({found})",
            "Download the model again with its tokenizer files.",
        ) from error  # fmt: skip


def _why_not(error: Exception) -> str:
    """Why the weights could not be put in place, without the words of a programming interface."""
    if "ignore_mismatched_sizes" in str(error):
        return "weights in its files have other shapes than its config.json says; they do not belong together"
    if isinstance(error, KeyError):
        return f"its config.json asks for {error}, which transformers {transformers.__version__} does not have"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    """What an error says first; a line that ends in a colon goes on."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(line.strip() for line in lines[: 2 if lines[0].endswith(":") else 1])


def _bytes(model: PreTrainedModel) -> int:
    """Bytes of all parameters and buffers, tied ones once."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in (*model.parameters(), *model.buffers())
    }
    return sum(storages.values())


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _versions() -> dict[str, str]:
    try:
        own = version("lmscope")
    except PackageNotFoundError:
        own = "source"
    return {"lmscope": own, "torch": torch.__version__, "transformers": transformers.__version__}
