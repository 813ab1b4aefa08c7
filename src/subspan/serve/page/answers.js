// What is this? Answers for many images at once, each of which can be corrected, and all of them saved.

import { askForToken, bars, button, byId, element, explain, formOf, hooks, now, percent, plural, Refusal, request, saveCsv, say } from "./base.js";
import { forget, pathOf, picture } from "./images.js";

const SHOWN = 300; // answers kept on the page
const AGAIN = 24; // of them, asked again when the catalogue has changed
const AT_ONCE = 3; // requests: the service's cores are busy, and others come through
const cards = () => [...byId("answers").children];
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** The answer for one image; where the service asks us to come back later, we do. */
async function ask(file) {
  const form = formOf({ reject: byId("reject").checked && now.about.can_reject }, [file]);
  for (;;) {
    try {
      const { version, predictions } = await request("predict", form);
      return { version, ...predictions[0] };
    } catch (error) {
      if (error.status !== 429 || !error.after) throw error;
      await pause(Math.min(error.after, 20));
    }
  }
}

async function classify(card) {
  const title = element("h3", { tabIndex: -1 }), note = element("small", {}, pathOf(card.file)), body = card.querySelector("div");
  try {
    card.answer = await ask(card.file);
    title.textContent = card.answer.name ?? "None of these";
    const rows = card.answer.candidates.map((one) => [one.name, one.probability, percent(one.probability, 1)]);
    body.replaceChildren(title, bars(rows), note, now.about.read_only ? "" : correction(card));
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    card.answer = null;
    title.textContent = "Not classified";
    body.replaceChildren(title, element("p", { className: "bad" }, error.message), note);
    if (error.status === 401) askForToken("This needs the token.");
    return false;
  }
}

async function classifyAll(asked) {
  const waiting = [...asked], progress = byId("classify-progress");
  let done = 0, bad = 0;
  const tell = () => {
    progress.hidden = asked.length < 2 || done === asked.length;
    progress.value = done / asked.length;
    say("classify-status", `${done} of ${plural(asked.length, "image")} looked at …`);
  };
  const work = async () => {
    for (let card = waiting.shift(); card; card = waiting.shift()) {
      const fine = !card.isConnected || (await classify(card)); // first: others count meanwhile
      bad += fine ? 0 : 1;
      done += 1;
      tell();
    }
  };
  tell();
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  byId("save").hidden = !cards().some((card) => card.answer);
  const counts = new Map();
  for (const card of asked) if (card.answer) counts.set(card.answer.name ?? "none of these", (counts.get(card.answer.name ?? "none of these") ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]), shown = most.slice(0, 8).map(([name, count]) => (count > 1 ? `${name} (${count})` : name));
  if (most.length > 8) shown.push(`${most.length - 8} more`);
  say("classify-status", [shown.length && `Answers: ${shown.join(", ")}.`, bad && `${plural(bad, "image")} could not be classified.`].filter(Boolean).join(" "), bad > 0);
}

export function showAndClassify(files) {
  const made = files.slice(0, SHOWN).map((file) => {
    const card = element("li", { className: "card" }, picture(file, ""), element("div", {}, element("h3", {}, "Looking …")));
    card.file = file;
    return card;
  });
  if (!made.length) return say("classify-status", "There is no image in it.", true);
  byId("answers").prepend(...made);
  cards().slice(SHOWN).forEach(forget);
  byId("clear").hidden = false;
  return classifyAll(made).then(() => {
    if (files.length > SHOWN) say("classify-status", `The page takes ${SHOWN} images at once; for more there is subspan predict FOLDER --csv.`, true);
  });
}

/** Ask again about the newest images on the page: the catalogue has changed. */
export async function askAgain() {
  const newest = cards().slice(0, AGAIN);
  if (newest.length) await classifyAll(newest);
}

// Correcting

/** A button that opens "it is ..." below an answer, which teaches the image under its right name. */
function correction(card) {
  const holder = element("div", { className: "correction" });
  const open = button("Wrong, it is …", `Wrong, it is … (${card.file.name})`, () => {
    const name = element("input", { type: "text", maxLength: 200 });
    name.setAttribute("list", "known");
    name.setAttribute("aria-label", `What ${card.file.name} shows`);
    const form = element("form", { className: "row", autocomplete: "off" }, name, element("button", { type: "submit", className: "small" }, "Teach"),
      button("Cancel", "", () => { holder.replaceChildren(open); open.focus(); }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (name.value.trim()) correct(card, name.value.trim(), form);
      else name.focus();
    });
    holder.replaceChildren(form);
    name.focus();
  });
  holder.append(open);
  return holder;
}

async function correct(card, name, form) {
  if (!now.classes.some((one) => one.name === name) && !confirm(`"${name}" is not known yet. Add it as a class?`)) return;
  for (const one of form.elements) one.disabled = true;
  try {
    await request("classes", formOf({ name }, [card.file]));
    await hooks.changed();
    say("classify-status", `Learned that ${card.file.name} shows ${name}.`);
    card.querySelector("h3").focus();
  } catch (error) {
    for (const one of form.elements) one.disabled = false;
    explain("classify-status", error);
  }
}

export function clearAnswers() {
  cards().forEach(forget);
  byId("clear").hidden = byId("save").hidden = true;
  say("classify-status", "");
}

export function saveAnswers() {
  const answered = cards().filter((card) => card.answer);
  const most = Math.max(...answered.map((card) => card.answer.candidates.length));
  const head = ["file", "answer", "familiarity", "version", ...Array.from({ length: most }, (_, i) => [`class ${i + 1}`, `probability ${i + 1}`]).flat()];
  const rows = answered.map(({ file, answer }) => [pathOf(file), answer.name ?? "none of these", answer.familiarity ?? "", answer.version,
    ...answer.candidates.flatMap((one) => [one.name, one.probability])]);
  saveCsv(`${now.about.catalogue} answers.csv`, [head, ...rows]);
}
