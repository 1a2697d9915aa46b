"""The callback of a panel: a store asks, a store is told, and whatever refuses is said in the panel's own place."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from dash import ClientsideFunction, Input, Output, State, callback, clientside_callback
from dash.exceptions import PreventUpdate

from frontend.figures.theme import Theme
from frontend.parts import ids as shell

Asked = dict[str, Any]
"""What a store holds that asks."""
Given = ParamSpec("Given")
Told = TypeVar("Told")
Asking = TypeVar("Asking")
Answering = Callable[Concatenate[Asking, Given], Awaitable[Told]]


def asked_by(
    ask: str,
    told: str,
    notice: str,
    figure: str | None = None,
    *,
    sized: bool = False,
    by_tab: bool = True,
    at_once: bool = False,
) -> Callable[[Answering[Asking, Given, Told]], Answering[Asking, Given, Told]]:
    """Register a callback of (asked, tab) that returns what is told, and None for the notice; all four are ids.

    With a `figure` it is one of (asked, theme, tab) that returns the figure first: the figure is drawn anew when the
    theme turns. `sized`: it returns the style of the figure's place second, for a height that came later would have
    the figure drawn twice. Where it is not `by_tab`, nobody is named as the one who asks, and `tab` is not given.
    `at_once`: what asks may have done so before the panel came into the document.
    """
    drawn = [] if figure is None else [Output(figure, name) for name in ("figure", "style")[: 1 + sized]]
    turned = [] if figure is None else [Input(shell.THEME, "data")]
    named_by = [State(shell.TAB, "data")] if by_tab else []

    def register(answer: Answering[Asking, Given, Told]) -> Answering[Asking, Given, Told]:
        @callback(
            *drawn, Output(told, "data"), Output(notice, "children"), Input(ask, "data"), *turned, *named_by,
            prevent_initial_call=not at_once,
        )  # fmt: skip
        @wraps(answer)
        async def answered(asked: Asking | None, *given: Given.args, **named: Given.kwargs) -> Told:
            if asked is None:  # the theme has turned, and nothing is drawn yet
                raise PreventUpdate
            return await answer(asked, *given, **named)

        return answer

    return register


def heard(asset: str, stores: Mapping[str, str]) -> None:
    """Let an asset's functions, by name, hear what comes into stores, and of which."""
    for name, store in stores.items():
        clientside_callback(
            ClientsideFunction(asset, name), Input(store, "data"), State(store, "id"), prevent_initial_call=True
        )


def theme_of(stored: str | None) -> Theme:
    """The theme of figures, of what the browser remembers."""
    return "dark" if stored == "dark" else "light"
