// The map of classes: one dot for each, with its name beside it.

import { byId, percent } from "./base.js";

const MOST = 250; // labels; where there are more classes, the rest tell their name when pointed at
const ROW = 16; // pixels

const svgElement = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const rank = (point) => (point.newest ? 0 : point.near ? 1 : point.base ? 3 : 2);
const mark = (point) => ["newest", "near", "novel", "base"][rank(point)];

/** From values to places along an axis; most rows lie close together and a few far out: those are drawn nearer. */
function scale(values, length, edge = 24) {
  const middle = median(values), unit = median(values.map((value) => Math.abs(value - middle))) || 1;
  const drawn = (value) => Math.asinh((value - middle) / unit);
  const low = drawn(Math.min(...values)), span = drawn(Math.max(...values)) - low || 1;
  return (value) => edge + ((drawn(value) - low) / span) * (length - 2 * edge);
}

/** Where a label may stand: beside its dot, or else on rings around it that grow, within the picture. */
function* boxes({ left, top }, wide, width) {
  yield* [[left + 8, top - 8], [left - 8 - wide, top - 8], [left - wide / 2, top - 24], [left - wide / 2, top + 8]];
  for (let ring = 24; ring < 1000; ring += 8) {
    for (let angle = 0; angle < 16; angle++) {
      const x = left + ring * Math.cos((angle * Math.PI) / 8), y = top + ring * Math.sin((angle * Math.PI) / 8);
      yield [Math.min(Math.max(x - (x < left ? wide : 0), 0), width - wide), y - ROW / 2];
    }
  }
}

/** Points in the order of importance, each with its label; a line leads to one that found no room beside its dot. */
export function drawMap(map) {
  const width = Math.max(280, byId("map-picture").clientWidth);
  const labels = Math.min(map.points.length, MOST) * ROW * 90; // pixels that names will cover
  const height = Math.round(Math.max(Math.min(420, width * 0.75), (3 * labels) / width));
  const x = scale(map.points.map((point) => point.x), width), y = scale(map.points.map((point) => -point.y), height);
  const places = map.points.map((point) => ({ ...point, left: x(point.x), top: y(-point.y) })).sort((a, b) => rank(a) - rank(b));
  const newest = places.filter((point) => point.newest), near = places.filter((point) => point.near);
  const picture = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": "map-title map-text" });
  if (newest.length === 1) for (const point of near) picture.append(svgElement("line", { class: "nearness", x1: newest[0].left, y1: newest[0].top, x2: point.left, y2: point.top }));
  for (const point of [...places].reverse()) {
    const dot = svgElement("circle", { class: mark(point), cx: point.left, cy: point.top, r: point.newest ? 7 : point.near ? 5.5 : 4 });
    dot.append(svgElement("title", {}, point.name));
    picture.append(dot);
  }
  byId("map-picture").replaceChildren(picture); // before the labels, whose widths only a picture that is shown can tell
  const taken = places.map((point) => [point.left - 6, point.top - 6, 12, 12]);
  for (const point of places.slice(0, MOST)) label(picture, point, width, height, taken);
  const list = (points) => points.map((point) => point.name).join(", ");
  byId("map-text").textContent = (newest.length ? `Nearest to ${list(newest)} among the base classes: ${list(near)}. ` : "Nothing has been added yet. ")
    + `Nearness is measured in all directions; this plane shows ${percent(map.shares[0] + map.shares[1])} of how the classes differ, and classes far out are drawn nearer.`;
}

function label(picture, point, width, height, taken) {
  const short = point.name.length > 22 ? `${point.name.slice(0, 21)}…` : point.name;
  const text = svgElement("text", { class: point.newest ? "strong" : "" }, short);
  picture.append(text);
  const wide = text.getComputedTextLength() + 4;
  const free = ([left, top]) => left >= 0 && top >= 0 && left + wide <= width && top + ROW <= height
    && taken.every(([l, t, w, h]) => left >= l + w || left + wide <= l || top >= t + h || top + ROW <= t);
  let place = 0, found = null;
  for (const box of boxes(point, wide, width)) {
    if (free(box)) {
      found = box;
      break;
    }
    place += 1;
  }
  const [left, top] = found ?? [Math.min(point.left + 8, width - wide), point.top - 8];
  taken.push([left, top, wide, ROW]);
  text.setAttribute("x", left + 2);
  text.setAttribute("y", top + 12);
  if (found && place > 3) {
    const end = Math.min(Math.max(point.left, left), left + wide);
    picture.prepend(svgElement("line", { class: "leader", x1: point.left, y1: point.top, x2: end, y2: top + ROW / 2 }));
  }
}
