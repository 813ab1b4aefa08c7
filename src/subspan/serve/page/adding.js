// Add a class, or show more of one that is known, and say what that did to the others.

import { bars, button, byId, capital, element, explain, formOf, hooks, now, percent, plural, request, say, sendForm } from "./base.js";
import { folderOf, forget, picture } from "./images.js";

export function addExamples(files) {
  const folder = files.map(folderOf).find(Boolean);
  if (folder && !byId("name").value) byId("name").value = folder;
  const room = now.about.max_images - byId("examples").children.length;
  for (const file of files.slice(0, room)) {
    const item = element("li", {}, picture(file, file.name), button("×", `Remove ${file.name}`, () => {
      forget(item);
      countExamples();
      byId("add-files").focus();
    }, ""));
    item.file = file;
    byId("examples").append(item);
  }
  countExamples();
  if (files.length > room) say("add-status", `At most ${now.about.max_images} images at once; the others were left out.`, true);
}

function countExamples() {
  const count = byId("examples").children.length;
  say("add-status", count ? `${plural(count, "image")} to learn from.` : "");
}

const stageText = { "looking at photographs": "Looking at the images …", learning: "Learning …" };

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

export async function add(event) {
  event.preventDefault();
  const name = byId("name").value.trim();
  const files = [...byId("examples").children].map((item) => item.file);
  if (!name || !files.length) {
    say("add-status", name ? "Add at least one image first." : "Say first what the images show.", true);
    byId(name ? "add-files" : "name").focus();
    return;
  }
  const following = { on: true, sent: false }, progress = byId("add-progress");
  progress.hidden = false;
  progress.value = 0;
  byId("add-button").disabled = true;
  say("add-status", "Sending the images …");
  followProgress(following);
  try {
    const report = await sendForm("classes", formOf({ name, careful: !byId("anyway").checked, skip_bad: true }, files), (share) => {
      progress.value = share;
      following.sent = share === 1;
    }).finally(() => { following.on = false; });
    [...byId("examples").children].forEach(forget);
    byId("name").value = "";
    doubted(false);
    say("add-status", report.skipped.map((why) => `${capital(why)}: left out.`).join(" "), report.skipped.length > 0);
    showReport(report);
    await hooks.changed();
  } catch (error) {
    if (error.status === 428) doubted(true);
    explain("add-status", error);
  } finally {
    progress.hidden = true;
    byId("add-button").disabled = now.about.read_only;
  }
}

/** Whether images look mislabelled, or the name misspelt: then a box offers to learn them all the same. */
function doubted(shown) {
  byId("anyway-line").hidden = !shown;
  byId("anyway").checked = false;
}

const signed = (points) => `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(1)}`;

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
