"""Copy as Python: the client's calls that ask the same."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from backend.schema import (
    ActiveAsk,
    AlignmentAsk,
    CellAsk,
    ChangesAsk,
    ConceptAsk,
    ContributionsAsk,
    DirectionAsk,
    EffectsAsk,
    EvidenceAsk,
    HeadAsk,
    HeadsAsk,
    HeadWeightsAsk,
    InsideAsk,
    KeepAsk,
    LineAsk,
    MakeAsk,
    OverlapsAsk,
    OverviewAsk,
    PairsAsk,
    PatchAsk,
    PatchMapAsk,
    SimilarityAsk,
    SteerAsk,
    StitchingAsk,
    SubheadsAsk,
    SummariesAsk,
    SweepAsk,
    TablesAsk,
    TokensAsk,
    TraceAsk,
    TransferAsk,
    ValueAsk,
    View,
    WriteAsk,
)

WIDTH = 110


class Call(NamedTuple):
    """How the client asks a form: its method, what that takes by place, and what is printed of the answer."""

    form: type[BaseModel]
    method: str
    places: tuple[str, ...]
    shown: str = "answer.csv()"


CALLS = {
    "cell": Call(CellAsk, "cell", ("view", "layer", "token")),
    "contributions": Call(ContributionsAsk, "contributions", ("view",)),
    "effects": Call(EffectsAsk, "effects", ("view",)),
    "patch": Call(PatchAsk, "patch", ("view", "source", "places")),
    "patch_map": Call(PatchMapAsk, "patch_map", ("view", "source")),
    "write": Call(WriteAsk, "write", ("view",), "answer.edited.text"),
    "steer": Call(SteerAsk, "steer", ("view",)),
    "steer_evidence": Call(EvidenceAsk, "steer_evidence", ("view",)),
    "steer_inside": Call(InsideAsk, "steer_inside", ("model", "steer")),
    "make": Call(MakeAsk, "make_steer", ("model", "name", "examples"), "answer.card.evidence"),
    "direction": Call(DirectionAsk, "make_direction", ("model", "name", "examples", "layer"), "answer.card.evidence"),
    "sweep": Call(SweepAsk, "sweep", ("view", "steer", "strengths")),
    "transfer": Call(TransferAsk, "transfer", ("steer", "model", "name"), "answer.survives"),
    "pairs": Call(PairsAsk, "pairs", ("model", "head", "circuit")),
    "line": Call(LineAsk, "line", ("model", "head", "token", "circuit")),
    "head": Call(HeadWeightsAsk, "head_weights", ("model", "head")),
    "subheads": Call(SubheadsAsk, "subheads", ("model", "head", "part")),
    "overlaps": Call(OverlapsAsk, "overlaps", ("model", "layer")),
    "value": Call(ValueAsk, "value", ("model", "unit")),
    "concept": Call(ConceptAsk, "concept", ("model", "words")),
    "heads": Call(SummariesAsk, "head_summaries", ("model",)),
    "tables": Call(TablesAsk, "head_tables", ("model", "circuit")),
    "keep": Call(KeepAsk, "kept_words", ("model",)),
    "active": Call(ActiveAsk, "active_words", ("model",)),
    "similarity": Call(SimilarityAsk, "similarity", ("model",)),
    "changes": Call(ChangesAsk, "changes", ("model", "other")),
    "alignment": Call(AlignmentAsk, "alignment", ("model", "other")),
    "stitching": Call(StitchingAsk, "stitching", ("model", "other")),
}
"""By the names that assets/*.js use for what a panel asked."""
BY_FORM = {call.form: call for call in CALLS.values()}
OF_PLACE: dict[str, tuple[str, ...]] = {
    "head": ("layer", "head"),
    "unit": ("layer", "unit"),
    "token": ("token", "word"),
}
"""Fields of a form that one argument stands for."""
VARIABLES = ("view", "source")
"""Views, which stand before the calls."""
SAMPLED = (WriteAsk, SweepAsk)
"""Questions whose answer sampling decides."""


def client_calls(asks: Sequence[BaseModel], base_url: str) -> str:
    """A script that asks all of this of the same server; what is about a text is about the view of the first."""
    views = {name: _view(ask, name) for ask in reversed(asks) for name in VARIABLES if hasattr(ask, name)}
    given = [getattr(ask, name) for ask in asks for name in _by_name(ask) + _by_place(ask)]
    used = sorted({type(form).__name__ for form in forms_in([*views.values(), *given])} - {"View"})
    names = f"from backend.schema import {', '.join(used)}\n" if used else ""
    return (
        f"{names}from lmscope import Client{', View' if views else ''}\n\n"
        + "".join(f"{name} = {spread(view)}\n" for name, view in views.items())
        + f"client = Client({base_url!r})\n"
        + "".join(_call(ask) for ask in asks)
    )


def _view(ask: BaseModel, name: str) -> View:
    """What decides the answer: sampling does where something is written."""
    view: View = getattr(ask, name)
    if name == "source":
        return view
    asked = view.question()
    return asked.model_copy(update={"sampling": view.sampling}) if isinstance(ask, SAMPLED) else asked


def _call(ask: BaseModel) -> str:
    call = BY_FORM[type(ask)]
    by_name = [f"{name}={constructor(getattr(ask, name))}" for name in _by_name(ask)]
    given = ", ".join([*(_place(ask, place) for place in call.places), *by_name])
    return f"answer = client.{call.method}({given})\nprint({call.shown})\n"


def _place(ask: BaseModel, place: str) -> str:
    """One argument by place."""
    if place in VARIABLES:
        return place
    given = {name: getattr(ask, name) for name in _fields(ask, place)}
    if place == "head":
        return repr(f"{given['layer']}.{given['head']}")
    if place == "unit":
        return repr(f"L{given['layer']}U{given['unit']}")
    if place == "token" and given["token"] is None:
        return constructor(given.get("word"))
    return constructor(given[place])


def _fields(ask: BaseModel, place: str) -> list[str]:
    return [name for name in OF_PLACE.get(place, (place,)) if name in type(ask).model_fields]


def _by_place(ask: BaseModel) -> list[str]:
    """The fields that stand by place, views apart."""
    places = [place for place in BY_FORM[type(ask)].places if place not in VARIABLES]
    return [name for place in places for name in _fields(ask, place)]


def _by_name(ask: BaseModel) -> list[str]:
    """The other fields that differ from their defaults."""
    said = {*VARIABLES, *_by_place(ask)}
    return [name for name in _given(ask) if name not in said]


Ask = TokensAsk | OverviewAsk | HeadAsk | HeadsAsk | TraceAsk


def client_call(ask: Ask, base_url: str = "http://127.0.0.1:8050") -> str:
    """The few lines that ask the same of the same server from a notebook."""
    view = ask.view.question()
    used = sorted({type(form).__name__ for form in forms_in([view, getattr(ask, "region", None)])} - {"View"})
    names = f"from backend.schema import {', '.join(used)}\n" if used else ""
    return (
        f"{names}from lmscope import Client, View\n\n"
        f"view = {spread(view)}\n"
        f"answer = Client({base_url!r}).{_method(ask)}\n"
        "print(answer.csv())\n"
        "answer.figure().show()\n"
    )


def _method(ask: Ask) -> str:
    if isinstance(ask, HeadAsk):
        heads = [str(head) for head in ask.heads]
        named = repr(heads[0] if len(heads) == 1 else heads)
        return f"head(view, {named}{_options(ask, ('region', 'cells', 'token', 'links'))})"
    if isinstance(ask, OverviewAsk):
        return f"attention(view{_options(ask, ('cells',))})"
    if isinstance(ask, TraceAsk):
        return f"trace(view{_options(ask, ('top', 'tracked'))})"
    return "heads(view)" if isinstance(ask, HeadsAsk) else f"tokens(view{_options(ask, ('scores',))})"


def _options(ask: BaseModel, names: Sequence[str]) -> str:
    return "".join(f", {name}={constructor(getattr(ask, name))}" for name in _given(ask) if name in names)


def constructor(value: Any) -> str:
    """Python that makes this value: a form with the fields that differ from their defaults."""
    if isinstance(value, BaseModel):
        given = [f"{name}={constructor(getattr(value, name))}" for name in _given(value)]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, tuple):
        inside = ", ".join(constructor(item) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)


def spread(view: View) -> str:
    """The view on one line, or a field a line when it is long."""
    short = constructor(view)
    if len(short) <= WIDTH:
        return short
    given = [f"    {name}={constructor(getattr(view, name))},\n" for name in _given(view)]
    return f"View(\n{''.join(given)})"


def _given(form: BaseModel) -> list[str]:
    return [name for name, field in type(form).model_fields.items() if getattr(form, name) != field.default]


def forms_in(value: Any) -> list[BaseModel]:
    """Every form inside a value whose name the constructor needs."""
    if isinstance(value, BaseModel):
        changed = [getattr(value, name) for name in _given(value)]
        return [value, *forms_in(changed)]
    if isinstance(value, list | tuple):
        return [form for item in value for form in forms_in(item)]
    return []
