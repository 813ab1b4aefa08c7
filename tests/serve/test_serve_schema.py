"""The service against its own OpenAPI schema, with requests that schemathesis makes up."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks
from uploading import TOKEN, WRITE

import made_photographs as made
from subspan.serve.app import create_app
from subspan.serve.settings import ServeSettings

HEADERS = {"Host": "127.0.0.1", **WRITE}
CHANGES = ("undo", "redo", "rename", "merge", "remove")
POST = [f"POST /{name}" for name in ("predict", "classes", "review", *CHANGES)]
GET = [f"GET /{name}" for name in ("about", "classes", "sessions", "progress", "map", "healthz", "metrics")]


@pytest.fixture
def operations(colours):
    app = create_app(colours, ServeSettings(rate=1e6, burst=10**6), TOKEN)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HEADERS)
    return {operation.ok().label: operation.ok() for operation in schema.get_all_operations()}


def ask(operation, mode: GenerationMode, change=lambda body: body) -> Counter[int]:
    """Send requests that fit the schema, or do not; how often which status came back."""
    answers: Counter[int] = Counter()

    @settings(max_examples=15, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case):
        case.body = change(case.body)
        answer = case.call(headers=HEADERS)
        answers[answer.status_code] += 1
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    send()
    return answers


def test_no_operation_is_left_out(operations):
    assert set(operations) == {*POST, *GET}


@pytest.mark.slow
@pytest.mark.parametrize("label", GET)
def test_questions_are_answered_as_the_schema_promises(operations, label: str):
    assert set(ask(operations[label], GenerationMode.POSITIVE)) == {200}


@pytest.mark.slow
@pytest.mark.parametrize("label", POST)
def test_requests_that_break_the_schema_are_refused_as_it_promises(operations, label: str):
    assert min(ask(operations[label], GenerationMode.NEGATIVE)) >= 400


@pytest.mark.slow
@pytest.mark.parametrize("label", POST)
def test_requests_that_fit_the_schema_are_answered_or_refused_as_it_promises(operations, colours, label: str):
    photograph = made.encoded(made.photographs("pink", 1)[0])
    for name in ("a", "b", "c"):
        colours.add(name, [photograph])

    def filled_in(body):
        """With real photographs and the version of now, where one is asked for."""
        real = {
            "images": [photograph],
            "names": ["a"],
            "version": colours.version,
            "name": "a",
            "other": "b",
            "to": None,
        }
        return {**body, **{key: real[key] for key in body if key in real}} if isinstance(body, dict) else body

    answers = ask(operations[label], GenerationMode.POSITIVE)
    answers += ask(operations[label], GenerationMode.POSITIVE, filled_in)
    assert min(answers) < 300 or (label == "POST /redo" and set(answers) == {409})  # nothing to bring back
    assert max(answers) < 500
