/* Elements, and how values are written. What the data says becomes text here and nowhere else; never HTML. */

const SVG = "http://www.w3.org/2000/svg";
/* Controls, direction marks, lone surrogates, private and unassigned characters: shown as numbers, never obeyed. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

function plain(value) {
  return String(value).replace(UNSEEN, (c) => (c === "\n" || c === "\t" ? c : `\\u{${c.codePointAt(0).toString(16)}}`));
}

/* attributes: names are ours, values are set as attributes; `on...` takes a function. children: nodes or text. */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTH = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/* Between a number and its unit no line ends. */
const GAP = "\u00a0";

const write = {
  count: (n) => WHOLE.format(n || 0),

  /* Never 100.0 % when one lookup missed, never 0.0 % when one hit. */
  share(part) {
    if (part === null || part === undefined) return "–";
    const shown = part <= 0 ? 0 : part >= 1 ? 100 : Math.max(0.1, Math.floor(part * 1000) / 10);
    return `${shown === 0 || shown === 100 ? shown : shown.toFixed(1)}${GAP}%`;
  },

  seconds(n) {
    if (n === null || n === undefined) return "–";
    if (n === 0) return `0${GAP}s`;
    if (Math.abs(n) < 0.01) return `${TENTH.format(n * 1000)}${GAP}ms`;
    if (Math.abs(n) < 1) return `${WHOLE.format(n * 1000)}${GAP}ms`;
    if (Math.abs(n) < 600) return `${TENTH.format(n)}${GAP}s`;
    return Math.abs(n) < 7200 ? `${WHOLE.format(n / 60)}${GAP}min` : `${TENTH.format(n / 3600)}${GAP}h`;
  },

  /* For numbers that are round: `200 s`, not `200.0 s`. */
  round: (n) => write.seconds(n).replace(`.0${GAP}`, GAP),

  bytes(n) {
    if (n === null || n === undefined) return "–";
    let unit = 0;
    for (; Math.abs(n) >= 1000 && unit < 4; unit += 1) n /= 1000;
    return `${unit ? TENTH.format(n) : WHOLE.format(n)}${GAP}${["B", "kB", "MB", "GB", "TB"][unit]}`;
  },

  /* Local time, to the minute (`2026-11-20 14:03`), or parts of it. */
  time(seconds, part = "minute") {
    const when = new Date(seconds * 1000);
    if (seconds === null || seconds === undefined || Number.isNaN(when.getTime())) return "–";
    const two = (n) => String(n).padStart(2, "0");
    const day = `${two(when.getMonth() + 1)}-${two(when.getDate())}`;
    const clock = `${two(when.getHours())}:${two(when.getMinutes())}`;
    if (part === "clock") return clock;
    if (part === "second") return `${clock}:${two(when.getSeconds())}`;
    return part === "day" ? day : `${when.getFullYear()}-${day} ${clock}`;
  },

  key: (key) => (key ? `${key.slice(0, 14)}${key.length > 14 ? "…" : ""}` : "–"),
  many: (n, one, several) => `${WHOLE.format(n)} ${n === 1 ? one : several}`,
};

/* What an event's word looks like: a coloured mark and the word, so that colour never says it alone. */
const OUTCOMES = {
  hit: "hits",
  miss: "misses",
  bypass: "bypasses",
  failed: "failed",
  skipped: "skipped",
  verified: "verified",
};
const KNOWN_PHASES = ["hash", "fetch", "load", "wait", "compile", "publish"];

const badge = (outcome, word) =>
  h("span", { class: `badge ${Object.hasOwn(OUTCOMES, outcome) ? outcome : "other"}` }, word || outcome);
const phaseClass = (name) => `phase-${KNOWN_PHASES.includes(name) ? name : "other"}`;
const code = (text) => h("code", { dir: "ltr" }, text);
const place = (row) =>
  row.file ? `${row.file}${row.line === null || row.line === undefined ? "" : `:${row.line}`}` : "";

/* A function and where it stands; each in a direction of its own, whatever letters it is made of. */
const named = (row) => [
  h("bdi", { class: "name" }, row.function || "(no function)"),
  place(row) && h("bdi", { class: "place" }, place(row)),
];

/* [term, value] pairs; those without a value are left out. */
function facts(pairs, kind) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: `facts ${kind || ""}` },
    told.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", { dir: "auto" }, value))),
  );
}

/* A part of a whole as a bar within a cell. The number stands beside it. */
function bar(part, kind) {
  const inner = h("i", { class: kind || "" });
  inner.style.inlineSize = `${Math.max(0, Math.min(1, part || 0)) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, inner);
}
