"""Raw tensors of named places."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from backend.schema import CaptureAsk, View
from lmscope.asking import asked, several
from lmscope.client.connection import Connection
from lmscope.refused import Refused

if TYPE_CHECKING:
    from lmscope.captured import Captured


class CaptureClient(Connection):
    async def capture(
        self,
        view: View,
        points: str | Sequence[str],
        *,
        positions: Sequence[int] | None = None,
        dtype: Literal["float32", "model"] = "float32",
        into: str | PathLike[str] | None = None,
    ) -> "Captured":
        """Raw tensors of named places: `residual.3`, `maps.*`, `blocks.0.attn.hook_z`, … by name, as numpy arrays.

        With `into` they go to that safetensors file, which appears when it is whole; without it, into memory.
        """
        from lmscope.captured import Arriving  # numpy: a client that never captures does without it

        names = (points,) if isinstance(points, str) else tuple(points)
        at = None if positions is None else several("positions", positions)
        ask = asked(CaptureAsk, view=view, points=names, positions=at, dtype=dtype)
        with Arriving(into) as arriving:
            try:
                async with self._stream("POST", "capture", ask, timeout_s=self.timeout_s) as response:
                    async for chunk in response.aiter_bytes():
                        arriving.add(chunk)
            except Refused as refused:
                raise arriving.last_words() or refused from None
            return arriving.whole()
