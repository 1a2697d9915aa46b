"""What is copied as Python gives the same numbers: through the client, and with plain transformers without us."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from backend.models import attention, opening
from backend.models import tokens as reading_of_tokens
from backend.models.loaded import Loaded
from backend.schema import (
    Edit,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadAnswer,
    HeadAsk,
    HeadName,
    HeadsAnswer,
    HeadsAsk,
    HeadScale,
    HeadSet,
    Limits,
    ModelCard,
    OverviewAsk,
    Reading,
    Region,
    ResidualAdd,
    ResidualSet,
    Source,
    Steer,
    TokensAsk,
    Turn,
    View,
)
from backend.schema.view import StatisticName
from frontend.parts.client_code import client_call
from frontend.parts.transformers_code import transformers_script
from lmscope.answers import numbers
from tests import tiny

TEXT = "The cat sat on the mat, and the dog barked at the cat."
EDITS = (
    HeadScale(layer=0, head=1, by=0.0),
    HeadSet(layer=0, head=2, to=0.25, at=(2, 3, 5)),
    HeadScale(layer=1, head=3, by=-2.5, at="prompt"),
    HeadScale(layer=1, head=0, by=3.0, at="generated"),
    HeadScale(layer=0, head=1, by=7.0, on=False),
)
OTHER_TAPS = (
    FfnScale(layer=0, unit=5, by=-4.0),
    FfnSet(layer=0, unit=9, to=6.0, at=(1, 4)),
    FfnOutSet(layer=1, to=0.5, at=(3, 5)),
    ResidualSet(layer=0, to=0.5, at=(6,)),
    HeadScale(layer=1, head=3, by=0.0, at="prompt"),
    FfnScale(layer=0, unit=5, by=0.5, at="generated"),
)
STATISTICS = tuple(name for name in get_args(StatisticName) if name not in ("induction", "sink"))


@dataclass(frozen=True)
class Case:
    """One question about one tiny model."""

    kind: str = "llama"
    statistic: str = "entropy"
    heads: tuple[HeadName, ...] = (HeadName(layer=1, head=2),)
    query: int = 7
    view: dict[str, Any] = field(default_factory=lambda: {"text": TEXT})

    def asked(self, folder: Path) -> View:
        """The view, about the model in that folder."""
        return View(model=str(folder), **self.view)


EDITED = HeadName(layer=1, head=3)
WEIGHTED = Reading(weighted=True)
SEVERAL = (HeadName(layer=2, head=0), HeadName(layer=1, head=2))
CASES = {
    **{f"llama {name}": Case(statistic=name) for name in STATISTICS},
    **{f"bert {name}": Case("bert", name, view={"pair": (TEXT, "Off with her head!")}) for name in STATISTICS},
    "gpt2 edited": Case("gpt2", view={"text": TEXT, "continuation": " The Queen said.", "edits": EDITS}, query=14),
    "llama edited": Case(view={"text": TEXT, "continuation": " The Queen said.", "edits": EDITS}, query=14),
    "bert edited": Case("bert", view={"text": TEXT, "edits": EDITS, "compare": True}),
    **{
        f"{kind} units and stream": Case(kind, view={"text": TEXT, "edits": OTHER_TAPS})
        for kind in ("llama", "gpt2", "bert")
    },
    "llama without first": Case(view={"text": TEXT, "reading": Reading(without_first=True)}),
    "llama without first, previous": Case(
        statistic="previous", view={"text": TEXT, "reading": Reading(without_first=True, rows="all")}
    ),
    "bert clark": Case("bert", view={"text": TEXT, "reading": Reading(definitions="clark")}),
    "bert clark separators": Case("bert", "separators", view={"text": TEXT, "reading": Reading(definitions="clark")}),
    "gpt2 clark punctuation": Case("gpt2", "punctuation", view={"text": TEXT, "reading": Reading(definitions="clark")}),
    "gpt2 clark next": Case("gpt2", "next", view={"text": TEXT, "reading": Reading(definitions="clark")}),
    "llama weighted": Case(view={"text": TEXT, "edits": EDITS, "reading": WEIGHTED}, heads=SEVERAL),
    "gpt2 weighted": Case(
        "gpt2",
        view={"text": TEXT, "edits": EDITS, "reading": WEIGHTED},
        heads=(HeadName(layer=1, head=3),),
    ),
    "bert weighted": Case("bert", view={"text": TEXT, "reading": Reading(weighted=True, without_first=True)}),
    "llama several heads": Case(heads=SEVERAL),
    "llama turns": Case(view={"turns": (Turn(role="user", content=TEXT), Turn(role="assistant", content="Off!"))}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models as folders."""
    root = tmp_path_factory.mktemp("models")
    return {kind: tiny.folder(kind, root / kind) for kind in tiny.KINDS}


