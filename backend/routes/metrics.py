"""GET /metrics: what a Prometheus server reads."""

import asyncio
from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from backend.desk.desk import Desk
from backend.routes.house import InHouse
from backend.schema import Models

router = APIRouter()


class Meters:
    """One application's measurements, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        labels = ("route", "method", "status")
        self._seconds = Histogram("lmscope_request_seconds", "seconds of a request", labels, registry=self.registry)

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """One request has ended."""
        self._seconds.labels(route, method, str(status)).observe(seconds)

    def text(self, desk: Desk, models: Models) -> bytes:
        """Everything in Prometheus' text form. Belongs to the event loop, as the desk does."""
        collector = _HouseCollector(desk, models)
        self.registry.register(collector)
        try:
            return generate_latest(self.registry)
        finally:
            self.registry.unregister(collector)


class _HouseCollector:
    """What the desk and the shelf look like now."""

    def __init__(self, desk: Desk, models: Models) -> None:
        self._desk, self._models = desk, models

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("lmscope_questions", "questions waiting or running", labels=["model"])
        for model, number in self._desk.asking().items():
            waiting.add_metric([model], number)
        yield waiting
        yield GaugeMetricFamily("lmscope_answers_kept_bytes", "bytes of answers kept", self._desk.answers.used_bytes)
        yield GaugeMetricFamily("lmscope_models_bytes", "bytes of loaded models", self._models.used_bytes)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request, house: InHouse) -> Response:
    """Measurements in Prometheus' text form."""
    meters: Meters = request.app.state.meters
    models = await asyncio.to_thread(house.shelf.cards)
    return Response(meters.text(house.desk, models), media_type=CONTENT_TYPE_LATEST)
