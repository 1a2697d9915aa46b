"""The shelf of models."""

from urllib.parse import quote

from backend.schema import Job, LoadAsk, Models
from lmscope.asking import asked
from lmscope.client.connection import Connection
from lmscope.client.reading import typed


class ModelsClient(Connection):
    async def models(self) -> Models:
        """The shelf."""
        return typed(Models, await self._send("GET", "models"))

    async def load(self, model: str, revision: str | None = None) -> Job:
        """Start to load a model, or find the job that already does."""
        return typed(Job, await self._send("POST", "models", asked(LoadAsk, model=model, revision=revision)))

    async def unload(self, model: str, revision: str | None = None) -> None:
        """Take a model off the shelf and give its memory back."""
        query = {} if revision is None else {"revision": revision}
        await self._send("DELETE", f"models/{quote(model, safe='')}", query=query)
