"""The rivals: the environment that they run in, and how each is asked for every head, as its own documentation shows.

Their environment stands on ours, so that torch and transformers are the same, and adds what only they need: nothing of
it (accelerate, pandas, wandb and about twenty more) enters the environment that LMScope is run and tested in.
"""

import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backend.errors import FetchFailed

PACKAGES = ("bertviz==1.4.1", "transformer-lens==4.3.0", "interp-engine==1.14.2")
SHARED = ("torch", "transformers", "tokenizers", "numpy")
"""What the rivals take from our environment, in our version or not at all."""
QUIET = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "DO_NOT_TRACK": "1"}
"""Under which a rival neither asks a hub nor reports to anybody."""
Capture = Callable[[Any], Sequence[Any]]
"""Token ids [1, T] to the maps [1, H, T, S] of every layer."""


def transformerlens(folder: str) -> Capture:
    """`run_with_cache` with a filter on the patterns, on weights as Hugging Face has them."""
    import torch
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(folder, device="cpu", dtype=torch.float32)

    def maps(ids_BT: Any) -> Sequence[Any]:
        with torch.inference_mode():
            _, cache = model.run_with_cache(
                ids_BT, names_filter=lambda name: name.endswith("hook_pattern"), return_type=None
            )
        return [cache["pattern", layer] for layer in range(model.cfg.n_layers)]

    return maps


def interp_engine(folder: str) -> Capture:
    """`capture` of `attn_probs` of every layer; its eager backend, the one that runs without CUDA."""
    from interp_engine import Address, capture, load_model

    model = load_model(folder, backend="eager", device="cpu", dtype="float32")
    points = [Address("attn_probs", layer) for layer in range(model.n_layers)]

    def maps(ids_BT: Any) -> Sequence[Any]:
        cache = capture(model, ids_BT, points)
        return [cache[point] for point in points]

    return maps


CAPTURES: dict[str, Callable[[str], Capture]] = {"transformerlens": transformerlens, "interp_engine": interp_engine}


def python() -> str:
    """The interpreter that finds the rivals; its environment is made the first time, inside ours.

    Raises `FetchFailed` with the command to install them by hand.
    """
    place = Path(sys.prefix) / "rivals"
    interpreter = str(place / "bin" / "python")
    if not _holds(interpreter):
        print(f"Installing {', '.join(PACKAGES)} into {place} (once, about 0.4 GB) …", file=sys.stderr)
        _make(place, interpreter)
    return interpreter


def _holds(interpreter: str) -> bool:
    """Whether the rivals are there, beside our own versions of what they share with us."""
    wanted = PACKAGES + _ours()
    names = [package.partition("==")[0] for package in wanted]
    tell = f"from importlib.metadata import version; print(*(f'{{name}}=={{version(name)}}' for name in {names}))"
    try:
        return _said([interpreter, "-c", tell]).split() == list(wanted)
    except (OSError, subprocess.CalledProcessError):
        return False


def _make(place: Path, interpreter: str) -> None:
    same = place / "same.txt"
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(same)]
    try:
        _said([sys.executable, "-m", "venv", "--clear", str(place)])
        same.write_text("\n".join(_ours()))
        _above(place).write_text(sysconfig.get_paths()["purelib"] + "\n")
        _said([*install, *PACKAGES])
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise FetchFailed(
            "The rivals are not installed, and could not be",
            next((line for line in reversed(said) if line.startswith("ERROR")), said[-1]),
            f"Where pip reaches a package index, run `{' '.join([*install, *PACKAGES])}` and then this again; "
            "or measure LMScope alone, without --peer",
        ) from error


def _said(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _above(place: Path) -> Path:
    """The file by which the rivals' environment also finds our packages, after its own."""
    lib = sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)})["purelib"]
    return Path(lib) / "lmscope.pth"


def _ours() -> tuple[str, ...]:
    return tuple(f"{name}=={version(name)}" for name in SHARED)
