"""Failures of work on a thread, as errors that can be handed to every caller that waits."""

import logging
import traceback

from backend import errors

log = logging.getLogger("lmscope.failures")


def again(error: errors.LmscopeError) -> errors.LmscopeError:
    """The same error, new: without the traceback and causes that keep a thread's tensors alive."""
    return type(error)(error.what, error.why, error.instead, needed=error.needed, available=error.available)


def as_refusal(error: BaseException, where: str) -> errors.LmscopeError:
    """An error of the tree as it is; anything else is our fault, and logged as such."""
    if isinstance(error, errors.LmscopeError):
        return again(error)
    log_broken(error, where)
    return errors.Broken(
        "LMScope made a mistake",
        f"{where} ended with {type(error).__name__}",
        "Tell whoever runs this server; its log has the place",
    )


def log_broken(error: BaseException, where: str) -> None:
    """Log the place of a failure. Its message stays out: it may quote somebody's text."""
    frames = traceback.format_tb(error.__traceback__)
    log.error("broken", extra={"where": where, "error": type(error).__name__, "trace": "".join(frames)})
