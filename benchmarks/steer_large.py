"""What steering costs on a graphics card: the figures of `lmscope bench steer` at the shape of Llama-3.1-8B.

Random weights in bfloat16; a text of 64 tokens; sixteen people with sixteen settings.
"""

from typing import Any

from benchmarks import large, steer


def run(quick: bool, peer: bool) -> dict[str, Any]:
    """As `steer`. Raises `RuntimeError` without a CUDA device."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("This subject needs a CUDA device with 24 GB; `lmscope bench steer` runs anywhere")
    loaded = large.opened(torch.device("cuda"))
    texts = [large.text_of(8 + number) for number in range(8)]
    return steer.of_model(loaded, large.text_of(64), texts, quick=quick, peer=peer)
