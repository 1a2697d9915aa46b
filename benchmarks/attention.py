"""What every head at a glance costs beyond the bare forward pass, beside three rivals on the same weights.

Shape of GPT-2 small with random weights, float32. The bare forward is the trunk without its read-out, with the same
attention function. Time: best of several, taken in turn. Ours runs from text to the JSON that the browser gets;
TransformerLens and interp-engine from token ids to the maps of all heads in memory, which is less work; BertViz from
token ids to the text of its page. Memory: growth of the peak in a fresh process for each number, BertViz' in all, the
others' above the bare forward's. MB = 10^6 bytes, MiB = 2^20.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import memory, rivals

SIZES = (128, 512, 1024, 2048)
QUICK_SIZES = (512, 2048)
QUICK_MEMORY_SIZES = (512,)
WORDS = 1000
CHILD_SECONDS = 1800
Way = Callable[[], Any]


def run(quick: bool, peer: bool) -> dict[str, float]:
    """Figures by name, such as `bytes_512` and `over_forward_512`; with `peer` also the rivals' (a minute more).

    Raises `FetchFailed` when the rivals are not installed and cannot be.
    """
    python = rivals.python() if peer else sys.executable
    sizes, memory_sizes = (QUICK_SIZES, QUICK_MEMORY_SIZES) if quick else (SIZES, SIZES)
    figures = _compared(python, sizes, memory_sizes if peer else (), quick)
    figures |= _grown(memory_sizes, python if peer else None)
    return figures | (_pages(python, memory_sizes) if peer else {})


def _compared(python: str, sizes: tuple[int, ...], peer_sizes: tuple[int, ...], quick: bool) -> dict[str, float]:
    """Ours, the bare forward and the rivals' captures in turn, in one process."""
    figures: dict[str, float] = {}
    times = _child(python, "times", json.dumps(sizes), json.dumps(peer_sizes), json.dumps(quick))
    for tokens, found in times.items():
        figures |= {
            f"bytes_{tokens}": found["bytes"],
            f"over_forward_{tokens}": round(found["ours"] / found["bare"], 3),
            f"forward_seconds_{tokens}": round(found["bare"], 4),
            f"extra_seconds_{tokens}": round(found["ours"] - found["bare"], 4),
        }
        for name in rivals.CAPTURES if int(tokens) in peer_sizes else ():
            if name not in found:
                _not_survived(name, tokens, "out of memory")
                continue
            figures |= {
                f"{name}_seconds_{tokens}": round(found[name], 4),
                f"{name}_over_forward_{tokens}": round(found[name] / found["bare"], 3),
                f"{name}_bytes_{tokens}": found[f"{name}_bytes"],
                f"{name}_difference_{tokens}": found[f"{name}_difference"],
            }
    return figures


def _grown(sizes: tuple[int, ...], peer_python: str | None) -> dict[str, float]:
    """Peak of our process, and of each capture's, above that of the bare forward's, in MiB."""
    figures: dict[str, float] = {}
    for tokens in sizes:
        with ThreadPoolExecutor() as both:
            asks = [("memory", way, str(tokens)) for way in ("bare", "ours")]
            bare, ours = both.map(lambda ask: _child(sys.executable, *ask), asks)
        figures[f"extra_mib_{tokens}"] = round(ours["mib"] - bare["mib"], 1)
        for name in rivals.CAPTURES if peer_python else ():
            found = _survived(peer_python or "", name, "memory", name, str(tokens))
            figures |= {f"{name}_extra_mib_{tokens}": round(found["mib"] - bare["mib"], 1)} if found else {}
    return figures


def _pages(python: str, sizes: tuple[int, ...]) -> dict[str, float]:
    """BertViz' page at the sizes that it survives; its forward is part of its time, as ours is of ours."""
    figures: dict[str, float] = {}
    for tokens in sizes:
        found = _survived(python, "BertViz", "page", str(tokens))
        if found is None:
            break
        figures |= {
            f"peer_bytes_{tokens}": found["bytes"],
            f"peer_seconds_{tokens}": round(found["seconds"], 3),
            f"peer_mib_{tokens}": round(found["mib"], 1),
        }
    return figures


def _survived(python: str, name: str, *arguments: str) -> dict[str, Any] | None:
    """What a rival's process found; none when it did not end well, which is said."""
    try:
        return _child(python, *arguments)
    except subprocess.CalledProcessError as error:
        _not_survived(name, arguments[-1], (error.stderr.strip() or f"signal {-error.returncode}").splitlines()[-1])
    except subprocess.TimeoutExpired:
        _not_survived(name, arguments[-1], f"no end after {CHILD_SECONDS} s")
    return None


def _not_survived(name: str, tokens: str, why: str) -> None:
    print(f"{name} did not survive {tokens} tokens on this machine: {why}", file=sys.stderr)


def _child(python: str, *arguments: str) -> dict[str, Any]:
    """Run this file in a fresh process and read the JSON that it prints last."""
    done = subprocess.run(
        [python, "-m", "benchmarks.attention", *arguments],
        check=True, capture_output=True, text=True, timeout=CHILD_SECONDS, cwd=Path(__file__).parent.parent,
        env=os.environ | rivals.QUIET | (memory.STEADY if arguments[0] == "memory" else {}),
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _model(longest: int) -> Any:
    """GPT-2 small with random weights; its vocabulary is small, which no figure of the trunk depends on."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=longest, bos_token_id=0, eos_token_id=0)).eval()


def _tokenizer() -> Any:
    """Every word is one token; nothing is added."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", bos_token="w0", eos_token="w0")


