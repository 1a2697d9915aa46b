"""The callback of a panel: a store asks, a store is told, and whatever refuses is said in the panel's own place."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dash import Input, Output, State, callback

from frontend.figures.theme import Theme
from frontend.parts import ids as shell

Given = ParamSpec("Given")
Told = TypeVar("Told")


def asked_by(
    ask: str, told: str, notice: str, figure: str | None = None
) -> Callable[[Callable[Given, Told]], Callable[Given, Told]]:
    """Register a callback of (asked, tab) that returns what is told, and None for the notice; all four are ids.

    With a `figure` it is one of (asked, theme, tab) that returns the figure first: the figure is drawn anew when the
    theme turns.
    """
    drawn = [] if figure is None else [Output(figure, "figure")]
    turned = [] if figure is None else [Input(shell.THEME, "data")]
    return callback(
        *drawn, Output(told, "data"), Output(notice, "children"), Input(ask, "data"), *turned, State(shell.TAB, "data")
    )


def theme_of(stored: str | None) -> Theme:
    """The theme of figures, of what the browser remembers."""
    return "dark" if stored == "dark" else "light"
