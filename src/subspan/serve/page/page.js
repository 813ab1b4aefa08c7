// The page of a served catalogue: classify, add, see what changed, take it back. No framework, nothing from elsewhere.
"use strict";

const SHOWN = 12; // answers kept on the page
const byId = (id) => document.getElementById(id);
let about = { max_images: 20, max_image_bytes: Infinity, read_only: false };
let sessions = [];

/** An element with properties and children; text never becomes markup. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const signed = (points) => `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(1)}`;
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// The token

const tokenKey = "subspan-token";
const token = () => sessionStorage.getItem(tokenKey) ?? "";

function setToken(value) {
  if (value) sessionStorage.setItem(tokenKey, value);
  else sessionStorage.removeItem(tokenKey);
  byId("token-button").textContent = value ? "Token ✓" : "Token";
}

/** A link that the service printed carries the token behind the #, which no browser sends anywhere. */
function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname);
  setToken(given ?? token());
}

function askForToken(why) {
  byId("token-why").textContent = why;
  byId("token").value = token();
  if (!byId("token-dialog").open) byId("token-dialog").showModal();
  byId("token").select();
}

// Requests

class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function sentenceOf(text, status) {
  try {
    return `${capital(JSON.parse(text).error)}.`;
  } catch {
    return `The service answered ${status}.`;
  }
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  } catch {
    throw new Refusal(0, "The service cannot be reached.");
  }
  if (!answer.ok) throw new Refusal(answer.status, sentenceOf(await answer.text(), answer.status));
  return answer.json();
}

/** Like request, for a form, with how much of it has been sent: fetch cannot tell. */
function sendForm(path, form, sent) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    call.open("POST", path);
    for (const [name, value] of Object.entries(headers())) call.setRequestHeader(name, value);
    call.upload.onprogress = (event) => sent(event.loaded / event.total);
    call.onerror = () => reject(new Refusal(0, "The service cannot be reached."));
    call.onload = () => {
      if (call.status < 300) resolve(JSON.parse(call.responseText));
      else reject(new Refusal(call.status, sentenceOf(call.responseText, call.status)));
    };
    call.send(form);
  });
}

function say(id, text, bad = false) {
  byId(id).textContent = text;
  byId(id).classList.toggle("bad", bad);
}

/** Show what went wrong where it was asked for; without the right token, ask for it. */
function explain(id, error) {
  if (!(error instanceof Refusal)) throw error;
  say(id, error.message, true);
  if (error.status === 401) askForToken(token() ? "This token was not accepted." : "This needs the token. It was printed where the service was started, or is in the token file.");
}

// Images by choosing, dropping, pasting and the camera

/** A picture of a file; the address is given back when the picture is removed. */
function picture(file, description) {
  return element("img", { src: URL.createObjectURL(file), alt: description });
}

function forget(holder) {
  for (const image of holder.querySelectorAll("img")) URL.revokeObjectURL(image.src);
  holder.remove();
}

const takers = {};

function takeImages(zone, taker) {
  takers[zone] = taker;
  const place = document.querySelector(`[data-zone="${zone}"]`);
  for (const input of place.querySelectorAll("input")) {
    input.addEventListener("change", () => {
      taker([...input.files]);
      input.value = "";
    });
  }
  const over = (on) => (event) => {
    event.preventDefault();
    place.classList.toggle("over", on);
  };
  place.addEventListener("dragover", over(true));
  place.addEventListener("dragleave", over(false));
  place.addEventListener("drop", (event) => {
    over(false)(event);
    taker([...event.dataTransfer.files]);
  });
}

/** Pasted images go where the keyboard is: to adding if it is there, else to classifying. */
function paste(event) {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  event.preventDefault();
  takers[byId("add").contains(document.activeElement) ? "add" : "classify"](files);
}

// Classifying

function bars(rows, className = "bars") {
  return element("ul", { className }, ...rows.map(([label, share, number]) => {
    const fill = element("div", { className: "fill" });
    fill.style.width = percent(share, 1).replace(" ", "");
    const track = element("div", { className: "track" }, fill);
    track.setAttribute("aria-hidden", "true");
    return element("li", {}, element("span", { className: "label" }, label), track, element("span", { className: "number" }, number));
  }));
}

async function classify(card) {
  const form = new FormData();
  form.append("images", card.file);
  form.append("reject", byId("reject").checked);
  const title = element("h3");
  const body = card.querySelector("div");
  try {
    const [answer] = (await request("predict", { method: "POST", body: form })).predictions;
    title.textContent = answer.name ?? "None of these";
    body.replaceChildren(title, bars(answer.candidates.map((one) => [one.name, one.probability, percent(one.probability, 1)])), card.note);
    return answer.name ?? "none of these";
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    title.textContent = "Not classified";
    body.replaceChildren(title, element("p", { className: "bad" }, error.message), card.note);
    if (error.status === 401) askForToken("This needs the token.");
    return null;
  }
}

