"""Two models of the shelf compared in the vocabulary: MiniLM-L6 with Rampart, which was tuned from the same base and
has another vocabulary, and with MiniLM-L3, of the same vocabulary and other weights (Dar et al. 2023, §5).

- Changes: relative size of the difference, by layer of the feed-forward values, from MiniLM-L6 to Rampart.
- Alignment: layers matched one to one by correlation over the tokens that both have, beside the un-projected control.
- Stitching: lower blocks of MiniLM-L3, then upper blocks of a MiniLM-L6 that was made a classifier of movie snippets
  (`benchmarks/tuned.py`), on held-out snippets.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

ONE, TUNED, OTHER = "all-minilm-l6-v2", "rampart", "paraphrase-minilm-l3"
GROUPS = ("key", "value", "vo")
TEXTS, TUNE, ROUNDS, RATE = 200, 1_200, 2, 1e-4


def run(quick: bool, peer: bool) -> dict[str, Any]:
    """Figures by name."""
    del peer  # no rival compares models so
    from backend.models.cache import ModelsCache
    from backend.models.progress import silent
    from backend.models.snippets import RECIPES, fetch
    from backend.settings import Settings
    from benchmarks.tuned import folder_of, tune

    settings = Settings()
    examples = fetch(ModelsCache(settings.cache_dir), RECIPES["sentiment"], silent)
    if quick:  # without a classifier: stitched onto MiniLM-L6 as it is, which has nothing to be measured by but itself
        return asyncio.run(_asked(settings, ONE, examples, 40))
    with tempfile.TemporaryDirectory(prefix="lmscope-compared-") as place:
        made = tune(folder_of(ONE), (examples.minus, examples.plus), Path(place), TUNE, ROUNDS, RATE)
        told = asyncio.run(_asked(settings, str(made.folder), examples, TEXTS))
    return {"tuned_accuracy": made.accuracy} | told


async def _asked(settings: Any, onto: str, examples: Any, texts: int) -> dict[str, Any]:
    from backend.app import create_app
    from backend.settings import Settings
    from backend.store import open_store
    from lmscope.client import AsyncClient

    names = tuple(dict.fromkeys((ONE, TUNED, OTHER, onto)))
    settings = Settings(**{**settings.model_dump(), "models": names, "wait_s": 3600.0, "key": None})
    app = create_app(settings, store=open_store("sqlite://", settings.cache_dir))
    told: dict[str, Any] = {}
    async with app.router.lifespan_context(app), AsyncClient("http://127.0.0.1", app=app) as client:
        for name in names:
            await client.wait(await client.load(name))
        changed = await client.changes(ONE, TUNED, by_string=True, limit=1)
        told["rampart_tokens_shared"] = changed.shared.tokens
        told |= {f"rampart_changed_value_{one.layer}": one.relative for one in changed.sizes if one.group == "value"}
        for short, other in (("rampart", TUNED), ("l3", OTHER)):
            aligned = await client.alignment(ONE, other, groups=GROUPS, by_string=other == TUNED)
            for group in aligned.groups:
                for name, found in (("", group.projected), ("_unprojected", group.control)):
                    if found is not None:
                        told[f"{short}_{group.group}{name}"] = " ".join(
                            f"{pair.layer}-{pair.other}:{pair.score:.3f}" for pair in found.pairs
                        )
                        told[f"{short}_{group.group}{name}_same"] = found.same
        held_out = await client.keep_examples(
            "held-out-snippets", plus=examples.plus[-texts // 2 :], minus=examples.minus[-texts // 2 :],
            licence=examples.licence,
        )  # fmt: skip
        stitched = await client.stitching(OTHER, onto, examples=held_out.id, texts=texts)
        if stitched.whole is not None:
            told["whole"] = stitched.whole.mean
        for point in stitched.points:
            figures = {"": point.value, "agreement ": point.agreement}
            told[f"{point.kernel}_{point.lower}_then_{point.upper}"] = ", ".join(
                f"{name}{value.mean:.3f}" for name, value in figures.items() if value is not None
            )
    return told