@cache
def opened(folder: Path) -> Loaded:
    """The model as the server opens it."""
    source = Source(kind="folder", name=str(folder))
    return opening.open_folder(folder, name=str(folder), source=source, digest="0" * 64)


def script_of(case: Case, folder: Path) -> str:
    """What the page would copy."""
    loaded = opened(folder)
    view = case.asked(folder)
    tokens = reading_of_tokens.answer(loaded, TokensAsk(view=view, scores=False), Limits())
    return transformers_script(
        view, tokens, card=loaded.card, heads=case.heads, statistic=case.statistic, query=case.query
    )


@pytest.fixture(scope="module")
def printed(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every script prints; one process runs them one after the other, so that torch is imported once."""
    place = tmp_path_factory.mktemp("scripts")
    for number, case in enumerate(CASES.values()):
        (place / f"{number}.py").write_text(script_of(case, folders[case.kind]), encoding="utf-8")
    driver = (
        "import runpy, sys\n"
        f"for number in range({len(CASES)}):\n"
        "    print('#####')\n"
        "    runpy.run_path(f'{sys.argv[1]}/{number}.py')\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('lmscope', 'backend', 'frontend')]\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", driver, str(place)],
        capture_output=True, text=True, cwd=place, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    return dict(zip(CASES, run.stdout.split("#####\n")[1:], strict=True))


def answers(case: Case, folder: Path) -> tuple[HeadsAnswer, HeadAnswer]:
    """Our own answers."""
    loaded, view = opened(folder), case.asked(folder)
    heads = attention.heads(loaded, HeadsAsk(view=view), Limits())
    return heads, attention.head(loaded, HeadAsk(view=view, heads=case.heads), Limits())


@pytest.mark.parametrize("name", CASES)
def test_a_script_of_plain_transformers_prints_our_numbers(
    name: str, printed: dict[str, str], folders: dict[str, Path]
) -> None:
    case, lines = CASES[name], printed[name].splitlines()
    heads, head = answers(case, folders[case.kind])
    shown = [line.split(":")[1].split() for line in lines if line.startswith(f"{case.statistic} of layer")]
    ours = next(numbers(each.value) for each in heads.edited if each.name == case.statistic)
    np.testing.assert_allclose(np.array(shown, dtype=float), ours, atol=1e-5, rtol=1e-5)
    entropy = next(re.findall(r"entropy of row (\d+): ([\d.]+)", line) for line in lines if "of row" in line)[0]
    assert int(entropy[0]) == case.query
    assert head.edited.entropy is not None
    assert float(entropy[1]) == pytest.approx(numbers(head.edited.entropy)[case.query], abs=1e-5)
    cells = re.findall(r"map\[(\d+), (\d+)\] = ([\d.]+)", printed[name])
    assert len(cells) == 5
    for query, key, weight in cells:
        assert float(weight) == pytest.approx(numbers(head.edited.map)[int(query), int(key)], rel=1e-5, abs=1e-5)


def test_edits_and_readings_change_what_the_scripts_print(printed: dict[str, str]) -> None:
    assert printed["llama edited"] != printed["llama entropy"]
    assert len({printed[name] for name in CASES}) == len(CASES)


def test_a_script_says_what_it_is_about(folders: dict[str, Path]) -> None:
    script = script_of(
        Case(view={"text": 'a"""\nimport os\u2028b\rc', "edits": EDITS, "compare": True}), folders["llama"]
    )
    assert r"import os\u2028b\rc" in script
    assert "unedited one" in script
    assert not re.search(r"^import os", script, re.MULTILINE)
    compile(script, "script", "exec")


def with_edit(edit: Edit, folder: Path) -> str:
    """The script of a view whose edit names a vector, which this server need not hold to write it."""
    loaded = opened(folder)
    tokens = reading_of_tokens.answer(loaded, TokensAsk(view=Case().asked(folder), scores=False), Limits())
    return transformers_script(View(model="m", text=TEXT, edits=(edit,)), tokens, card=loaded.card)


