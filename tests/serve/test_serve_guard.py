"""Who gets in, how often, and what every answer carries."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.routing import APIRoute
from uploading import TOKEN, WRITE, add, pictures

from subspan.serve.access import ASKING, PAGE, Access, Token, find_tokens
from subspan.serve.app import create_app
from subspan.serve.guard import Guard
from subspan.serve.service import Service
from subspan.serve.settings import ServeSettings

READ = (
    "/about",
    "/classes",
    "/sessions",
    "/progress",
    "/map",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/nowhere",
)
NEEDS_TOKEN = {"error": "this needs the token that the service was started with"}
WRONG = (
    "",
    "Bearer",
    "Bearer ",
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    TOKEN,
    f"Basic {TOKEN}",
    "Bearer \xe9\xff",
)


@pytest.mark.parametrize("header", WRONG)
def test_on_loopback_reading_is_free_and_writing_needs_the_token(client, colours, header: str):
    headers = {"Authorization": header.encode("latin-1")} if header else {}
    for path in (*READ[:-2], *PAGE):
        assert client.get(path, headers=headers).status_code == 200
    assert client.post("/predict", files=pictures("red", 1), headers=headers).status_code == 200
    for path in ("/classes", "/undo", "/anything/else"):
        refused = client.post(path, data={"name": "pink"}, files=pictures("pink", 1), headers=headers)
        assert (refused.status_code, refused.json()) == (401, NEEDS_TOKEN)
        assert refused.headers["www-authenticate"] == "Bearer"
    assert len(colours.classes()) == 4


@pytest.mark.parametrize("settings", [{"host": "0.0.0.0"}, {"host": "192.0.2.7"}, {"behind_proxy": True}])
def test_elsewhere_everything_but_the_files_of_the_page_needs_the_token(serve, settings):
    client = serve(**settings)
    for path in READ:
        refused = client.get(path, follow_redirects=False)
        assert (refused.status_code, refused.json()) == (401, NEEDS_TOKEN)
        assert client.get(path, headers=WRITE, follow_redirects=False).status_code in (200, 307, 404)
    refused = client.post("/predict", files=pictures("red", 1))
    assert refused.status_code == 401
    assert client.post("/predict", files=pictures("red", 1), headers=WRITE).status_code == 200
    for path in PAGE:
        assert client.get(path).status_code == 200
        assert client.post(path).status_code == 401
    assert add(client, "pink").status_code == 201


def test_no_route_was_forgotten(colours):
    """Every route of the application, also ones to come: open without a token only where it is known to be harmless."""
    app = create_app(colours, ServeSettings(host="0.0.0.0"), TOKEN)
    access = Access(ServeSettings(host="0.0.0.0"), [Token(TOKEN)])
    routes = {(method, route.path) for route in app.routes if isinstance(route, APIRoute) for method in route.methods}
    assert {route for route in routes if not access.needs_token(*route)} == {("GET", path) for path in PAGE}
    local = Access(ServeSettings(), [Token(TOKEN)])
    assert {path for method, path in routes if method == "POST" and not local.needs_token(method, path)} == ASKING


def test_a_page_of_another_site_gets_nothing(client):
    for origin in (
        "https://evil.example",
        "null",
        "http://[",
        "http://[::1",
        "//127.0.0.1:8000",
        "",
        "http://127.0.0.1:9000",
        "http://127.0.0.1:8000.evil.example",
    ):
        refused = client.get("/classes", headers={"Origin": origin})
        assert refused.status_code == 403
        assert add_from(client, origin).status_code == 403
        assert client.get("/page.css", headers={"Origin": origin}).json()["error"].startswith("requests from pages of")
    assert client.get("/classes", headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200
    answer = client.options(
        "/classes", headers={"Origin": "http://127.0.0.1:8000", "Access-Control-Request-Method": "POST"}
    )
    assert not any(name.startswith("access-control") for name in answer.headers)


def add_from(client, origin: str):
    return client.post("/classes", data={"name": "x"}, files=pictures("pink", 1), headers={**WRITE, "Origin": origin})


def test_a_foreign_name_that_points_to_loopback_gets_nothing(client, serve):
    for host in ("evil.example", "evil.example:8000", "", "127.0.0.1.evil.example", "localhost.evil.example"):
        assert client.get("/classes", headers={"Host": host}).status_code == 421
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert client.get("/classes", headers={"Host": host}).status_code == 200
    assert serve(host="0.0.0.0").get("/classes", headers={"Host": "any.example", **WRITE}).status_code == 200


def test_every_answer_carries_the_security_headers(client):
    answers = [
        client.get("/"),
        client.get("/classes"),
        client.get("/nowhere"),
        client.post("/undo"),
        client.put("/map"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 401, 401]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


def test_a_client_that_comes_too_often_must_wait(serve):
    client = serve(rate=0.01, burst=5)
    answers = [client.get("/healthz") for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert answers[-1].json() == {"error": "too many requests; come back in 100 s"}
    assert answers[-1].headers["retry-after"] == "100"


def test_guessing_the_token_is_slow_too(serve):
    client = serve(rate=0.01, burst=5)
    guesses = [client.post("/undo", headers={"Authorization": f"Bearer {i:020d}"}).status_code for i in range(7)]
    assert guesses == [401] * 5 + [429] * 2


@pytest.mark.parametrize(
    ("settings", "chunks", "status"),
    [
        ({"upload_seconds": 0.05}, [b"x", None], 408),  # the rest never comes
        ({"max_body_bytes": 10}, [b"x" * 6, b"x" * 6], 413),
        ({"max_body_bytes": 10}, [b"x" * 11], 413),
    ],
)
def test_a_body_that_comes_too_slowly_or_is_too_long_is_not_waited_for(colours, settings, chunks, status):
    service = Service(colours, ServeSettings(**settings))
    guard = Guard(_reader, service.settings, Access(service.settings, [Token(TOKEN)]), service.metrics)
    answers, coming = [], iter(chunks)

    async def receive():
        chunk = next(coming)
        if chunk is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message):
        answers.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers, "client": ("127.0.0.1", 1)}
    asyncio.run(guard(scope, receive, send))
    assert answers[0]["status"] == status
    assert (guard.requests, guard.bytes) == (0, 0)


async def _reader(scope, receive, send):
    while (await receive())["more_body"]:
        pass


def test_a_crowd_is_told_to_come_back(serve, colours, monkeypatch):
    client = serve(max_requests=2, workers=2)
    came, go = threading.Semaphore(0), threading.Event()
    features = colours.backbone.features

    def hold(images, **options):
        came.release()
        assert go.wait(20)
        return features(images, **options)

    monkeypatch.setattr(colours.backbone, "features", hold)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(client.post, "/predict", files=pictures("red", 1)) for _ in range(2)]
        assert came.acquire(timeout=60)
        assert came.acquire(timeout=60)
        refused = client.get("/classes")
        go.set()
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json() == {"error": "2 requests are at work already; come back in 1 s"}
    assert [answer.result().status_code for answer in answers] == [200, 200]
    assert client.get("/classes").status_code == 200


def test_unknown_addresses_and_verbs_are_one_sentence(client):
    assert client.get("/nowhere").json() == {"error": "there is nothing at this address"}
    assert client.get("/predict").json() == {"error": "GET is not possible here"}
    assert client.get("/..%2f..%2fetc/passwd").status_code == 404
    assert client.get("/page.html").status_code == 404
    answer = client.post("/predict", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 415
    answer = client.post("/undo", content=b"{", headers={"content-type": "application/json", **WRITE})
    assert answer.status_code == 422
    assert "json" in answer.json()["error"].lower()
    answer = client.post("/predict", content=b"x", headers={"content-type": "multipart/form-data"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


def test_where_the_tokens_come_from(tmp_path):
    file = tmp_path / "token"
    file.write_text("from-the-file-0123456\n")
    environment = {"SUBSPAN_TOKEN": "from-the-environment"}
    settings = ServeSettings(token_file=str(file))
    assert find_tokens(settings, environment) == ((Token("from-the-file-0123456"),), f"'{file}'")
    assert find_tokens(ServeSettings(), environment) == ((Token("from-the-environment"),), "SUBSPAN_TOKEN")
    made, other = (find_tokens(ServeSettings(), {}) for _ in range(2))
    assert made[1] is None
    assert made != other
    assert len(made[0][0].secret) >= 32
    for bad in ("short", "", "with a space in between", "é" * 20, "anna write 0123456789abcdef", f"{TOKEN}\n{TOKEN}"):
        with pytest.raises(ValueError, match=r"^SUBSPAN_TOKEN: .* token"):
            find_tokens(ServeSettings(), {"SUBSPAN_TOKEN": bad})
    with pytest.raises(OSError, match="nowhere"):
        find_tokens(ServeSettings(token_file=str(tmp_path / "nowhere")), {})


def test_a_token_to_read_does_not_teach(serve, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("# who may what\nanna teach annas-secret-0123\n\nscreen read screens-secret-0123\n")
    tokens = find_tokens(ServeSettings(token_file=str(file)))[0]
    assert tokens == (Token("annas-secret-0123", "anna"), Token("screens-secret-0123", "screen", teaches=False))
    client = serve(tokens=tokens, host="0.0.0.0")
    screen, anna = ({"Authorization": f"Bearer {one}-secret-0123"} for one in ("screens", "annas"))
    asked = {"files": pictures("red", 1)}
    assert [client.get("/about", headers=one).json()["read_only"] for one in (screen, anna)] == [True, False]
    assert client.post("/predict", **asked, headers=screen).status_code == 200
    for path in ("/classes", "/undo", "/anything/else"):
        refused = client.post(path, data={"name": "pink"}, files=pictures("pink", 2), headers=screen)
        assert (refused.status_code, refused.json()["error"][:33]) == (403, "this token answers questions only")
    taught = client.post("/classes", data={"name": "pink"}, files=pictures("pink", 2), headers=anna)
    assert taught.status_code == 201
    assert client.post("/predict", **asked).status_code == 401
