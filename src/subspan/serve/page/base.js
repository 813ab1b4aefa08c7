// What every part of the page uses: elements, the token, requests, and where to say what happened.

export const byId = (id) => document.getElementById(id);
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
export const plural = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** What the service says of itself and of the catalogue; `load` in page.js fills it. */
export const now = { about: { max_images: 20, max_review: 500, read_only: false, can_reject: true }, classes: [], sessions: [], undone: [] };

/** Parts tell with `changed` that the catalogue is another now; page.js says what happens then. */
export const hooks = { changed: async () => {} };

/** An element with properties and children; text never becomes markup. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function button(text, label, action, className = "quiet small") {
  const made = element("button", { type: "button", className, textContent: text });
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

export function say(id, text, bad = false) {
  byId(id).textContent = text;
  byId(id).classList.toggle("bad", bad);
}

// The token

const tokenKey = "subspan-token";
export const token = () => sessionStorage.getItem(tokenKey) ?? "";
const whereItIs = "It was printed where the service was started, or is in the token file.";

export function setToken(value) {
  if (value) sessionStorage.setItem(tokenKey, value);
  else sessionStorage.removeItem(tokenKey);
  byId("token-button").textContent = value ? "Token ✓" : "Token";
}

/** A link that the service printed carries the token behind the #, which no browser sends anywhere. */
export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname);
  setToken(given ?? token());
}

export function askForToken(why = "") {
  byId("token-why").textContent = why && token() ? "This token was not accepted." : `${why} ${whereItIs}`.trim();
  byId("token").value = token();
  if (!byId("token-dialog").open) byId("token-dialog").showModal();
  byId("token").select();
}

// Requests

export class Refusal extends Error {
  constructor(status, sentence, after = 0) {
    super(sentence);
    this.status = status;
    this.after = after; // seconds until another try makes sense
  }
}

const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

function sentenceOf(text, status) {
  try {
    return `${capital(JSON.parse(text).error)}.`;
  } catch {
    return `The service answered ${status}.`;
  }
}

/** What the service answers; a form is sent as it is, any other body as JSON. */
export async function request(path, body) {
  const json = body !== undefined && !(body instanceof FormData);
  const options = { method: body === undefined ? "GET" : "POST", headers: { ...headers(), ...(json && { "Content-Type": "application/json" }) } };
  let answer;
  try {
    answer = await fetch(path, { ...options, body: json ? JSON.stringify(body) : body });
  } catch {
    throw new Refusal(0, "The service cannot be reached.");
  }
  if (!answer.ok) throw new Refusal(answer.status, sentenceOf(await answer.text(), answer.status), Number(answer.headers.get("Retry-After")));
  return answer.json();
}

/** Like request, for a form, with how much of it has been sent: fetch cannot tell. */
export function sendForm(path, form, sent) {
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

export function formOf(fields, files) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) for (const one of [value].flat()) form.append(name, one);
  for (const file of files) form.append("images", file);
  return form;
}

/** Show what went wrong where it was asked for; without the right token, ask for it. */
export function explain(id, error) {
  if (!(error instanceof Refusal)) throw error;
  say(id, error.message, true);
  if (error.status === 401) askForToken("This needs the token.");
}

/** Bars [label, share, number], of one width wherever they stand. */
export function bars(rows, className = "bars") {
  return element("ul", { className }, ...rows.map(([label, share, number]) => {
    const fill = element("div", { className: "fill" });
    fill.style.width = percent(share, 1).replace(" ", "");
    const track = element("div", { className: "track" }, fill);
    track.setAttribute("aria-hidden", "true");
    return element("li", {}, element("span", { className: "label" }, label), track, element("span", { className: "number" }, number));
  }));
}

/** Let a table be saved as CSV; a text that a spreadsheet would take for a formula is kept from it. */
export function saveCsv(name, rows) {
  const cell = (value) => `"${String(value).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const text = rows.map((row) => row.map((value) => (typeof value === "number" ? value : cell(value))).join(",")).join("\r\n");
  const link = element("a", { href: URL.createObjectURL(new Blob([`\ufeff${text}\r\n`], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
