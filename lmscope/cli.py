"""The command line: `lmscope serve | models | steers | link | bench`.

Each side is imported by the command that needs it.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console, ConsoleDimensions

from lmscope import __version__

app = typer.Typer(
    name="lmscope",
    help="Open a language model while it works: attention, entropy and edits of any head, on your own text.",
    epilog="Example: lmscope serve --model smollm2-135m-instruct",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models = typer.Typer(help="The models on this machine: list, fetch, remove, show.", invoke_without_command=True)
app.add_typer(models, name="models", epilog="Example: lmscope models fetch all-minilm-l6-v2")
steers = typer.Typer(help="The steers on this machine: list, show, make again, remove.", invoke_without_command=True)
app.add_typer(steers, name="steers", epilog="Example: lmscope steers make sentiment")
PIPE_WIDTH = 200


class Lines(Console):
    """A console that cuts no line short where no terminal shows it: in a pipe, a file, a log."""

    @property  # type: ignore[misc]  # rich lets it be set; ours is only read
    def size(self) -> ConsoleDimensions:
        """The terminal's size, or a width that holds every table."""
        return super().size if self.is_terminal else ConsoleDimensions(PIPE_WIDTH, 25)


said = Lines(stderr=True)
shown = Lines()


class Side(StrEnum):
    """Which server."""

    both = "both"
    backend = "backend"
    frontend = "frontend"


@contextmanager
def words() -> Iterator[None]:
    """Say what went wrong in a sentence and end with 1."""
    from backend.errors import LmscopeError
    from backend.schema import LinkError
    from lmscope.refused import Refused, sentences

    try:
        yield
    except LmscopeError as error:
        say = sentences(error.problem())
    except Refused as refused:
        say = str(refused)
    except ValidationError as error:
        from lmscope.serving import errors_of

        say = "\n".join(errors_of(error))
    except (LinkError, typer.BadParameter) as error:
        say = f"{error}."
    except FileNotFoundError as error:
        say = f"There is no file {error.filename}."
    else:
        return
    said.print(say, style="red", highlight=False, markup=False)
    raise typer.Exit(1)


def version(asked: bool) -> None:
    """Print the version."""
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    asked: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options of all commands."""


@app.command(epilog="Examples: lmscope serve --port 9000 · lmscope serve backend · lmscope serve frontend")
def serve(
    side: Annotated[Side, typer.Argument(help="Both on one port, or one of them.", show_choices=True)] = Side.both,
    host: Annotated[str | None, typer.Option(help="Address to listen on; else LMSCOPE_HOST, 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; else LMSCOPE_PORT, 8050 (backend alone: 8051).")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Model to load at the start: a name, a hub id, a folder; may be repeated.")
    ] = None,
    backend_url: Annotated[str | None, typer.Option(help="Where `serve frontend` finds the backend.")] = None,
) -> None:
    """Serve the dashboard: the API and the pages in one process on one port, or each apart."""
    from lmscope import serving

    with words():
        given = {"host": host, "port": port, "models": tuple(model) if model else None, "backend_url": backend_url}
        try:
            _serve(serving, side, {name: value for name, value in given.items() if value is not None})
        except serving.CannotServe as error:
            raise typer.BadParameter(str(error).rstrip(".")) from error


def _serve(serving: Any, side: Side, given: dict[str, Any]) -> None:
    from frontend.settings import Settings as PageSettings

    pages = PageSettings(**{name: value for name, value in given.items() if name != "models"})
    if side == Side.frontend:
        with serving.listen(pages.host, pages.port) as bound:
            with serving.starting():
                pages_app, client = serving.pages_app(pages)
            opened = serving.address(pages.host, bound.getsockname()[1])
            serving.run(pages_app, bound, opened, client, said, serving.House())
        return
    settings = _settings(side, {name: value for name, value in given.items() if name != "backend_url"})
    with serving.listen(settings.host, settings.port) as bound:
        said.print("Starting …", highlight=False)
        opened = serving.address(settings.host, settings.port)
        with serving.starting():
            backend_app = serving.backend_app(settings)
            if side == Side.both:
                client = serving.with_pages(backend_app, settings, pages)
            else:
                client, opened = serving.client_of(backend_app, settings), f"{opened}/api/v1/docs"
        serving.run(backend_app, bound, opened, client, said, serving.Backend(backend_app))


def _settings(side: Side, given: dict[str, Any]) -> Any:
    """The backend's settings, with what the command line changes where nobody has set it.

    Apart from the pages it has a port of its own, where the pages look for it. A terminal is told of troubles only.
    """
    from backend.settings import Settings

    settings = Settings(**given)
    chosen: dict[str, Any] = {"port": 8051} if side == Side.backend else {}
    chosen |= {"log_level": "warning"} if said.is_terminal else {}
    return Settings(**(chosen | {name: getattr(settings, name) for name in settings.model_fields_set}))


@models.callback()
def listed(context: typer.Context) -> None:
    """List the models when nothing else is asked."""
    if context.invoked_subcommand is None:
        list_models()


@models.command("list", epilog="Example: lmscope models list --json")
def list_models(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the models that can be named, and which of them are here."""
    from lmscope import shelving

    with words():
        cards = shelving.sources().listing()
        if as_json:
            typer.echo(json.dumps([card.model_dump(mode="json") for card in cards], ensure_ascii=False))
        else:
            shown.print(shelving.table(cards, shown.width))


