"""The page in a real Chromium, as a person uses it."""

import csv
import os
import shutil
import subprocess
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
        arguments = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]  # a camera, allowed
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    """The script of axe-core, which finds what keeps people from using a page."""
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4"]
    if shutil.which("npm") is None:
        pytest.skip("no npm here, which fetches axe-core")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot fetch axe-core: {done.stderr.strip()[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


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
    assert before in (*BASE, "None of these")
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
    assert sorted(page.locator("#map-picture text").all_text_contents()) == sorted([*BASE, "dahlia"])
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
    assert text(page, "#answers h3") in (*BASE, "None of these")
    go.set()
    wait_for_text(page, "#report-title", "Learned dahlia from 3 images")
    wait_for_text(page, "#answers h3", "dahlia")


def test_a_bad_file_is_explained_and_costs_itself_alone(visit, colours, dahlias, broken):
    page = visit()
    page.set_input_files("#classify-files", [dahlias[0], broken])
    wait_for_text(page, "#classify-status", "1 image could not be classified")
    assert "Image number 1 is none of JPEG, PNG, WEBP, GIF, BMP." in text(page, "#answers")
    assert page.locator("#answers .bars").count() == 1  # the good one is answered
    fill_in(page, "dahlia", [dahlias[0], broken])
    page.get_by_role("button", name="Add", exact=True).click()
    wait_for_text(page, "#report-title", "Learned dahlia from 1 image")
    assert text(page, "#add-status") == "Image number 2 is none of JPEG, PNG, WEBP, GIF, BMP: left out."
    assert colours.sessions()[-1].examples == 1


def test_a_wrong_answer_is_corrected_by_keyboard_alone(visit, colours, dahlias):
    page = visit()
    page.set_input_files("#classify-files", dahlias[0])
    page.locator(".correction").wait_for()
    for name, kind in (("dahlia", "add_classes"), ("red", "add_examples")):
        page.locator("#clear").focus()
        while not page.evaluate("document.activeElement.textContent.startsWith('Wrong, it is')"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        wait_for_text(page, "#classify-status", f"Learned that dahlia 0.jpg shows {name}.")
        entry = colours.sessions()[-1]
        assert (entry.kind, entry.classes, entry.examples) == (kind, (name,), 1)
        assert page.evaluate("document.activeElement.tagName") == "H3"
    assert text(page, "#summary") == "5 classes, 1 of them added"


def test_a_folder_is_answered_several_at_once_with_its_progress_and_saved(
    visit, colours, dahlias, monkeypatch, tmp_path
):
    features, go, asked = colours.backbone.features, threading.Event(), []

    def hold(images, **options):
        assert go.wait(60)
        return features(images, **options)

    page = visit()
    monkeypatch.setattr(colours.backbone, "features", hold)
    page.on("request", lambda one: asked.append(one.url) if one.url.endswith("predict") else None)
    (tmp_path / "notes.txt").write_text("no image")
    for i in range(8):
        (tmp_path / f"green {i}.png").write_bytes(made.encoded(made.photographs("green", 1, seed=i)[0]))
    page.set_input_files("#classify-folder", tmp_path)
    wait_for_text(page, "#classify-status", "0 of 8 images looked at …")
    assert page.get_by_role("progressbar", name="Progress of classifying").is_visible()
    page.wait_for_timeout(300)
    assert len(asked) == 3
    go.set()
    wait_for_text(page, "#classify-status", "Answers: green (")
    sync_api.expect(page.locator("#classify-progress")).to_be_hidden()
    starts = {round(bar.bounding_box()["x"]) for bar in page.locator("#answers .track").all()}
    assert len(starts) == 1  # bars of all answers stand below each other
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the answers as CSV").click()
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [Path(row["file"]).name for row in rows] == [f"green {i}.png" for i in range(8)]
    files = [(tmp_path / f"green {i}.png").read_bytes() for i in range(8)]
    expected = colours.predict(files, reject=True)
    assert [row["answer"] for row in rows] == [one.name or "none of these" for one in expected]
    assert [float(row["probability 1"]) for row in rows] == pytest.approx(
        [one.candidates[0].probability for one in expected]
    )


def test_none_of_these_is_offered_unless_asked_otherwise(visit, colours):
    page = visit()
    brown = next(one for one in made.photographs("brown", 20) if colours.predict([one], reject=True)[0].rejected)
    image = {"name": "brown.png", "mimeType": "image/png", "buffer": made.encoded(brown)}
    page.set_input_files("#classify-files", image)
    wait_for_text(page, "#classify-status", "Answers: none of these.")
    page.get_by_label("It may answer").uncheck()
    wait_for_text(page, "#classify-status", f"Answers: {colours.predict([brown])[0].name}.")


def test_a_class_is_renamed_merged_and_removed_and_all_of_it_taken_back_and_brought_back(visit, colours):
    page = visit()
    page.locator("#classes-title").click()
    names = lambda: page.locator("#classes li > span").all_inner_texts()  # noqa: E731
    page.get_by_role("button", name="Change red").click()
    page.locator("#class-name").fill("scarlet")
    page.keyboard.press("Enter")
    wait_for_text(page, "#history-status", "red is scarlet now.")
    page.get_by_role("button", name="Change scarlet").click()
    page.locator("#class-other").select_option("yellow")
    page.get_by_role("button", name="Merge", exact=True).click()
    wait_for_text(page, "#history-status", "yellow is a part of scarlet now.")
    page.get_by_role("button", name="Change green").click()
    page.get_by_role("button", name="Remove it").click()
    wait_for_text(page, "#history-status", "green is removed.")
    assert names() == ["blue", "scarlet"]
    page.get_by_role("button", name="Change blue").click()
    page.locator("#class-name").fill("scarlet")
    page.get_by_role("button", name="Rename", exact=True).click()
    wait_for_text(page, "#class-status", "scarlet")  # taken already: why, where it was asked for
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Go back here: 4 base classes").click()
    wait_for_text(page, "#history-status", "Taken back, and what came after it: Renamed red to scarlet.")
    assert names() == sorted(BASE)
    for sentence in ("Renamed red to scarlet", "Merged scarlet with yellow", "Removed green"):
        page.get_by_role("button", name=f"Bring back: {sentence}").click()
        wait_for_text(page, "#history-status", f"Brought back: {sentence}.")
    assert names() == ["blue", "scarlet"]
    sync_api.expect(page.locator("#redo")).to_be_hidden()


def test_a_picture_of_the_camera_is_used_once_it_is_confirmed(visit):
    page = visit()
    page.locator('[data-zone="classify"]').get_by_role("button", name="Camera").click()
    page.get_by_role("button", name="Take the picture").click()
    page.get_by_role("button", name="Again").click()
    page.get_by_role("button", name="Take the picture").click()
    assert page.locator("#answers li").count() == 0
    page.get_by_role("button", name="Use it").click()
    wait_for_text(page, "#classify-status", "Answers: ")
    assert text(page, "#answers small").startswith("camera ")
    assert page.evaluate("document.getElementById('camera-video').srcObject.active") is False


def test_a_folder_of_classes_is_reviewed_with_pictures(visit, colours, tmp_path):
    for name in ("red", "green", "blue"):
        (tmp_path / name).mkdir()
        for i, pixels in enumerate(made.photographs(name, 12, spread=10)):
            (tmp_path / name / f"{i}.png").write_bytes(made.encoded(pixels))
    (tmp_path / "red" / "planted.png").write_bytes(made.encoded(made.photographs("blue", 1, 7, spread=10)[0]))
    shutil.copy(tmp_path / "green" / "3.png", tmp_path / "green" / "twice.png")
    version, page = colours.version, visit()
    page.set_input_files("#review-folder", tmp_path)
    page.locator("#findings li").first.wait_for()
    assert text(page, "#findings li >> nth=0").startswith("Mislabelled?")
    assert "red/planted.png" in text(page, "#findings li >> nth=0")
    twice = page.locator("#findings li").filter(has_text="green/twice.png").filter(has_text="is the same picture as")
    assert ".png" in twice.first.locator("p").inner_text()  # by its file, not by its number in the request
    assert page.locator("#findings img").first.evaluate("one => one.naturalWidth") == 26
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the findings as CSV").click()
    assert "red/planted.png" in Path(download.value.path()).read_text("utf-8-sig").splitlines()[1]
    assert colours.version == version


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
    assert {"POST /predict", "POST /classes", "GET /classes", "POST /redo", "GET /metrics"} <= set(described)


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
def test_everyone_can_read_and_reach_it(visit, axe, dahlias, broken, scheme: str, width: int):
    page = visit(color_scheme=scheme, viewport={"width": width, "height": 800}, has_touch=width == 360)
    page.set_input_files("#classify-files", [dahlias[0], broken])
    wait_for_text(page, "#classify-status", "1 image could not be classified")
    fill_in(page, "a class with a very long name that goes on and on and on", dahlias[:2])
    page.get_by_role("button", name="Add", exact=True).click()
    wait_for_text(page, "#report-title", "Learned a class with a very long name")
    page.locator(".correction button").first.click()
    page.locator("summary").evaluate_all("all => all.forEach((one) => one.parentElement.open = true)")
    page.locator("#operations section").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
    page.evaluate(axe)
    for opener, closer in ((None, None), ("#classes button", "#class-cancel"), ("#token-button", "#token-cancel")):
        if opener:
            page.locator(opener).first.click()
        found = page.evaluate("axe.run()")["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
        if closer:
            page.locator(closer).click()
    reached = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    wanted = {"token-button", "classify-files", "classify-folder", "reject", "save", "clear", "name", "add-files"}
    wanted |= {"add-folder", "add-button", "undo", "review-folder"}
    assert wanted <= reached
