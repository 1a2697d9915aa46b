"""The classifier of a checkpoint: what its class makes of the trunk's last states, and its labels' vectors.

A model is opened as its trunk; the rest of the checkpoint is kept beside it, as the class's own modules around the open
trunk, and run by the class's own `forward` on given states. Axes: T tokens, D width, C labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
)

from backend.models.readout import Standing

THROUGH = "Between its states and its labels stands another layer: labels are read through its matrix, its {} left out."


@dataclass(frozen=True)
class Classifier:
    """What names a text, or each of its tokens."""

    kind: Literal["text", "token"]
    labels: tuple[str, ...]
    whole: PreTrainedModel
    """The class's model around the open trunk."""
    trunk: str
    vectors_CD: Tensor | None
    """float32: what each label reads of a state behind the final norm; None where `why` says so."""
    why: str = ""
    notice: str = ""

    def logits(self, states_TD: Tensor, ids: Iterable[int]) -> Tensor:
        """float32 [C] of a text, or [T, C] of its tokens, from the trunk's last states."""
        pooler = getattr(getattr(self.whole, self.trunk), "pooler", None)
        ids_1T = torch.tensor([list(ids)], device=states_TD.device)
        with torch.inference_mode():
            given = _Given(states_TD[None], None if pooler is None else pooler(states_TD[None]))
            standing: Any = Standing(self.whole, {self.trunk: lambda *_, **__: given})
            found: Tensor = type(self.whole).forward(standing, input_ids=ids_1T).logits[0]
        return found.float()

    @classmethod
    def of(cls, folder: Path, model: PreTrainedModel) -> Classifier | None:
        """Of a checkpoint whose trunk is open; None where its class is no classifier of text, or its weights are not
        all there."""
        named = next(iter(model.config.architectures or ()), "")
        of_text = named in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.values()
        if not of_text and named not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES.values():
            return None
        config = model.config.__class__.from_dict(model.config.to_dict())
        try:
            with torch.device("meta"):
                whole = getattr(transformers, named)._from_config(config)
            return cls.around(whole, model, folder, "text" if of_text else "token")
        except Exception:  # the code of any class may raise anything: without its head a model is what it was
            return None

    @classmethod
    def around(
        cls, whole: PreTrainedModel, trunk: PreTrainedModel, folder: Path, kind: Literal["text", "token"]
    ) -> Classifier | None:  # fmt: skip
        """The class's model, its trunk exchanged for the open one and its other weights read from the folder."""
        name = str(whole.base_model_prefix)
        if not isinstance(getattr(whole, name, None), nn.Module):
            return None
        head = {key: weight.to(trunk.device, trunk.dtype) for key, weight in _head(folder, name).items()}
        setattr(whole, name, trunk)
        whole.load_state_dict(head, strict=False, assign=True)
        if any(weight.is_meta for weight in whole.state_dict().values()):
            return None  # its weights are not all in the files
        whole.eval().requires_grad_(False)
        named: dict[Any, str] = whole.config.id2label or {}
        labels = tuple(named[place] for place in range(len(named)))
        made = cls(kind, labels, whole, name, None)
        return cls(kind, labels, whole, name, *_vectors(made))


def _head(folder: Path, trunk: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as weights:
            names = [key for key in weights.keys() if not key.startswith(f"{trunk}.")]  # noqa: SIM118
            found |= {key: weights.get_tensor(key) for key in names}
    return found


def _vectors(made: Classifier) -> tuple[Tensor | None, str, str]:
    """What each label reads of a state, tried with thrown states; else why not, and what is said of it."""
    whole, trunk = made.whole, getattr(made.whole, made.trunk)
    maps = [
        part for name, part in whole.named_modules()
        if isinstance(part, nn.Linear) and not name.startswith(f"{made.trunk}.")
    ]  # fmt: skip
    last = next((part for part in reversed(maps) if part.out_features == len(made.labels)), None)
    if last is None:
        return None, "it has no map to its labels", ""
    width = trunk.config.get_text_config().hidden_size
    dice = torch.Generator().manual_seed(0)
    states_3D = torch.randn(3, width, generator=dice).to(trunk.device, trunk.dtype)
    if last.in_features == width:
        found_NC = made.logits(states_3D, range(1, 4)).view(-1, len(made.labels))
        plain_3C = last(states_3D).float()
        if float((found_NC[0] - plain_3C).abs().amax(1).min()) < 1e-3 * float(plain_3C.abs().max()):
            return last.weight.float(), "", ""
    pooler = getattr(trunk, "pooler", None)
    before = [part for part in maps if part is not last]
    before += [part for part in (pooler.modules() if pooler is not None else ()) if isinstance(part, nn.Linear)]
    if len(before) == 1 and before[0].in_features == width and before[0].out_features == last.in_features:
        return last.weight.float() @ before[0].weight.float(), "", THROUGH.format("bias and activation")
    return None, "between its states and its labels stand other layers than one", ""


class _Given:
    """Answers as a trunk that has just computed these states; whatever else it is asked for is None."""

    def __init__(self, states_1TD: Tensor, pooled_1D: Tensor | None) -> None:
        self.last_hidden_state, self.pooler_output = states_1TD, pooled_1D

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def __getitem__(self, place: int | slice) -> Any:
        return (self.last_hidden_state, self.pooler_output)[place]
