"""GET /metrics: what a Prometheus server reads."""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from backend.routes.house import House, InHouse

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

    def text(self, house: House) -> bytes:
        """Everything in Prometheus' text form."""
        collector = _HouseCollector(house)
        self.registry.register(collector)
        try:
            return generate_latest(self.registry)
        finally:
            self.registry.unregister(collector)


class _HouseCollector:
    """What the desk and the shelf look like now."""

    def __init__(self, house: House) -> None:
        self._house = house

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        desk, models = self._house.desk, self._house.shelf.cards()
        waiting = GaugeMetricFamily("lmscope_questions", "questions waiting or running", labels=["model"])
        for model, number in desk.asking().items():
            waiting.add_metric([model], number)
        yield waiting
        yield GaugeMetricFamily("lmscope_answers_kept_bytes", "bytes of answers kept", desk.answers.used_bytes)
        yield GaugeMetricFamily("lmscope_models_bytes", "bytes of loaded models", models.used_bytes)


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, house: InHouse) -> Response:
    """Measurements in Prometheus' text form."""
    meters: Meters = request.app.state.meters
    return Response(meters.text(house), media_type=CONTENT_TYPE_LATEST)
