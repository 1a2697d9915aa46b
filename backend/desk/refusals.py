"""The desk's refusals in words, with their numbers."""

from backend import errors


def busy(model: str, queue: int) -> errors.Busy:
    """The model's queue is full."""
    return errors.Busy(
        f"Too many questions wait for {model}",
        f"{queue} are waiting, and no more may",
        "Try again in a moment",
        needed=queue + 1,
        available=queue,
    )


def waited(ahead: int, wait_s: float) -> errors.Waited:
    """The wait ceiling was reached in the queue."""
    return errors.Waited(
        "This question waited too long",
        f"after {wait_s:g} s there were still {ahead + 1} ahead of it, the one that runs included",
        "Try again in a moment, or ask about a model that fewer people use",
        needed=ahead + 1,
        available=0,
    )


def slow_reader(wait_s: float) -> errors.Waited:
    """The reader of a stream held the model's thread up for too long."""
    return errors.Waited(
        "This answer was read too slowly",
        f"the model waited more than {wait_s:g} s for its reader, and other questions wait for the model",
        "Ask for less at a time, or read from nearer to the server",
    )


def loading(model: str, job: str | None, wait_s: float) -> errors.Loading:
    """The wait ceiling was reached while the model was being loaded."""
    watch = f"Watch the job {job}, and ask again when it is done" if job else "Ask again in a moment"
    return errors.Loading(f"{model} is still loading", f"it is not ready after {wait_s:g} s; loading goes on", watch)


def replaced() -> errors.Replaced:
    """A newer question of the same tab and instrument took its place."""
    return errors.Replaced(
        "A newer question took this one's place", "the same tab asked again", "Wait for the newer one"
    )


def stopped() -> errors.Cancelled:
    """Stop, or the client left."""
    return errors.Cancelled("The question was stopped", "this tab asked for it, or was closed", "Ask again")


def closing() -> errors.NotNow:
    """The server goes down."""
    return errors.NotNow("The server is shutting down", "somebody stopped it", "Ask again when it is back")


def apart(names: list[str], needed: int, budget: int) -> errors.OverBudget:
    """Models that cannot be open at once."""
    return errors.OverBudget(
        f"{' and '.join(names)} cannot be open at once",
        f"together they need {needed / 1e6:,.0f} MB, and all models together may have {budget / 1e6:,.0f} MB: this "
        "study asks one and the other in turn, and would load each anew every time",
        "Choose smaller models, set LMSCOPE_DTYPE=bfloat16, or raise LMSCOPE_MEMORY_BYTES.",
        needed=needed,
        available=budget,
    )
