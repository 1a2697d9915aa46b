"""Studies without a desk: models that answer at once, and a report that keeps what was published."""

from collections.abc import Callable
from typing import Any

from backend.models.loaded import Loaded
from backend.schema import Conditions, Limits


class Direct:
    """Asks one open model on the spot."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    @property
    def conditions(self) -> Conditions:
        return self.loaded.conditions

    async def ask(self, answer: Callable[..., Any], cost: Callable[[Any], int]) -> Any:
        assert cost(self.loaded) >= 0
        return answer(self.loaded, lambda: None)

    async def patiently(
        self, answer: Callable[..., Any], cost: Callable[[Any], int], waiting: Callable[[], None] = lambda: None
    ) -> Any:
        return await self.ask(answer, cost)


class Shelves:
    """Stands for a `Library`: the models by name, and whatever shelves a test gives."""

    limits = Limits()

    def __init__(self, *models: Loaded, **shelves: Any) -> None:
        self._models = {loaded.name: loaded for loaded in models}
        self.__dict__.update(shelves)

    def open(self, name: str, revision: str | None, kind: str) -> Direct:
        return Direct(self._models[name])


class Reported:
    """What a study told while it ran."""

    def __init__(self) -> None:
        self.partials: list[dict[str, Any]] = []

    def __call__(self, what: str, done: float, total: float | None, unit: str) -> None:
        assert what

    def publish(self, partial: dict[str, Any]) -> None:
        self.partials.append(partial)

    def check(self) -> None: ...
