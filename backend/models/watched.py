"""Attention that calls no shared function: seen as it passes through torch, without a name of any family.

Such a module makes its weights with one softmax over the keys and multiplies them with its values. While a watch is on,
every function of torch is seen on its way; of a module that is told to be attention, the softmax, the product after it
and the one before it are taken note of. The module runs as it always does, so its numbers are its own.
Axes: B rows, H heads, G key/value heads, T queries, S keys, D head width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SOFTMAX = {torch.softmax, functional.softmax, Tensor.softmax}
ADDED = {torch.baddbmm, Tensor.baddbmm}
"""Products that are added to a tensor, their first argument."""
PRODUCTS = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}
RENAMES = {Tensor.to, functional.dropout}
"""What may stand between the two and hand the same weights on under another address."""
OUT_OF_REACH = 5_000.0
"""A key whose score lies this far below the largest of its row is hidden: some families hide by −10,000, and no number
that a key may really have lies so far away (its weight would be 0 in every format)."""


@dataclass(frozen=True, slots=True)
class Product:
    """The one product of two vectors of a module from which its scores can come."""

    query_BHTK: Tensor
    key_BGSK: Tensor
    logits_BHTS: Tensor
    """What the softmax took: the product, scaled, and whatever was added to it."""


Told = Callable[[nn.Module, Tensor, Tensor, Tensor, Product | None], None]
"""Given the module, its maps_BHTS (float32), its value_BGSD, visible_BTS [B, 1, T, S], and its product if it is one."""


class Watch(TorchFunctionMode):
    """While it is on, tells of every map that the module of `where()` makes of a batch of `rows`."""

    def __init__(self, where: Callable[[], nn.Module | None], rows: int, told: Told, products: bool = False) -> None:
        """`products`: tell what scores come from, too."""
        super().__init__()
        self._products = products
        self._where, self._rows, self._told = where, rows, told
        self._module: nn.Module | None = None
        self._maps = self._visible = torch.empty(0)
        self._addresses: set[int] = set()
        self._factors: list[tuple[nn.Module, Tensor, Tensor, torch.Size]] = []
        self._product: Product | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function as ever, then take note."""
        result = func(*args, **(kwargs or {}))
        module = self._where()
        if module is None or not isinstance(result, Tensor):
            return result
        if func in SOFTMAX:
            if self._is_map(result, args, kwargs or {}):
                self._product = self._made(module, args[0])
                self._begin(module, args[0], result)
        elif self._products and func in ADDED:
            given = dict(zip(("input", "batch1", "batch2"), args, strict=False)) | (kwargs or {})
            self._factors.append((module, given["batch1"], given["batch2"], result.shape))
        elif self._module is module and args and isinstance(args[0], Tensor) and args[0].data_ptr() in self._addresses:
            if func in RENAMES:
                self._addresses.add(result.data_ptr())
            elif func in PRODUCTS:
                self._end(args[1])
        elif self._products and func in PRODUCTS and len(args) == 2:
            self._factors.append((module, args[0], args[1], result.shape))
        return result

    def _made(self, module: nn.Module, scores: Tensor) -> Product | None:
        """Queries and keys, where one product alone since the last softmax is shaped like the scores."""
        fitting = [
            (left, right) for of, left, right, shape in self._factors
            if of is module and shape.numel() == scores.numel() and shape[-2:] == scores.shape[-2:]
        ]  # fmt: skip
        self._factors = []
        if len(fitting) != 1:
            return None
        left, right = (self._apart(factor) if factor.ndim > 2 else None for factor in fitting[0])
        if left is None or right is None:
            return None
        return Product(left, right.transpose(-1, -2), self._apart(scores))

    def _is_map(self, result: Tensor, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
        """Whether weights are over the last axis, of one map a head: [B, H, T, S], or [B H, T, S] in one."""
        over = options["dim"] if "dim" in options else args[1] if len(args) > 1 else None
        whole = result.ndim == 4 or (result.ndim == 3 and len(result) % self._rows == 0)
        return whole and over in (-1, result.ndim - 1)

    def _begin(self, module: nn.Module, scores: Tensor, weights: Tensor) -> None:
        self._module, self._addresses = module, {weights.data_ptr()}
        scores_BHTS = self._apart(scores)
        if weights.dtype == torch.float32:
            self._maps = self._apart(weights)
        else:  # the module goes on with its own, rounded ones; what is shown has the precision that its scores have
            self._maps = functional.softmax(scores_BHTS, dim=-1, dtype=torch.float32)
        visible_BTS = _visible(scores_BHTS)
        if visible_BTS.shape != self._visible.shape or not torch.equal(visible_BTS, self._visible):
            self._visible = visible_BTS  # layers that hide the same share one mask

    def _end(self, value: Tensor) -> None:
        module, maps_BHTS = self._module, self._maps
        assert module is not None
        self._module, self._maps = None, torch.empty(0)
        product, self._product = self._product, None
        self._told(module, maps_BHTS, self._apart(value), self._visible, product)

    def _apart(self, tensor: Tensor) -> Tensor:
        """With an axis of rows, where rows and heads are one."""
        return tensor if tensor.ndim == 4 else tensor.unflatten(0, (self._rows, -1))


def _visible(scores_BHTS: Tensor) -> Tensor:
    """bool [B, 1, T, S]: the keys that any head of a query may see."""
    lowest, reach = torch.finfo(scores_BHTS.dtype).min / 2, scores_BHTS.float().amax(-1, keepdim=True) - OUT_OF_REACH
    return ((scores_BHTS > lowest) & (scores_BHTS > reach)).any(1, keepdim=True)