async function classifyAll(cards) {
  const named = [];
  for (const [done, card] of cards.entries()) {
    say("classify-status", `Looking at image ${done + 1} of ${cards.length} …`);
    named.push(await classify(card));
  }
  const bad = named.filter((name) => name === null).length;
  const answers = named.filter((name) => name !== null).join(", ");
  say("classify-status", [answers && `Answers: ${answers}.`, bad && `${plural(bad, "image")} could not be classified.`].filter(Boolean).join(" "), bad > 0);
}

function showAndClassify(files) {
  const cards = files.map((file) => {
    const card = element("li", { className: "card" }, picture(file, ""), element("div", {}, element("h3", {}, "Looking …")));
    card.file = file;
    card.note = element("small", {}, file.name);
    byId("answers").prepend(card);
    return card;
  });
  while (byId("answers").children.length > Math.max(SHOWN, files.length)) forget(byId("answers").lastElementChild);
  byId("clear").hidden = false;
  return classifyAll(cards);
}

/** Ask again about all images on the page: the catalogue has changed. */
const askAgain = () => classifyAll([...byId("answers").children].reverse());

function clearAnswers() {
  [...byId("answers").children].forEach(forget);
  byId("clear").hidden = true;
  say("classify-status", "");
}

// Adding

function addExamples(files) {
  for (const file of files) {
    if (byId("examples").children.length >= about.max_images) {
      say("add-status", `At most ${about.max_images} images at once; the others were left out.`, true);
      return;
    }
    const remove = element("button", { type: "button", textContent: "×" });
    remove.setAttribute("aria-label", `Remove ${file.name}`);
    const item = element("li", {}, picture(file, file.name), remove);
    item.file = file;
    remove.addEventListener("click", () => {
      forget(item);
      countExamples();
      byId("add-files").focus();
    });
    byId("examples").append(item);
  }
  countExamples();
}

function countExamples() {
  const count = byId("examples").children.length;
  say("add-status", count ? `${plural(count, "image")} to learn from.` : "");
}

const stageText = { "opening photographs": "Opening the images …", "looking at photographs": "Looking at the images …", learning: "Learning …" };

async function followProgress(following) {
  while (following.on) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    const state = await request("progress").catch(() => null);
    if (!following.on || !following.sent || !state?.adding) continue;
    const { stage, done, total } = state.adding;
    if (total > 1) byId("add-progress").value = done / total;
    else byId("add-progress").removeAttribute("value");
    say("add-status", stageText[stage] ?? `${capital(stage)} …`);
  }
}

async function add(event) {
  event.preventDefault();
  const name = byId("name").value.trim();
  const files = [...byId("examples").children].map((item) => item.file);
  if (!name || !files.length) {
    say("add-status", name ? "Add at least one image first." : "Say first what the images show.", true);
    byId(name ? "add-files" : "name").focus();
    return;
  }
  const form = new FormData();
  form.append("name", name);
  form.append("careful", String(!byId("anyway").checked));
  for (const file of files) form.append("images", file);
  const following = { on: true, sent: false };
  const progress = byId("add-progress");
  progress.hidden = false;
  progress.value = 0;
  byId("add-button").disabled = true;
  say("add-status", "Sending the images …");
  followProgress(following);
  try {
    const report = await sendForm("classes", form, (share) => {
      progress.value = share;
      following.sent = share === 1;
    }).finally(() => { following.on = false; });
    [...byId("examples").children].forEach(forget);
    byId("name").value = "";
    doubted(false);
    say("add-status", "");
    showReport(report);
    await load();
    await askAgain();
  } catch (error) {
    if (error.status === 428) doubted(true);
    explain("add-status", error);
  } finally {
    progress.hidden = true;
    byId("add-button").disabled = about.read_only;
  }
}

/** Whether images look mislabelled: then a box offers to learn them all the same. */
function doubted(shown) {
  byId("anyway-line").hidden = !shown;
  byId("anyway").checked = false;
}

function showReport(report) {
  const verb = report.kind === "add_classes" ? "Learned" : "Saw more of";
  byId("report-title").textContent = `${verb} ${report.classes.join(", ")} from ${plural(report.examples, "image")} in ${report.seconds.toFixed(1)} s`;
  const check = report.check;
  byId("report-check").replaceChildren(
    ...(check
      ? [
          element("p", {}, `The other classes, right on ${plural(check.examples, "kept example")} (${signed(check.after - check.before)} points):`),
          bars([["before", check.before / 100, `${check.before.toFixed(1)} %`], ["after", check.after / 100, `${check.after.toFixed(1)} %`]], "bars check-bars"),
        ]
      : [element("p", {}, "No examples of other classes are kept, so what this cost them is unknown.")]),
  );
  const taken = report.takes_from.map((one) => `${one.name} (${one.lost} of ${plural(one.examples, "example")}, ${percent(one.share)} of the probability)`).join(", ");
  byId("report-taken").textContent = taken ? `It takes most from ${taken}.` : "";
  byId("report-warning").hidden = !report.warning;
  byId("report-warning").textContent = report.warning ? `The other classes lost ${(check.before - check.after).toFixed(1)} points. History below takes it back.` : "";
  byId("report").hidden = false;
  byId("report-title").focus();
}

