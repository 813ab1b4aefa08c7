// What was learned when and by whom, taken back and brought back; and the classes, renamed, merged and removed.

import { button, byId, element, explain, hooks, now, plural, request, say } from "./base.js";

const kinds = {
  add_classes: "Added", add_examples: "More of", rename_class: "Renamed", remove_class: "Removed", merge_classes: "Merged",
  remove_examples: "Took examples from",
};

function sessionText(entry) {
  if (entry.kind === "base") return plural(entry.classes.length, "base class", "base classes");
  const between = { rename_class: " to ", merge_classes: " with " }[entry.kind] ?? ", ";
  return `${kinds[entry.kind] ?? entry.kind} ${entry.classes.join(between)}`;
}

export function showSessions() {
  const last = now.sessions.at(-1);
  byId("sessions").replaceChildren(...[...now.sessions].reverse().map((entry) => {
    const when = new Date(entry.date).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    const line = element("small", {}, [plural(entry.examples, "image"), when, entry.author].filter(Boolean).join(" · "));
    if (entry.check && entry.kind !== "base") {
      const { before, after } = entry.check;
      line.append(" · others ", element("span", { className: after < before ? "lower" : "" }, `${before.toFixed(1)} → ${after.toFixed(1)} %`));
    } else if (entry.check) line.append(` · ${entry.check.after.toFixed(1)} % right of ${entry.check.examples} not taught`);
    const item = element("li", {}, element("div", {}, element("strong", {}, sessionText(entry)), element("br"), line));
    if (now.about.read_only || !entry.version) return item;
    if (entry === last && now.sessions.length > 1) {
      item.append(button("Undo", `Undo: ${sessionText(entry)}`, () => goBack(`Take this back? ${sessionText(entry)}`, "Taken back", "undo", {})));
      item.lastChild.id = "undo";
    } else if (entry !== last) {
      item.append(button("Go back here", `Go back here: ${sessionText(entry)}`,
        () => goBack(`Take back all that came after this? ${sessionText(entry)}`, "Taken back, and what came after it", "undo", { to: entry.version })));
    }
    return item;
  }));
  const next = now.undone[0];
  byId("redo").hidden = !next || now.about.read_only;
  if (next) byId("redo").textContent = `Bring back: ${sessionText(next)}`;
}

async function goBack(question, done, path, body) {
  if (question && !confirm(question)) return;
  await write("history-status", path, { version: now.sessions.at(-1).version, ...body }, (entry) => `${done}: ${sessionText(entry)}.`);
}

export const redo = () => goBack("", "Brought back", "redo", {});

/** Ask for a change; what it did is said, and everything is shown anew, also where it was refused. */
async function write(status, path, body, sentence) {
  let said = "", refused = null;
  try {
    said = sentence(await request(path, body));
    byId("report").hidden = true;
  } catch (error) {
    refused = error;
  }
  await hooks.changed();
  if (refused) explain(status, refused);
  else say(status, said);
  return !refused;
}

// Classes

export function showClasses() {
  byId("known").replaceChildren(...now.classes.map((one) => element("option", { value: one.name })));
  byId("classes-title").textContent = `All ${plural(now.classes.length, "class", "classes")}`;
  byId("classes").replaceChildren(...now.classes.map((one) => {
    const facts = element("small", {}, one.base ? "" : ` added, ${plural(one.examples, "image")}`);
    return element("li", {}, element("span", {}, one.name, facts), now.about.read_only ? "" : button("Change", `Change ${one.name}`, () => openClass(one.name)));
  }));
  const added = now.classes.filter((one) => !one.base).length;
  byId("summary").textContent = `${plural(now.classes.length, "class", "classes")}${added ? `, ${added} of them added` : ""}`;
}

let chosen = "";

function openClass(name) {
  chosen = name;
  byId("class-title").textContent = `Change ${name}`;
  byId("class-name").value = name;
  byId("class-other").replaceChildren(...now.classes.filter((one) => one.name !== name).map((one) => element("option", {}, one.name)));
  say("class-status", "");
  byId("class-dialog").showModal();
}

async function change(path, body, sentence) {
  if (!(await write("class-status", path, body, () => sentence))) return;
  byId("class-dialog").close();
  say("history-status", sentence);
}

export function startClasses() {
  byId("class-rename").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = byId("class-name").value.trim();
    if (name && name !== chosen) change("rename", { name: chosen, new_name: name }, `${chosen} is ${name} now.`);
  });
  byId("class-merge").addEventListener("submit", (event) => {
    event.preventDefault();
    const other = byId("class-other").value;
    if (confirm(`Make ${other} a part of ${chosen}?`)) change("merge", { name: chosen, other }, `${other} is a part of ${chosen} now.`);
  });
  byId("class-remove").addEventListener("click", () => {
    if (confirm(`Remove ${chosen}?`)) change("remove", { name: chosen }, `${chosen} is removed.`);
  });
  byId("class-cancel").addEventListener("click", () => byId("class-dialog").close());
}