@pytest.mark.parametrize("edit", [ResidualAdd(layer=0, vector="b" * 64, by=1.0), HeadSet(layer=0, head=0, to="b" * 64)])
def test_a_stored_vector_is_said_to_have_no_script(folders: dict[str, Path], edit: Edit) -> None:
    script = with_edit(edit, folders["llama"])
    assert all(line.startswith("#") for line in script.splitlines())
    assert "b" * 64 in script


def test_a_steer_moves_no_attention_and_the_script_says_so(folders: dict[str, Path]) -> None:
    script = with_edit(Steer(steer="b" * 64, by=1.0), folders["llama"])
    assert "Steers act behind the last block" in script
    assert "b" * 64 not in script
    compile(script, "script", "exec")


def test_a_script_finds_the_weights_where_the_server_found_them(folders: dict[str, Path]) -> None:
    loaded = opened(folders["llama"])
    view = View(model="m", text=TEXT)
    tokens = reading_of_tokens.answer(loaded, TokensAsk(view=view, scores=False), Limits())
    said = {"model": "m", "revision": "abc", "digest": "1" * 64, "dtype": "bfloat16", "device": "cuda:0",
            "quantisation": "Q4_1, dequantised"}  # fmt: skip
    tokens = tokens.model_copy(update={"conditions": tokens.conditions.model_copy(update=said)})

    def script(kind: str) -> str:
        card = ModelCard(name="m", state="loaded", source=Source(kind=kind, name="m"))  # type: ignore[arg-type]
        return transformers_script(view, tokens, card=card)

    assert "'models_cache/models/m@111111111111'," in script("package")
    assert "lmscope models fetch m" in script("package")
    assert "'m', revision='abc'," in script("hub")
    assert "'m'," in script("folder")
    for part in ("dtype=torch.bfloat16", ".to('cuda:0')", "device='cuda:0'", "Q4_1, dequantised", "bfloat16 carries"):
        assert part in script("hub")


def test_induction_is_measured_on_other_tokens_and_the_script_says_so(folders: dict[str, Path]) -> None:
    script = script_of(Case(statistic="induction"), folders["llama"])
    assert "repeated random tokens" in script
    assert "entropy of layer" in script


VIEW = View(model="m", text='it\'s "here"\n', edits=EDITS, compare=True, reading=Reading(rows="all"))


@pytest.mark.parametrize(
    ("ask", "call"),
    [
        (TokensAsk(view=VIEW), "tokens(view)"),
        (TokensAsk(view=VIEW, scores=False), "tokens(view, scores=False)"),
        (OverviewAsk(view=VIEW), "attention(view)"),
        (OverviewAsk(view=VIEW, cells=16), "attention(view, cells=16)"),
        (HeadsAsk(view=VIEW), "heads(view)"),
        (HeadAsk(view=VIEW, heads=(HeadName(layer=5, head=3),)), "head(view, '5.3')"),
        (
            HeadAsk(view=VIEW, heads=SEVERAL, region=Region(q0=0, q1=2, k0=1, k1=3), token=0, links=4),
            "head(view, ['2.0', '1.2'], region=Region(q0=0, q1=2, k0=1, k1=3), token=0, links=4)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_client_s_call_asks_exactly_the_same(ask: Any, call: str) -> None:
    code = client_call(ask, "http://gpu.team:8050")
    assert call in code
    assert asked_by(code) == (ask.model_copy(update={"view": ask.view.question()}), "http://gpu.team:8050")


def asked_by(code: str) -> tuple[Any, str]:
    """Run copied code with a client that only remembers what it is asked."""
    import lmscope
    from lmscope.client import head_names

    seen: list[Any] = []

    class Remembering:
        """In the place of the client."""

        def __init__(self, base_url: str) -> None:
            self.base_url = base_url

        def __getattr__(self, name: str) -> Any:
            forms = {"tokens": TokensAsk, "attention": OverviewAsk, "heads": HeadsAsk, "head": HeadAsk}

            def method(view: View, heads: Any = None, **options: Any) -> Any:
                named = {} if heads is None else {"heads": head_names(heads)}
                seen.append((forms[name](view=view, **named, **options), self.base_url))
                return self

            return method if name in forms else lambda *_: self

    original, lmscope.__dict__["Client"] = lmscope.__dict__.get("Client"), Remembering
    try:
        exec(compile(code, "copied", "exec"), {"print": lambda *_: None})
    finally:
        if original is None:
            del lmscope.__dict__["Client"]
        else:
            lmscope.__dict__["Client"] = original
    return seen[0]
