"""The counters, gauges and histograms that `/metrics` shows Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from goalreel.serving.batcher import Batcher

SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counters of one application, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "goalreel_requests", "HTTP requests answered", ["route", "code"], registry=self._registry
        )
        self._latency = Histogram(
            "goalreel_request_seconds", "Time to answer", ["route"], buckets=SECONDS, registry=self._registry
        )
        self._sizes = Histogram(
            "goalreel_batch_size", "Requests a model call", ["model"], buckets=SIZES, registry=self._registry
        )
        self._calls = Histogram(
            "goalreel_model_seconds",
            "Time in model calls",
            ["model"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._waiting = Gauge(
            "goalreel_queue_length", "Requests waiting for a model", ["model"], registry=self._registry
        )
        self._alive = Gauge(
            "goalreel_model_alive", "1 while the model's worker lives", ["model"], registry=self._registry
        )
        self._boards = Gauge("goalreel_storyboards", "Storyboards held", ["status"], registry=self._registry)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """Count one HTTP request; `route` is the route's template, never what the client typed."""
        self._requests.labels(route, code).inc()
        self._latency.labels(route).observe(seconds)

    def called(self, model: str, size: int, seconds: float) -> None:
        """Count one model call."""
        self._sizes.labels(model).observe(size)
        self._calls.labels(model).observe(seconds)

    def render(self, batchers: dict[str, Batcher], boards: dict[str, int]) -> bytes:
        """The exposition text, with the gauges brought up to date."""
        for model, batcher in batchers.items():
            self._waiting.labels(model).set(batcher.waiting)
            self._alive.labels(model).set(batcher.alive)
        for status, count in boards.items():
            self._boards.labels(status).set(count)
        return generate_latest(self._registry)
