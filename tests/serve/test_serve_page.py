"""The page in a real Chromium, as a person uses it."""

import os
import shutil
import threading
from pathlib import Path

import pytest
import uvicorn
from PIL import Image
from sklearn.datasets import load_sample_images
from uploading import BASE, TOKEN

import made_photographs as made
from subspan.serve.app import create_app
from subspan.serve.settings import ServeSettings

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; `make test-slow` installs Debian's"),
]


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests; its own sandbox cannot work for root, as in containers."""
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)


@pytest.fixture
def address(colours):
    """Start the service with these settings on a free port of this machine."""
    servers = []

    def start(**settings) -> str:
        app = create_app(colours, ServeSettings(**settings), TOKEN)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            assert thread.is_alive()
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def visit(browser, address):
    """Open the page; at the end, nothing came from elsewhere, and nothing broke the page or its policy."""
    contexts, requests, complaints = [], [], []

    def open_page(ready: str = "#sessions li", fragment: str = f"#token={TOKEN}", settings: dict | None = None, **view):
        where = address(**(settings or {}))
        context = browser.new_context(**view)
        contexts.append((context, where))
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(where + fragment)
        page.locator(ready).first.wait_for()
        return page

    yield open_page
    for context, _ in contexts:
        context.close()
    assert all(url.startswith((*(where for _, where in contexts), "blob:http://127.0.0.1")) for url in requests)
    assert [one for one in complaints if "Failed to load resource" not in one] == []  # refusals that a test provokes


@pytest.fixture(scope="module")
def dahlias(tmp_path_factory) -> list[Path]:
    """Six pieces of a photograph of a dahlia that comes with scikit-learn."""
    folder = tmp_path_factory.mktemp("dahlias")
    photograph = Image.fromarray(load_sample_images().images[1])
    files = []
    for i, (left, top, side) in enumerate(
        [(120, 30, 330), (60, 60, 340), (160, 10, 360), (200, 70, 300), (90, 20, 390)]
    ):
        files.append(folder / f"dahlia {i}.jpg")
        photograph.crop((left, top, left + side, top + side)).save(files[-1], quality=90)
    return files


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken.png"
    file.write_text("<html>this is no image</html>")
    return file


def text(page, selector: str) -> str:
    return page.locator(selector).inner_text()


def wait_for_text(page, selector: str, wanted: str) -> None:
    sync_api.expect(page.locator(selector)).to_contain_text(wanted, timeout=60_000)


def fill_in(page, name: str, files: list[Path]) -> None:
    page.get_by_label("What do the images show?").fill(name)
    page.set_input_files("#add-files", files)


def test_add_classify_and_undo(visit, colours, dahlias):
    page = visit()
    assert text(page, "h1") == "colours"
    assert text(page, "#summary") == "4 classes"
    assert page.url.endswith("/")  # the token has left the address
    page.set_input_files("#classify-files", dahlias[4])
    page.locator("#answers .bars").wait_for()
    before = text(page, "#answers h3")
    assert before in BASE
    shares = [float(number.removesuffix(" %")) for number in page.locator("#answers .number").all_inner_texts()]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert shares == sorted(shares, reverse=True)
    widths = [bar.bounding_box()["width"] for bar in page.locator("#answers .track").all()]
    page.wait_for_timeout(400)  # the bars grow
    filled = [bar.bounding_box()["width"] for bar in page.locator("#answers .fill").all()]
    assert [100 * part / whole for part, whole in zip(filled, widths, strict=True)] == pytest.approx(shares, abs=1)

    fill_in(page, " dahlia ", dahlias[:4])
    assert text(page, "#add-status") == "4 images to learn from."
    assert page.locator("#examples img").count() == 4
    page.get_by_role("button", name="Remove dahlia 3.jpg").click()
    assert page.locator("#examples img").count() == 3
    page.get_by_role("button", name="Add", exact=True).click()
    wait_for_text(page, "#report-title", "Learned dahlia from 3 images")
    entry = colours.sessions()[-1]
    assert (entry.classes, entry.examples) == (("dahlia",), 3)
    assert page.locator("#report-check .number").all_inner_texts() == [
        f"{entry.check.before:.1f} %",
        f"{entry.check.after:.1f} %",
    ]
    wait_for_text(page, "#answers h3", "dahlia")  # asked again by itself
    sync_api.expect(page.locator("#add-progress")).to_be_hidden()
    assert text(page, "#add-status") == ""
    wait_for_text(page, "#summary", "5 classes, 1 of them added")
    near = [point.name for point in colours.weight_map().points if point.near]
    wait_for_text(page, "#map-text", "Nearest to dahlia among the base classes: ")
    assert all(name in text(page, "#map-text") for name in near)
    assert page.locator("#map-picture circle").count() == 5
    assert page.locator("#map-picture circle.newest").count() == 1
    assert page.locator("#map-picture circle.near").count() == len(near) == 3

    page.get_by_role("button", name="Undo: Added dahlia").click()
    wait_for_text(page, "#history-status", "Taken back: Added dahlia.")
    wait_for_text(page, "#answers h3", before)
    assert text(page, "#summary") == "4 classes"
    assert len(colours.classes()) == 4
    assert page.get_by_role("button", name="Undo").count() == 0


def test_the_progress_is_shown_and_questions_are_answered_meanwhile(visit, dahlias, held_session):
    came, go = held_session
    page = visit()
    fill_in(page, "dahlia", dahlias[:3])
    page.get_by_role("button", name="Add", exact=True).click()
    assert came.wait(20)
    wait_for_text(page, "#add-status", "Learning …")
    assert page.get_by_role("progressbar", name="Progress of adding").is_visible()
    assert page.get_by_role("button", name="Add", exact=True).is_disabled()
    page.set_input_files("#classify-files", dahlias[4])
    page.locator("#answers .bars").wait_for()
    assert text(page, "#answers h3") in BASE
    go.set()
    wait_for_text(page, "#report-title", "Learned dahlia from 3 images")
    wait_for_text(page, "#answers h3", "dahlia")


def test_a_bad_file_is_explained_and_nothing_is_learned(visit, colours, dahlias, broken):
    page = visit()
    page.set_input_files("#classify-files", [dahlias[0], broken])
    wait_for_text(page, "#classify-status", "1 image could not be classified")
    assert "Image number 1 is none of JPEG, PNG, WEBP, GIF, BMP." in text(page, "#answers")
    assert page.locator("#answers .bars").count() == 1  # the good one is answered
    fill_in(page, "dahlia", [dahlias[0], broken])
    page.get_by_role("button", name="Add", exact=True).click()
    wait_for_text(page, "#add-status", "Image number 2 is none of JPEG, PNG, WEBP, GIF, BMP.")
    assert page.locator("#examples img").count() == 2  # still there, to be mended
    assert len(colours.sessions()) == 1


def test_without_the_token_nothing_is_learned_and_it_is_asked_for(visit, colours, dahlias):
    page = visit(fragment="")
    fill_in(page, "dahlia", dahlias[:2])
    button = page.get_by_role("button", name="Add", exact=True)
    button.click()
    page.get_by_role("dialog").wait_for()
    wait_for_text(page, "#add-status", "This needs the token that the service was started with.")
    page.locator("#token").fill("not the token at all")
    page.get_by_role("button", name="Use it").click()
    button.click()
    wait_for_text(page, "#token-why", "This token was not accepted.")
    assert len(colours.sessions()) == 1
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    button.click()
    wait_for_text(page, "#report-title", "Learned dahlia from 2 images")
    assert page.evaluate("Object.values(localStorage).length + document.cookie.length") == 0
    assert page.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_where_everything_needs_the_token_the_page_asks_for_it_first(visit):
    page = visit("#token-dialog[open]", fragment="", settings={"behind_proxy": True})
    assert "answers nobody without its token" in text(page, "#token-why")
    assert page.evaluate("document.activeElement.id") == "token"
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    wait_for_text(page, "#summary", "4 classes")
    assert page.locator("#alert").is_hidden()


def send_files(page, kind: str, selector: str, name: str, data: bytes) -> None:
    """Let a file be dropped or pasted there."""
    page.evaluate(
        """([kind, selector, name, bytes]) => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
            const event = kind === "drop" ? new DragEvent(kind, {dataTransfer: files, bubbles: true, cancelable: true})
                : new ClipboardEvent(kind, {clipboardData: files, bubbles: true, cancelable: true});
            document.querySelector(selector).dispatchEvent(event);
        }""",
        [kind, selector, name, list(data)],
    )


def test_images_are_dropped_and_pasted_where_they_belong(visit):
    page = visit()
    image = made.encoded(made.photographs("green", 1)[0])
    send_files(page, "drop", '[data-zone="classify"]', "dropped.png", image)
    wait_for_text(page, "#answers", "dropped.png")
    send_files(page, "drop", '[data-zone="add"]', "dropped for adding.png", image)
    send_files(page, "drop", "header", "dropped beside.png", image)  # neither taken nor opened instead of the page
    page.locator("#name").focus()
    send_files(page, "paste", "#name", "pasted for adding.png", image)
    assert page.locator("#examples img").evaluate_all("all => all.map((one) => one.alt)") == [
        "dropped for adding.png",
        "pasted for adding.png",
    ]
    page.locator("#reject").focus()
    send_files(page, "paste", "body", "pasted.png", image)
    wait_for_text(page, "#answers", "pasted.png")
    assert page.locator("#answers li.card").count() == 2


def test_names_cannot_smuggle_markup_into_the_page(visit, colours, dahlias):
    name = "<img src=x onerror=alert(1)> & \"<script>\" 'wolf'"
    colours.add(name, made.photographs("pink", 3))
    page = visit()
    assert text(page, "#sessions strong >> nth=0") == f"Added {name}"
    assert page.locator("#sessions img").count() == 0
    assert name in text(page, "#map-text")


def test_what_is_missing_is_said_and_focused(visit):
    page = visit()
    page.locator("#name").focus()
    page.keyboard.press("Enter")
    assert text(page, "#add-status") == "Say first what the images show."
    assert page.evaluate("document.activeElement.id") == "name"
    page.keyboard.type("wolf")
    page.keyboard.press("Enter")
    assert text(page, "#add-status") == "Add at least one image first."
    assert page.evaluate("document.activeElement.id") == "add-files"


def test_a_read_only_page_and_the_description_for_programs(visit):
    page = visit("#operations section", fragment="#api", settings={"read_only": True})
    wait_for_text(page, "#add-status", "This service answers questions only.")  # another request than the operations
    assert page.get_by_role("button", name="Add", exact=True).is_disabled()
    described = page.locator("#operations h3").all_inner_texts()
    assert {"POST /predict", "POST /classes", "GET /classes", "POST /undo", "GET /metrics"} <= set(described)


CONTRAST = """() => {
    const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);  // WCAG 2
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const low = [];
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
        if (!own || !node.checkVisibility() || node.closest("svg")) continue;
        const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) low.push(`${node.id || node.tagName} ${node.textContent.slice(0, 30)}: ${contrast}`);
    }
    return low;
}"""
UNNAMED = """() => {
    const said = (id) => document.getElementById(id)?.textContent.trim();
    const names = (node) => node.labels?.length || node.textContent.trim() || node.getAttribute("aria-label")
        || (node.getAttribute("aria-labelledby") ?? "").split(" ").some(said);
    const nodes = [...document.querySelectorAll("button, input, progress, svg[role=img], dialog, section")];
    return nodes.filter((node) => !names(node)).map((node) => node.outerHTML.slice(0, 80));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_everyone_can_read_and_reach_it(visit, dahlias, broken, scheme: str, width: int):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 800}, has_touch=width == 360)
    page.set_input_files("#classify-files", [dahlias[0], broken])
    wait_for_text(page, "#classify-status", "1 image could not be classified")
    fill_in(page, "a class with a very long name that goes on and on and on", dahlias[:2])
    page.get_by_role("button", name="Add", exact=True).click()
    wait_for_text(page, "#report-title", "Learned a class with a very long name")
    page.locator("summary").evaluate_all("all => all.forEach((one) => one.parentElement.open = true)")
    page.locator("#operations section").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
    assert page.get_by_text("Camera").first.is_visible() == (width == 360)
    reached = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    wanted = {"token-button", "classify-files", "reject", "clear", "name", "add-files", "add-button", "undo"}
    assert wanted <= reached
