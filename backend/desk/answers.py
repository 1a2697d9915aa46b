"""Answers kept by digest in bounded bytes, as the JSON that was sent, the least recently used leaving first."""

from collections import OrderedDict
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, TypeAdapter

from backend.schema import Conditions


def written(answer: BaseModel | None) -> bytes:
    """The JSON that is sent and kept, without the copy that a string in between would be: answers have megabytes."""
    return b"" if answer is None else TypeAdapter(type(answer)).dump_json(answer)


def question_key(instrument: str, ask: BaseModel) -> str:
    """Digest of what is asked. A view's focus, sampling and idle edits change no answer and are left out."""
    view = getattr(ask, "view", None)
    if view is not None:
        ask = ask.model_copy(update={"view": view.question()})
    return sha256(f"{instrument}\n{ask.model_dump_json()}".encode()).hexdigest()


def writing_key(instrument: str, ask: Any) -> str:
    """The same of a continuation, which sampling changes too."""
    view = ask.view.question().model_copy(update={"sampling": ask.view.sampling})
    return sha256(f"{instrument}\n{ask.model_copy(update={'view': view}).model_dump_json()}".encode()).hexdigest()


def answer_digest(key: str, conditions: Conditions) -> str:
    """Digest of a question and what it is answered under."""
    return sha256(f"{key}\n{conditions.model_dump_json()}".encode()).hexdigest()


class Answers:
    """A bounded memory of answers. Errors are never kept."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def get(self, digest: str) -> bytes | None:
        """The answer, if it is still kept."""
        body = self._kept.get(digest)
        if body is not None:
            self._kept.move_to_end(digest)
        return body

    def put(self, digest: str, body: bytes) -> None:
        """Keep an answer; one larger than the whole budget is not kept."""
        self._drop(digest)
        if len(body) > self.budget_bytes:
            return
        self._kept[digest] = body
        self.used_bytes += len(body)
        while self.used_bytes > self.budget_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, digest: str) -> None:
        self.used_bytes -= len(self._kept.pop(digest, b""))