def _loaded(longest: int) -> Any:
    """The model opened as LMScope opens any."""
    from backend.models import opening
    from backend.schema import Source

    source = Source(kind="folder", name="random")
    return opening.prepare(_model(longest), _tokenizer(), name="gpt2-shape", source=source)


def _numbers(tokens: int) -> list[int]:
    return [1 + 7 * place % (WORDS - 1) for place in range(tokens)]


def _ids(tokens: int) -> Any:
    import torch

    return torch.tensor([_numbers(tokens)])


def _ours(loaded: Any, tokens: int) -> Way:
    """One whole question, from text to the JSON that goes to the browser; its bytes."""
    from backend.desk.answers import written
    from backend.models import attention
    from backend.schema import Limits, OverviewAsk, View

    text = " ".join(f"w{number}" for number in _numbers(tokens))
    ask = OverviewAsk(view=View(model=loaded.name, text=text))
    return lambda: len(written(attention.overview(loaded, ask, Limits())))


def _bare(loaded: Any, tokens: int) -> Way:
    """The trunk alone, with the same kernel."""
    import torch

    ids_BT = _ids(tokens)

    def forward() -> None:
        with torch.inference_mode():
            loaded.model.base_model(input_ids=ids_BT, use_cache=False)

    return forward


def _capture(name: str, longest: int) -> rivals.Capture:
    """A rival that has opened the same weights from a folder, as its users do."""
    with TemporaryDirectory() as folder:
        _model(longest).save_pretrained(folder)
        _tokenizer().save_pretrained(folder)
        return rivals.CAPTURES[name](folder)


def _captured(capture: rivals.Capture, tokens: int) -> Way:
    ids_BT = _ids(tokens)
    return lambda: capture(ids_BT)


def _eager(tokens: int, longest: int) -> tuple[Any, ...]:
    """The maps that the model itself returns."""
    import torch

    model = _model(longest).base_model
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        maps: tuple[Any, ...] = model(input_ids=_ids(tokens), use_cache=False, output_attentions=True).attentions
    return maps


def _times(sizes: list[int], peer_sizes: list[int], quick: bool) -> dict[str, dict[str, float]]:
    if peer_sizes:
        memory.limit()
    loaded = _loaded(max(sizes))
    captures = {name: _capture(name, max(sizes)) for name in rivals.CAPTURES} if peer_sizes else {}
    return {str(tokens): _in_turn(loaded, captures if tokens in peer_sizes else {}, tokens, quick) for tokens in sizes}


def _in_turn(loaded: Any, captures: dict[str, rivals.Capture], tokens: int, quick: bool) -> dict[str, float]:
    ways: dict[str, Way] = {"bare": _bare(loaded, tokens), "ours": _ours(loaded, tokens)}
    sizes: dict[str, float] = {}
    for name, capture in captures.items():
        try:
            sizes |= _of_capture(name, capture(_ids(tokens)), tokens, loaded.model.config.n_positions)
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):  # how torch says it
                raise
            continue
        ways[name] = _captured(capture, tokens)
    best = dict.fromkeys(ways, float("inf"))
    rounds = 6 if not quick else 1 if tokens > 1024 else 4  # the smaller sizes have warmed the largest up
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            answer = way()
            best[name] = min(best[name], time.perf_counter() - start)
            if name == "ours":
                sizes["bytes"] = float(answer)
            answer = None  # a rival's maps must not outlive its turn
    return best | sizes


def _of_capture(name: str, maps: Any, tokens: int, longest: int) -> dict[str, float]:
    """Bytes of the maps as they are kept, and how far they are from the model's own."""
    own = _eager(tokens, longest)
    if [map_BHTS.shape for map_BHTS in maps] != [map_BHTS.shape for map_BHTS in own]:
        raise ValueError(f"{name} did not capture every map")
    return {
        f"{name}_bytes": float(sum(map_BHTS.nbytes for map_BHTS in maps)),
        f"{name}_difference": max(float((one - other).abs().max()) for one, other in zip(maps, own, strict=True)),
    }


def _memory(way: str, tokens: int) -> dict[str, float]:
    """MiB by which the peak grows above the opened model; a short question warms everything up before."""
    if way in rivals.CAPTURES:
        memory.limit()
        ask = partial(_captured, _capture(way, tokens))
    else:
        ask = partial({"bare": _bare, "ours": _ours}[way], _loaded(tokens))
    ask(16)()
    once = ask(tokens)
    before = memory.peak_from_now()
    once()
    return {"mib": (memory.peak() - before) / memory.MIB}


def _page(tokens: int) -> dict[str, float]:
    """BertViz's model view of the maps that the model itself returns, as text of a page."""
    import torch
    from bertviz import model_view

    memory.limit()
    model = _model(tokens).base_model
    model.set_attn_implementation("eager")
    ids_BT = _ids(tokens)
    before = memory.peak_from_now()
    start = time.perf_counter()
    with torch.inference_mode():
        maps = model(input_ids=ids_BT, use_cache=False, output_attentions=True).attentions
    page = model_view(list(maps), [f"w{number}" for number in _numbers(tokens)], html_action="return").data
    seconds = time.perf_counter() - start
    return {"bytes": float(len(page.encode())), "seconds": seconds, "mib": (memory.peak() - before) / memory.MIB}


def main(mode: str, *rest: str) -> None:
    """One measurement in this process."""
    if mode == "times":
        sizes, peer_sizes, quick = map(json.loads, rest)
        answer: dict[str, Any] = _times(sizes, peer_sizes, quick)
    elif mode == "memory":
        answer = _memory(rest[0], int(rest[1]))
    else:
        answer = _page(int(rest[0]))
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
