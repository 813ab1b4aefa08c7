"""Counters for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest


class Metrics:
    """The counters of one service; process memory and processor time come with them on Linux."""

    def __init__(self, classes: Callable[[], float], sessions: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "subspan_requests", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "subspan_request_seconds",
            "Seconds from a request to its answer",
            ["route"],
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.images = Counter("subspan_images", "Images classified", registry=self.registry)
        self.store_errors = Counter("subspan_store_errors", "Looks at the store that failed", registry=self.registry)
        Gauge("subspan_classes", "Classes known", registry=self.registry).set_function(classes)
        Gauge("subspan_sessions", "Sessions, the base session included", registry=self.registry).set_function(sessions)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
