"""Hypothesis strategies for every form of the schema, and what any View may be."""

from inspect import isclass
from math import prod
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from backend.schema import (
    ITEM_BYTES,
    Array,
    Edit,
    FfnOutSet,
    FfnScale,
    FfnSet,
    Focus,
    HeadName,
    HeadScale,
    HeadSet,
    KnownAsk,
    Reading,
    Region,
    ResidualAdd,
    ResidualSet,
    Sampling,
    Steer,
    Turn,
    UnitName,
    VectorAsk,
    View,
)
from backend.schema.frozen import Frozen

texts = st.text(max_size=60)
names = st.text(min_size=1, max_size=40)
finite = st.floats(allow_nan=False, allow_infinity=False)
strengths = st.floats(-1e6, 1e6)
layers = st.integers(0, 9_999)
heads = st.integers(0, 99_999)
positions = st.integers(0, 9_999_999)
places = st.sampled_from(["all", "prompt", "generated"]) | st.lists(positions, min_size=1, max_size=5).map(tuple)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    """A region that is not empty."""
    q0, k0 = draw(st.integers(0, 1000)), draw(st.integers(0, 1000))
    return Region(q0=q0, q1=q0 + draw(st.integers(1, 1000)), k0=k0, k1=k0 + draw(st.integers(1, 1000)))


vector_ids = st.from_regex("[0-9a-f]{64}", fullmatch=True)
heads_of = {"layer": layers, "head": heads}
units_of = {"layer": layers, "unit": positions}
KINDS_OF_EDIT: dict[type[Frozen], dict[str, SearchStrategy[Any]]] = {
    HeadScale: heads_of | {"by": strengths},
    HeadSet: heads_of | {"to": strengths | vector_ids},
    FfnScale: units_of | {"by": strengths},
    FfnSet: units_of | {"to": strengths},
    FfnOutSet: {"layer": layers, "to": strengths | vector_ids},
    ResidualAdd: {"layer": layers, "vector": vector_ids, "by": strengths},
    ResidualSet: {"layer": layers, "to": strengths | vector_ids},
    Steer: {"steer": vector_ids, "by": strengths},
}
each_edit = {kind: st.builds(kind, at=places, on=st.booleans(), **fields) for kind, fields in KINDS_OF_EDIT.items()}
edits: SearchStrategy[Edit] = st.one_of(*each_edit.values())
prompts = (
    st.fixed_dictionaries({"text": texts})
    | st.fixed_dictionaries({"pair": st.tuples(texts, texts)})
    | st.fixed_dictionaries({"turns": st.lists(st.builds(Turn, content=texts), min_size=1, max_size=4).map(tuple)})
)
focuses = st.builds(
    Focus,
    token=st.none() | positions,
    heads=st.lists(st.builds(HeadName, layer=layers, head=heads), max_size=4).map(tuple),
    region=st.none() | regions(),
    low=st.none() | finite,
    high=st.none() | finite,
    row=st.none() | positions,
    lens=st.sampled_from(["probability", "agreement", "rank", "entropy"]),
    tracked=st.none() | positions,
    unit=st.none() | st.builds(UnitName, layer=layers, unit=positions),
)
others = st.fixed_dictionaries(
    {
        "model": names,
        "revision": st.none() | names,
        "continuation": st.none() | texts,
        "template": st.none() | st.booleans(),
        "edits": st.lists(edits, max_size=4).map(tuple),
        "compare": st.booleans(),
        "sampling": st.builds(Sampling),
        "reading": st.builds(Reading),
        "focus": focuses,
    }
)
views = st.tuples(prompts, others).map(lambda parts: View(**parts[0], **parts[1]))


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """An array of any type and shape."""
    dtype = draw(st.sampled_from(sorted(ITEM_BYTES)))
    dims = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple))
    count = ITEM_BYTES[dtype] * prod(dims)
    return Array.pack(dtype, dims, draw(st.binary(min_size=count, max_size=count)))


KNOWN: dict[Any, SearchStrategy[Any]] = {
    float: finite,
    str: texts,
    Any: st.integers() | texts | st.booleans(),
    Array: arrays(),
    Region: regions(),
    View: views,
    VectorAsk: st.builds(VectorAsk, name=st.just("a-name"), recipe=texts, vector=arrays()),
    **each_edit,
}
ONE_OF = (KnownAsk,)
"""Forms of which exactly one field is given."""


def values_of(kind: Any) -> SearchStrategy[Any]:
    """Any value of a form, or of the type of one of its fields."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in KNOWN:
        return KNOWN[kind]
    if isclass(kind) and issubclass(kind, Frozen):
        hints = get_type_hints(kind, include_extras=True)
        fields = {name: values_of(field_kind(hints[name], field)) for name, field in kind.model_fields.items()}
        if kind in ONE_OF:
            given = [st.fixed_dictionaries({name: some.filter(bool)}) for name, some in fields.items()]
            return st.one_of(given).map(lambda values: kind(**values))
        return st.fixed_dictionaries(fields).map(lambda values: kind(**values))
    if origin is Annotated:
        return within(kind, arguments[0])
    if origin in (Union, UnionType):
        return st.one_of([values_of(part) for part in arguments])
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is dict:
        return st.dictionaries(texts, values_of(arguments[1]), max_size=2)
    return st.from_type(kind)


def field_kind(hint: Any, field: FieldInfo) -> Any:
    """A field's type with the limits that stand in its default (`tokens: int = Field(4096, ge=1)`)."""
    return Annotated[hint, *field.metadata] if field.metadata and get_origin(hint) is not Annotated else hint


def within(limited: Any, kind: Any) -> SearchStrategy[Any]:
    """Values that keep to the limits of an annotated type."""
    adapter = TypeAdapter(limited)

    def fits(value: Any) -> bool:
        try:
            adapter.validate_python(value)
        except ValidationError:
            return False
        return True

    schema = adapter.json_schema()
    if kind is float:
        return st.floats(schema.get("minimum", 0.001), schema.get("maximum", 1e9))
    if kind is int:
        low = schema.get("minimum", 0)
        return st.integers(low, schema.get("maximum", low + 10**6))
    if kind is str and "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).filter(fits)
    return values_of(kind).filter(fits)
