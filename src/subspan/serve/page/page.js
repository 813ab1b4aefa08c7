// The page of a served catalogue: classify, add, see what changed, take it back. No framework, nothing from elsewhere.

import { askForToken, byId, element, explain, hooks, now, Refusal, request, say, setToken, takeTokenFromAddress } from "./base.js";
import { paste, startCamera, takeImages } from "./images.js";
import { askAgain, clearAnswers, saveAnswers, showAndClassify } from "./answers.js";
import { add, addExamples } from "./adding.js";
import { redo, showClasses, showSessions, startClasses } from "./history.js";
import { drawMap } from "./map.js";
import { review, saveReview } from "./review.js";

let map = null;

async function load() {
  try {
    const [about, known, log, drawn] = await Promise.all(["about", "classes", "sessions", "map"].map((path) => request(path)));
    Object.assign(now, { about, classes: known.classes, ...log });
    map = drawn;
    document.title = `${about.catalogue} – Subspan`;
    byId("catalogue").textContent = about.catalogue;
    byId("allowed").textContent = `1 to ${about.max_images}`;
    byId("about").textContent = `Subspan ${about.subspan}, version ${now.sessions.at(-1).version.slice(0, 12)} of the catalogue`;
    byId("add-button").disabled = about.read_only;
    if (about.read_only) say("add-status", "This service answers questions only.");
    byId("reject").disabled = !about.can_reject;
    if (!about.can_reject) byId("reject").checked = false;
    showClasses();
    showSessions();
    drawMap(map);
    byId("alert").hidden = true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    byId("alert").textContent = error.message;
    byId("alert").hidden = false;
    byId("summary").textContent = "";
    if (error.status === 401) askForToken("This service answers nobody without its token.");
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
  hooks.changed = async () => {
    await load();
    await askAgain();
  };
  takeImages("classify", showAndClassify);
  takeImages("add", addExamples);
  takeImages("review", review);
  startCamera();
  startClasses();
  document.addEventListener("paste", paste);
  // A file dropped beside a zone must not replace the page.
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  for (const [id, action] of Object.entries({ clear: clearAnswers, save: saveAnswers, redo, "review-save": saveReview })) byId(id).addEventListener("click", action);
  byId("reject").addEventListener("change", askAgain);
  byId("add-form").addEventListener("submit", add);
  byId("token-button").addEventListener("click", () => askForToken());
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
