"""What the sentiment steer of the product does, scored by a word list that shares no data with its training.

Fifty neutral prompts are continued several times at every strength and both signs, under the same random numbers,
beside a random steer of equal norm and rank; each continuation is scored by AFINN (`benchmarks/lexicon.py` says why
not by VADER), and the mean score of a prompt's continuations is compared with that of the unsteered ones, prompt by
prompt. The likelihood of both classes is that of snippets which the making of the steer neither trained on nor stopped
by, paired text by text.

`python -m benchmarks.steer_effect` draws the curve of the last run for the README.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = "sentiment"
STRENGTHS = (-3.0, -1.0, 0.0, 1.0, 3.0)
SAMPLING = {"temperature": 0.8, "top_p": 0.9}
TOKENS, TEXTS, ROWS = 20, 48, 128
DRAWS = 8
"""Continuations of each prompt at each strength."""
APART = 1_000
"""Between the seeds of two draws: more than there are prompts, each of which has a seed of its own."""
QUICK = {"strengths": (-2.0, 0.0, 2.0), "tokens": 10, "texts": 8}
FEWEST = {"texts": 8}
"""Of the draws after the first, whose continuations alone are looked at."""
RECORDED = Path(__file__).with_name("steer_effect.json")
"""The last whole run: numbers, and no texts."""
Score = Callable[[str], float]


def run(quick: bool, peer: bool) -> dict[str, float]:
    """Figures by name: of each strength the mean change of AFINN's score, its interval, and the random steer's."""
    del peer  # no rival scores its steers
    from benchmarks.lexicon import afinn

    lexicon = afinn()
    told = asyncio.run(measured(quick, lexicon.score))
    if not quick:
        RECORDED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return figures(told)


async def measured(quick: bool, score: Score) -> dict[str, Any]:
    """The sweep of the shipped steer as JSON, each point with its score; through a server in this process."""
    from backend.app import create_app
    from backend.models.cache import ModelsCache
    from backend.models.continuations import neutral_prompts
    from backend.models.progress import silent
    from backend.models.snippets import MODEL, RECIPES, fetch
    from backend.schema import Job, View
    from backend.settings import Settings
    from backend.store import open_store
    from lmscope.client import AsyncClient

    def say(job: Job) -> None:
        print(f"\r{job.what}: {job.done:,.0f} of {job.total or 0:,.0f}   ", end="", file=sys.stderr)

    settings = Settings()
    examples = await asyncio.to_thread(fetch, ModelsCache(settings.cache_dir), RECIPES[NAME], silent)
    settings = Settings(**{**settings.model_dump(), "models": (MODEL,), "wait_s": 3600.0, "key": None, "rows": ROWS})
    app = create_app(settings, store=open_store("sqlite://", settings.cache_dir))
    async with app.router.lifespan_context(app), AsyncClient("http://127.0.0.1", app=app) as client:
        await client.wait(await client.load(MODEL), say)
        named = [each.card for each in (await client.steers(MODEL)).steers if each.card.name == NAME]
        card = max(named, key=lambda card: card.ours)
        await client.keep_examples(examples.name, plus=examples.plus, minus=examples.minus, licence=examples.licence)
        options: dict[str, Any] = {"strengths": STRENGTHS, "tokens": TOKENS, "texts": TEXTS} | (QUICK if quick else {})
        prompts = neutral_prompts()[: 8 if quick else None]
        sweeps = []
        for draw in range(2 if quick else DRAWS):
            view = View.model_validate({"model": MODEL, "text": "Any.", "sampling": SAMPLING | {"seed": APART * draw}})
            how = options | (FEWEST if draw else {})
            answer = await client.sweep(view, card.id, prompts=prompts, progress=say, **how)
            sweeps.append(answer.model_dump(mode="json"))
    print(file=sys.stderr)
    told = scored(sweeps, score)
    return {"steer": card.id, "poles": [card.plus, card.minus], **told}


def scored(sweeps: Sequence[Mapping[str, Any]], score: Score) -> dict[str, Any]:
    """The first sweep, whose points have `score` in the place of their texts.

    It is the change from the base prompt by prompt, of the mean over the draws: each sweep is one, of the same prompts.
    """
    import torch

    from backend.measure.intervals import interval

    def mean_P(points: Sequence[Mapping[str, Any]]) -> Any:
        return torch.tensor([[float(score(text)) for text in point["samples"]] for point in points]).mean(0)

    first = sweeps[0]
    base_P = mean_P([sweep["base"] for sweep in sweeps])

    def told(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        point, score_P = points[0], mean_P(points)
        kept = {name: value for name, value in point.items() if name not in ("samples", "other")}
        changed = score_P - base_P
        return kept | {
            "score": interval(changed).model_dump(), "mean_score": float(score_P.mean()),
            "higher": int((changed > 0).sum()), "lower": int((changed < 0).sum()),
        }  # fmt: skip

    return {
        "conditions": first["conditions"], "about": first["about"], "prompts": len(first["prompts"]),
        "draws": len(sweeps),
        "points": [told(points) for points in zip(*(sweep["points"] for sweep in sweeps), strict=True)],
        "control": [told(points) for points in zip(*(sweep["control"] for sweep in sweeps), strict=True)],
    }  # fmt: skip


def figures(told: Mapping[str, Any]) -> dict[str, float]:
    """For the table and the line of JSON: `afinn_+2`, its interval, and `afinn_random_+2`."""
    found: dict[str, float] = {}
    for kind, points in (("", told["points"]), ("random_", told["control"])):
        for point in points:
            name = f"afinn_{kind}{point['by']:+g}"
            found[name] = round(point["score"]["mean"], 3)
            found |= {f"{name}_{end}": round(point["score"][end], 3) for end in ("low", "high")}
            for pole in ("plus", "minus"):
                if point[pole] is not None:
                    found[f"nll_{kind}{pole}_{point['by']:+g}"] = round(point[pole]["mean"], 4)
            found[f"perplexity_{kind}{point['by']:+g}"] = round(point["perplexity"]["mean"], 2)
    return found


def draw(folder: Path, themes: Sequence[str] = ("light", "dark")) -> None:
    """Write steer-effect-light.png and -dark.png, by the system's Chromium, from the last whole run."""
    from playwright.sync_api import sync_playwright
    from plotly.offline import get_plotlyjs

    from frontend.figures.steer_effect import steer_effect
    from frontend.figures.theme import INK

    told = json.loads(RECORDED.read_text(encoding="utf-8"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for theme in themes:
            figure = steer_effect(told, theme=theme)  # type: ignore[arg-type]
            figure.update_layout(paper_bgcolor=INK[theme]["panel"], plot_bgcolor=INK[theme]["panel"])  # type: ignore[index]
            page = browser.new_page(
                viewport={"width": figure.layout.width, "height": figure.layout.height}, device_scale_factor=1.5
            )
            page.set_content("<body style='margin:0'><div id=figure></div></body>")
            page.add_script_tag(content=get_plotlyjs())
            page.evaluate(f"Plotly.newPlot('figure', {figure.to_json()}, {{}}, {{staticPlot: true}})")
            page.wait_for_function("document.querySelector('#figure .main-svg') !== null")
            page.screenshot(path=folder / f"steer-effect-{theme}.png")
        browser.close()


if __name__ == "__main__":
    draw(Path(__file__).parent.parent / "docs")
