"""The tables. A change here needs a migration: `python -m backend.store "what changes"` writes it."""

from typing import Any

from sqlalchemy import JSON, Double, Index, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "pk": "pk_%(table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
}
"""Constraints have names, or no later migration could change them."""


class Table(DeclarativeBase):
    """What all tables have in common."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {float: Double, dict[str, Any]: JSON(none_as_null=True)}  # noqa: RUF012  SQLAlchemy reads it


class ServerRow(Table):
    """One running server, from its start to its end."""

    __tablename__ = "servers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    began: Mapped[float]
    """Seconds since 1970, as all times here."""
    beat: Mapped[float]
    """When it last said that it lives; written where no lock tells."""


class JobRow(Table):
    """One job as it stands: the fields of `schema.Job`, and what going on with it needs."""

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "state", "updated"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    kind: Mapped[str]
    owner: Mapped[str]
    state: Mapped[str] = mapped_column(String(16))
    what: Mapped[str]
    done: Mapped[float]
    total: Mapped[float | None]
    unit: Mapped[str]
    eta_s: Mapped[float | None]
    partial: Mapped[dict[str, Any] | None]
    result: Mapped[dict[str, Any] | None]
    problem: Mapped[dict[str, Any] | None]
    created: Mapped[float]
    updated: Mapped[float]
    request: Mapped[dict[str, Any]]
    """What was asked: enough to do it again."""
    resumed: Mapped[int]
    """How often a server has taken it up from one that died."""
    stop: Mapped[bool]
    """Somebody asked for its end, perhaps at another server than the one that runs it."""
    server: Mapped[str] = mapped_column(String(32))
    """The server that runs or ran it."""


class NoteRow(Table):
    """What a team calls one value or head of a model, and knows of it."""

    __tablename__ = "notes"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Of the weights."""
    part: Mapped[str] = mapped_column(String(16), primary_key=True)
    """`value` or `head`."""
    layer: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Unit or head."""
    name: Mapped[str] = mapped_column(String(120))
    text: Mapped[str] = mapped_column(Text)
    model: Mapped[str]
    """The model's name when the note was written."""
    updated: Mapped[float]
