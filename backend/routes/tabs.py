"""A browser tab: what it waits for, Stop, and that it has left."""

from collections.abc import AsyncIterator
from uuid import UUID

from fastapi import APIRouter, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backend.routes.house import BASE, InHouse

router = APIRouter(prefix=BASE, tags=["tabs"])


@router.get("/tabs/{tab}/events", response_class=EventSourceResponse)
async def events(tab: UUID, house: InHouse) -> AsyncIterator[ServerSentEvent]:
    """An event `tab` with a TabEvent now and at every change. Closing the last stream of a tab stops its questions."""
    async for event in house.desk.tabs.events(str(tab)):
        yield ServerSentEvent(event="tab", raw_data=event.model_dump_json())


@router.delete("/tabs/{tab}", status_code=204)
async def stop(tab: UUID, house: InHouse) -> Response:
    """Stop everything that a tab asks."""
    house.desk.stop(str(tab))
    return Response(status_code=204)
