// Photographs by class, looked through for those that may be wrong; nothing of it is kept.

import { byId, element, explain, formOf, now, percent, plural, Refusal, saveCsv, say, sendForm } from "./base.js";
import { folderOf, forget, pathOf, picture } from "./images.js";

const SMALL = 100_000; // bytes; larger files are sent at reduced size
const SIDE = 640; // of those, in pixels

let findings = [];
const kinds = { mislabelled: "Mislabelled?", duplicate: "Duplicate", doubtful: "Doubtful", unlike: "Unlike everything" };

/** A file as it is sent: the service sees photographs at a few hundred pixels anyway. */
async function reduced(file) {
  if (file.size <= SMALL) return file;
  try {
    const picture = await createImageBitmap(file);
    const scale = Math.min(1, SIDE / Math.min(picture.width, picture.height));
    const canvas = new OffscreenCanvas(Math.round(picture.width * scale), Math.round(picture.height * scale)), context = canvas.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    picture.close();
    return new File([await canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 })], file.name, { type: "image/jpeg" });
  } catch {
    return file; // the service says what is wrong with it
  }
}

export async function review(files) {
  const asked = files.filter(folderOf).slice(0, now.about.max_review);
  if (!asked.length) return say("review-status", "Choose a folder that holds a folder of photographs for every class.", true);
  const progress = byId("review-progress");
  [...byId("findings").children].forEach(forget);
  byId("review-save").hidden = true;
  progress.hidden = false;
  progress.value = 0;
  try {
    const sent = [];
    for (const file of asked) {
      sent.push(await reduced(file));
      progress.value = sent.length / asked.length / 2;
      say("review-status", `${sent.length} of ${plural(asked.length, "photograph")} prepared …`);
    }
    const answer = await sendForm("review", formOf({ names: asked.map(folderOf) }, sent), (share) => {
      progress.value = 0.5 + share / 2;
      if (share === 1) {
        progress.removeAttribute("value");
        say("review-status", "Looking at the photographs …");
      }
    });
    const named = (text) => text.replace(/\bnumber (\d+)/g, (_, number) => pathOf(asked[number - 1])); // the service knows no files
    findings = answer.findings.map((one) => ({ ...one, file: asked[one.place], says: named(one.says) }));
    byId("findings").replaceChildren(...findings.map((one) => element("li", { className: "card" }, picture(one.file, one.file.name),
      element("div", {}, element("h3", {}, kinds[one.kind] ?? one.kind), element("p", {}, one.says), element("small", {}, `${pathOf(one.file)} · ${percent(one.score)}`)))));
    byId("review-save").hidden = findings.length === 0;
    const left = files.length - asked.length, bad = answer.skipped.length;
    say("review-status", [`${plural(findings.length, "photograph")} to look at, of ${asked.length}.`, bad && `${plural(bad, "file")} could not be read.`,
      left > 0 && `${left} were left out: a review takes ${now.about.max_review}, each in the folder of its class.`].filter(Boolean).join(" "), bad + left > 0);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    explain("review-status", error);
  } finally {
    progress.hidden = true;
  }
}

export function saveReview() {
  const rows = findings.map((one) => [pathOf(one.file), one.kind, one.name, one.other ?? "", one.score, one.says]);
  saveCsv(`${now.about.catalogue} review.csv`, [["photograph", "kind", "class", "other", "score", "says"], ...rows]);
}
