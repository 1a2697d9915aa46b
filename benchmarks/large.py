"""What a large model costs on a graphics card: the overview of 1,024 heads over the bare forward pass, and the trace.

The shape of Llama-3.1-8B with random weights in bfloat16. The bare forward is the trunk without its read-out, with the
same kernel. Time: best of several, the two taken in turn; ours runs from text to the JSON that the browser gets.
Memory: growth of the peak on the card above the opened model, ours less that of the bare forward. MiB = 2^20 bytes.
"""

import time
from collections.abc import Callable
from typing import Any

SIZES = (512, 2048)
ROUNDS = 5
WORDS = 1000
MIB = 1024 * 1024


def run(quick: bool, peer: bool) -> dict[str, float]:
    """Figures by name, such as `over_forward_512`. Raises `RuntimeError` without a CUDA device."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("This subject needs a CUDA device with 24 GB; `lmscope bench attention` runs anywhere")
    loaded = opened(torch.device("cuda"))
    figures: dict[str, float] = {}
    for tokens in SIZES:
        figures |= measured(loaded, tokens, 2 if quick else ROUNDS)
    return figures | traced(loaded, quick)


def traced(loaded: Any, quick: bool) -> dict[str, float]:
    """What `lmscope bench trace` measures, but for memory, of this model."""
    from benchmarks import decoding, searching, trace

    texts = [text_of(8 + number) for number in range(8)]
    return (
        trace.lens(loaded, text_of(trace.TOKENS), 2 if quick else ROUNDS)
        | searching.warm(loaded, ("w7", "w14"))
        | decoding.batch16_speedup(loaded, texts, quick=quick)
    )


def text_of(tokens: int) -> str:
    """So many words, each one token."""
    return " ".join(f"w{1 + 7 * place % (WORDS - 1)}" for place in range(tokens))


def opened(device: Any) -> Any:
    """The model with random weights and a tokenizer whose every word is one token, opened as any other."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from backend.models import opening
    from backend.schema import Source

    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0")
    return opening.prepare(
        model(device), tokenizer, name="llama-3.1-8b-shape", source=Source(kind="folder", name="random")
    )


def model(device: Any) -> Any:
    """Random weights in bfloat16, made on the device."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128_256, hidden_size=4096, intermediate_size=14_336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=131_072, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
    )  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def measured(loaded: Any, tokens: int, rounds: int) -> dict[str, float]:
    """Times, bytes and memory of one size."""
    ways = {"bare": bare(loaded, tokens), "ours": ours(loaded, tokens)}
    best = dict.fromkeys(ways, float("inf"))
    grown = dict.fromkeys(ways, 0.0)
    size = 0
    for turn in range(rounds + 1):  # the first warms up
        for name, way in ways.items():
            seconds, mib, found = timed(way)
            size = found or size
            if turn:
                best[name], grown[name] = min(best[name], seconds), max(grown[name], mib)
    return {
        f"over_forward_{tokens}": round(best["ours"] / best["bare"], 3),
        f"forward_ms_{tokens}": round(1000 * best["bare"], 2),
        f"overview_ms_{tokens}": round(1000 * best["ours"], 2),
        f"extra_mib_{tokens}": round(grown["ours"] - grown["bare"], 1),
        f"bytes_{tokens}": float(size),
    }


def timed(way: Callable[[], int]) -> tuple[float, float, int]:
    """Seconds, MiB by which the peak grew, and bytes of one call."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, start = torch.cuda.memory_allocated(), time.perf_counter()
    size = way()
    torch.cuda.synchronize()
    return time.perf_counter() - start, (torch.cuda.max_memory_allocated() - before) / MIB, size


def ours(loaded: Any, tokens: int) -> Callable[[], int]:
    """One whole question, from text to the JSON that goes to the browser; its bytes."""
    from backend.desk.answers import written
    from backend.models import attention
    from backend.schema import Limits, OverviewAsk, View

    ask = OverviewAsk(view=View(model=loaded.name, text=text_of(tokens)))
    return lambda: len(written(attention.overview(loaded, ask, Limits())))


def bare(loaded: Any, tokens: int) -> Callable[[], int]:
    """The trunk alone, with the same kernel."""
    import torch

    ids = torch.tensor([[1 + 7 * place % (WORDS - 1) for place in range(tokens)]], device="cuda")

    def forward() -> int:
        with torch.inference_mode():
            loaded.model.base_model(input_ids=ids, use_cache=False)
        return 0

    return forward