// History

const kinds = { base: "Base classes", add_classes: "Added", add_examples: "More of", rename_class: "Renamed", remove_class: "Removed" };

function sessionText(entry) {
  if (entry.kind === "base") return plural(entry.classes.length, "base class").replace("classs", "classes");
  const names = entry.kind === "rename_class" ? entry.classes.join(" to ") : entry.classes.join(", ");
  return `${kinds[entry.kind] ?? entry.kind} ${names}`;
}

function showSessions() {
  byId("sessions").replaceChildren(...[...sessions].reverse().map((entry, place) => {
    const facts = [plural(entry.examples, "image"), new Date(entry.date).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })];
    const line = element("small", {}, facts.join(" · "));
    if (entry.check && entry.kind !== "base") {
      const { before, after } = entry.check;
      line.append(" · others ", element("span", { className: after < before ? "lower" : "" }, `${before.toFixed(1)} → ${after.toFixed(1)} %`));
    } else if (entry.check) line.append(` · ${entry.check.after.toFixed(1)} % right of ${entry.check.examples} not taught`);
    const item = element("li", {}, element("div", {}, element("strong", {}, sessionText(entry)), element("br"), line));
    if (place === 0 && sessions.length > 1 && entry.kind !== "base" && !about.read_only) {
      const button = element("button", { type: "button", className: "quiet small", id: "undo", textContent: "Undo" });
      button.setAttribute("aria-label", `Undo: ${sessionText(entry)}`);
      button.addEventListener("click", () => undo(entry));
      item.append(button);
    }
    return item;
  }));
}