@models.command(epilog="Example: lmscope models fetch all-minilm-l6-v2 glassllm-en")
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names of the list, or hub ids.", metavar="NAME…")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
) -> None:
    """Fetch models, verify them, convert them once."""
    from lmscope import serving, shelving

    with words(), serving.Bars(said) as bars:
        for name in names:
            provided = shelving.sources().fetch(
                name, revision, lambda what, done, total, unit: bars.step(what, what, done, total, unit)
            )
            said.print(f"{provided.name} is in {provided.folder}", highlight=False, markup=False, soft_wrap=True)


@models.command(epilog="Example: lmscope models remove glassllm-pt")
def remove(name: Annotated[str, typer.Argument(help="A fetched model.", metavar="NAME")]) -> None:
    """Delete a fetched model from the cache; your own folders are never touched."""
    from lmscope import shelving

    with words():
        freed = shelving.sources().remove(name)
        said.print(f"{name}: {freed / 1e6:,.0f} MB given back." if freed else f"{name} was not in the cache.")


@models.command(epilog="Example: lmscope models show smollm2-135m-instruct")
def show(
    name: Annotated[str, typer.Argument(help="A name, a hub id or a folder.", metavar="NAME")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Open a model and show what it is, what was checked, and what it can show (`Can`)."""
    from lmscope import serving, shelving

    with words():
        with serving.Bars(said) as bars:
            card = shelving.opened(
                name, revision, lambda what, done, total, unit: bars.step(what, what, done, total, unit)
            )
        if as_json:
            typer.echo(card.model_dump_json())
        else:
            for part in shelving.described(card):
                shown.print(part)


@steers.callback()
def steers_listed(context: typer.Context) -> None:
    """List the steers when nothing else is asked."""
    if context.invoked_subcommand is None:
        list_steers()


@steers.command("list", epilog="Example: lmscope steers list --json")
def list_steers(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the steers of this machine: those that come with LMScope, and those that were made or sent."""
    from lmscope import steering

    with words():
        cards = steering.shelf().cards()
        if as_json:
            typer.echo(json.dumps([card.model_dump(mode="json") for card in cards], ensure_ascii=False))
        else:
            shown.print(steering.table(cards))


@steers.command("show", epilog="Example: lmscope steers show sentiment")
def show_steer(
    name: Annotated[str, typer.Argument(help="A name, or an id or its first 12 digits.", metavar="NAME")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is known of a steer: poles, model, data, recipe, held-out evidence, range."""
    from lmscope import steering

    with words():
        card = steering.named(name, steering.shelf().cards())
        if as_json:
            typer.echo(card.model_dump_json())
        else:
            for part in steering.described(card):
                shown.print(part)


@steers.command("make", epilog="Example: lmscope steers make sentiment")
def make_steer(
    name: Annotated[str, typer.Argument(help="A steer that comes with LMScope: sentiment, register.", metavar="NAME")],
) -> None:
    """Make a steer of LMScope again: fetch its texts, verify them, train, measure, and compare with the one here.

    It takes some minutes on two cores.
    """
    from lmscope import serving, steering

    with words():
        chosen = steering.recipe(name)
        shelf = steering.shelf()
        shipped = next((card for card in shelf.cards() if card.ours and card.name == name), None)
        with serving.Bars(said) as bars:
            made = steering.make(chosen, lambda what, done, total, unit: bars.step(what, what, done, total, unit))
        assert made.card is not None
        shown.print(steering.curve(made))
        for part in steering.described(made.card):
            shown.print(part)
        said.print(steering.compared(made.card, shipped, shelf), highlight=False, markup=False, soft_wrap=True)


@steers.command("remove", epilog="Example: lmscope steers remove my-steer")
def remove_steer(
    name: Annotated[str, typer.Argument(help="A name, or an id or its first 12 digits.", metavar="NAME")],
) -> None:
    """Delete a steer from this machine; those that come with LMScope stay."""
    from lmscope import steering

    with words():
        shelf = steering.shelf()
        mine = [card for card in shelf.cards() if not card.ours]
        card = steering.named(name, mine if any(card.name == name for card in mine) else shelf.cards())
        shelf.remove(card.id)
        said.print(f"{card.name} ({card.id[:12]}) is deleted.", highlight=False, markup=False)


@app.command(
    epilog="Examples: lmscope link --model smollm2-135m-instruct --text 'Hello' --off 5.3 · lmscope link --open LINK"
)
def link(
    model: Annotated[str | None, typer.Option(help="The model; default: the first of LMSCOPE_MODELS.")] = None,
    text: Annotated[str | None, typer.Option(help="The text.")] = None,
    pair: Annotated[tuple[str, str] | None, typer.Option(help="Two texts, where the model has segments.")] = None,
    off: Annotated[list[str] | None, typer.Option(help="Switch a head off: 5.3; may be repeated.")] = None,
    scale: Annotated[list[str] | None, typer.Option(help="Scale a head: 5.3=0.5; may be repeated.")] = None,
    to: Annotated[list[str] | None, typer.Option("--set", help="Set a head to a constant: 5.3=0.1.")] = None,
    compare: Annotated[bool, typer.Option(help="Also show the unedited model and the difference.")] = False,
    head: Annotated[str | None, typer.Option(help="The open head: 5.3.")] = None,
    instrument: Annotated[str, typer.Option(help="The page: attention or heads.")] = "attention",
    base: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:8050",
    view: Annotated[Path | None, typer.Option(help="A view as JSON from a file (- is standard input).")] = None,
    open_link: Annotated[str | None, typer.Option("--open", help="Print the view inside a link as JSON.")] = None,
) -> None:
    """Make a link that shows a view, or print the view inside a link."""
    from backend.schema import View
    from lmscope import linking

    with words():
        if open_link is not None:
            typer.echo(json.dumps(View.from_link(open_link).model_dump(mode="json"), ensure_ascii=False, indent=1))
            return
        if view is not None:
            source = sys.stdin.read() if str(view) == "-" else view.read_text(encoding="utf-8")
            made = View.model_validate_json(source)
        else:
            made = linking.view_of(
                model=model, text=text, pair=pair, off=off or [], scale=scale or [], to=to or [], compare=compare,
                head=head,
            )  # fmt: skip
        typer.echo(made.link(instrument, base))


@app.command(epilog="Example: lmscope bench attention --quick --peer")
def bench(
    subject: Annotated[str | None, typer.Argument(help="What to measure; without it the subjects are listed.")] = None,
    quick: Annotated[bool, typer.Option(help="End within 50 seconds on two cores.")] = False,
    peer: Annotated[
        bool, typer.Option(help="Measure the rivals in the same run; the first time they are installed.")
    ] = False,
    full: Annotated[bool, typer.Option(help="Larger sizes too, where a subject has them (weights).")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda, where a subject runs on both (weights).")] = "cpu",
) -> None:
    """Measure, and end with one line of JSON."""
    from lmscope import measuring

    with words():
        found = measuring.subjects()
        if subject not in found:
            what = f"There is no subject {subject!r}" if subject else "Choose a subject"
            raise typer.BadParameter(f"{what}; there are: {', '.join(found) or 'none'}")
        more: dict[str, Any] = {"full": full} if full else {}
        more |= {"device": device} if device != "cpu" else {}
        if unknown := measuring.not_taken(subject, more):
            raise typer.BadParameter(f"{subject} takes no --{', --'.join(unknown)}")
        figures = measuring.run(subject, quick=quick, peer=peer, **more)
        shown.print(measuring.table(subject, figures))
        typer.echo(measuring.line(figures))


if __name__ == "__main__":
    app()