async function undo(entry) {
  if (!confirm(`Take this back? ${sessionText(entry)}`)) return;
  byId("undo").disabled = true;
  try {
    const body = JSON.stringify({ version: entry.version });
    await request("undo", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    say("history-status", `Taken back: ${sessionText(entry)}.`);
    byId("report").hidden = true;
  } catch (error) {
    explain("history-status", error);
  }
  await load();
  await askAgain();
}

// The map

const svgElement = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const rank = (point) => (point.newest ? 0 : point.near ? 1 : point.base ? 3 : 2);
const mark = (point) => ["newest", "near", "novel", "base"][rank(point)];

/** Points in the order of importance, each with a label where one finds room. */
function drawMap(map) {
  const width = Math.max(280, byId("map-picture").clientWidth), height = Math.round(Math.min(420, width * 0.75)), edge = 24;
  // Most rows lie close together and a few far out: those are drawn nearer, in the same order along each axis.
  const scale = (values, length) => {
    const middle = median(values), unit = median(values.map((value) => Math.abs(value - middle))) || 1;
    const drawn = (value) => Math.asinh((value - middle) / unit);
    const low = drawn(Math.min(...values)), span = drawn(Math.max(...values)) - low || 1;
    return (value) => edge + ((drawn(value) - low) / span) * (length - 2 * edge);
  };
  const x = scale(map.points.map((point) => point.x), width), y = scale(map.points.map((point) => -point.y), height);
  const places = map.points.map((point) => ({ ...point, left: x(point.x), top: y(-point.y) })).sort((a, b) => rank(a) - rank(b));
  const newest = places.filter((point) => point.newest), near = places.filter((point) => point.near);
  const picture = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": "map-title map-text" });
  if (newest.length === 1) for (const point of near) picture.append(svgElement("line", { x1: newest[0].left, y1: newest[0].top, x2: point.left, y2: point.top }));
  for (const point of [...places].reverse()) {
    const dot = svgElement("circle", { class: mark(point), cx: point.left, cy: point.top, r: point.newest ? 7 : point.near ? 5.5 : 4 });
    dot.append(svgElement("title", {}, point.name));
    picture.append(dot);
  }
  byId("map-picture").replaceChildren(picture); // before the labels, whose widths only a picture that is shown can tell
  const taken = places.map((point) => [point.left - 6, point.top - 6, 12, 12]);
  const free = ([left, top, wide, high]) => left >= 0 && top >= 0 && left + wide <= width && top + high <= height
    && taken.every(([l, t, w, h]) => left >= l + w || left + wide <= l || top >= t + h || top + high <= t);
  for (const point of places) {
    const short = point.name.length > 22 ? `${point.name.slice(0, 21)}…` : point.name;
    const text = svgElement("text", { class: point.newest ? "strong" : "" }, short);
    picture.append(text);
    const wide = text.getComputedTextLength() + 4, { left, top } = point;
    const boxes = [[left + 8, top - 8], [left - 8 - wide, top - 8], [left - wide / 2, top - 24], [left - wide / 2, top + 8]].map(([l, t]) => [l, t, wide, 16]);
    const box = boxes.find(free);
    if (!box) {
      text.remove();
      continue;
    }
    taken.push(box);
    text.setAttribute("x", box[0] + 2);
    text.setAttribute("y", box[1] + 12);
  }
  const list = (points) => points.map((point) => point.name).join(", ");
  byId("map-text").textContent = (newest.length ? `Nearest to ${list(newest)} among the base classes: ${list(near)}. ` : "Nothing has been added yet. ")
    + `Nearness is measured in all directions; this plane shows ${percent(map.shares[0] + map.shares[1])} of how the classes differ, and classes far out are drawn nearer.`;
}

// Everything at once

function showClasses(classes) {
  byId("known").replaceChildren(...classes.map((one) => element("option", { value: one.name })));
  byId("classes-title").textContent = `All ${classes.length} classes`;
  byId("classes").replaceChildren(...classes.map((one) => element("li", {}, one.name, element("small", {}, one.base ? "" : ` added, ${plural(one.examples, "image")}`))));
  const added = classes.filter((one) => !one.base).length;
  byId("summary").textContent = `${classes.length} classes${added ? `, ${added} of them added` : ""}`;
}

let map = null;

async function load() {
  try {
    const [service, known, log, drawn] = await Promise.all(["about", "classes", "sessions", "map"].map((path) => request(path)));
    about = service;
    sessions = log.sessions;
    map = drawn;
    document.title = `${about.catalogue} – Subspan`;
    byId("catalogue").textContent = about.catalogue;
    byId("allowed").textContent = `1 to ${about.max_images}`;
    byId("about").textContent = `Subspan ${about.subspan}, version ${sessions.at(-1).version.slice(0, 12)} of the catalogue`;
    byId("add-button").disabled = about.read_only;
    if (about.read_only) say("add-status", "This service answers questions only.");
    showClasses(known.classes);
    showSessions();
    drawMap(map);
    byId("alert").hidden = true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    byId("alert").textContent = error.message;
    byId("alert").hidden = false;
    byId("summary").textContent = "";
    if (error.status === 401) askForToken(token() ? "This token was not accepted." : "This service answers nobody without its token. It was printed where the service was started, or is in the token file.");
  }
}

async function showOperations() {
  if (byId("operations").children.length) return;
  const schema = await request("openapi.json");
  const named = (parts) => Object.entries(parts ?? {}).map(([name, part]) => [name, part.description ?? part.title ?? ""]);
  const fields = (operation) => Object.values(operation.requestBody?.content ?? {}).flatMap(({ schema: body }) =>
    named((schema.components.schemas[body.$ref?.split("/").at(-1)] ?? body).properties));
  const list = (rows) => element("dl", {}, ...rows.flatMap(([name, text]) => [element("dt", {}, element("code", {}, name)), element("dd", {}, text)]));
  for (const [path, methods] of Object.entries(schema.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const statuses = Object.entries(operation.responses).filter(([status]) => status < 300).map(([status]) => status);
      byId("operations").append(element("section", {}, element("h3", {}, `${method.toUpperCase()} ${path}`),
        element("p", {}, `${operation.description ?? operation.summary} Answers ${statuses.join(", ")}${operation.security ? "; needs the token" : ""}.`), list(fields(operation))));
    }
  }
}

function start() {
  takeTokenFromAddress();
  for (const label of document.querySelectorAll(".camera")) label.hidden = navigator.maxTouchPoints === 0;
  takeImages("classify", showAndClassify);
  takeImages("add", addExamples);
  document.addEventListener("paste", paste);
  // A file dropped beside a zone must not replace the page.
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  byId("reject").addEventListener("change", askAgain);
  byId("clear").addEventListener("click", clearAnswers);
  byId("add-form").addEventListener("submit", add);
  byId("token-button").addEventListener("click", () => askForToken("It was printed where the service was started, or is in the token file."));
  byId("token-cancel").addEventListener("click", () => byId("token-dialog").close());
  byId("token-form").addEventListener("submit", () => {
    setToken(byId("token").value.trim());
    load();
  });
  const api = byId("api");
  api.addEventListener("toggle", () => api.open && showOperations().catch((error) => explain("history-status", error)));
  if (location.hash === "#api") api.open = true;
  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => map && drawMap(map), 150);
  });
  load();
}

start();
