/* Where one process's seconds went: a bar of phases, and a waterfall of its events. */

const ROW = 19;
const CUT = 16;

const spentIn = (phases) => phases.reduce((sum, [, seconds]) => sum + Math.max(0, seconds), 0);

/* The seconds of a process by phase, in the order in which phases happen. Unknown phases are one. */
function byPhase(seconds) {
  const known = KNOWN_PHASES.map((name) => [name, Object.hasOwn(seconds, name) ? seconds[name] : 0]);
  const rest = Object.entries(seconds).filter(([name]) => !KNOWN_PHASES.includes(name));
  const other = rest.reduce((sum, [, spent]) => sum + Math.max(0, spent), 0);
  return [...known, ["other", other]].filter(([, spent]) => spent > 0);
}

function phaseBar(seconds, whole) {
  const parts = byPhase(seconds).map(([name, spent]) => {
    const part = h("i", { class: phaseClass(name), title: `${name} ${write.seconds(spent)}` });
    part.style.inlineSize = `${whole > 0 ? (100 * spent) / whole : 0}%`;
    return part;
  });
  return h("span", { class: "bar phases", "aria-hidden": "true" }, parts);
}

function legend(names) {
  return h(
    "ul",
    { class: "legend", "aria-label": "Phases" },
    names.map((name) => h("li", {}, h("i", { class: phaseClass(name) }), name)),
  );
}

/* Time to pixels. Long waits between events are cut out, or a day of training would hide its start. */
function scale(process, items, width) {
  const busy = items.reduce((sum, item) => sum + item.end - item.start, 0) || 1;
  const longest = Math.max(busy * 0.25, 0.05);
  const spans = [];
  const begin = Math.min(process.begin ?? Infinity, ...items.map((item) => item.start));
  let end = begin;
  for (const item of [...items].sort((a, b) => a.start - b.start)) {
    const last = spans[spans.length - 1];
    if (!last) spans.push({ from: item.start - begin > longest ? item.start : begin, to: item.end });
    else if (item.start - end > longest) spans.push({ from: item.start, to: item.end });
    else last.to = Math.max(last.to, item.end);
    end = Math.max(end, item.end);
  }
  const cuts = spans.length - (spans[0].from === begin ? 1 : 0);
  const pixels = Math.max(20, width - cuts * CUT) / spans.reduce((sum, span) => sum + span.to - span.from, 0);
  let x = spans[0].from === begin ? 0 : CUT;
  for (const span of spans) {
    span.x = x;
    x += (span.to - span.from) * pixels + CUT;
  }
  const at = (time) => {
    const span = spans.find((one) => time <= one.to) || spans[spans.length - 1];
    return span.x + Math.max(0, time - span.from) * pixels;
  };
  return { spans, begin, at, pixels };
}

function rowOf(item, index, left, at) {
  const y = 22 + index * ROW;
  const letters = [...plain(item.function || "–")];
  const room = Math.max(6, Math.floor(left / 7) - 2);
  const shown = letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : letters.join("");
  const label = s("text", { class: "label", x: 0, y: y + 11 }, shown);
  let now = item.start;
  const parts = item.phases
    .filter(([, seconds]) => seconds > 0)
    .map(([phase, seconds]) => {
      const from = left + at(now);
      now += seconds;
      const size = { x: from, y: y + 2, width: Math.max(1.5, left + at(now) - from), height: 11 };
      return s(
        "rect",
        { class: phaseClass(phase), ...size },
        s("title", {}, `${item.outcome}: ${phase} ${write.seconds(seconds)}`),
      );
    });
  const mark = s("circle", {
    class: `fill-${Object.hasOwn(OUTCOMES, item.outcome) ? item.outcome : "other"}`,
    cx: left - 9,
    cy: y + 7,
    r: 3.5,
  });
  return [s("line", { class: "grid", x1: 0, x2: "100%", y1: y + 16, y2: y + 16 }), label, mark, parts];
}

/* Round seconds after the begin, at least 70 pixels apart, with a line down through the rows. */
function clock({ spans, begin, at, pixels }, left, width, height) {
  const step = ceiling(70 / pixels);
  let free = -Infinity;
  return spans.map((span, index) => {
    const first = Math.ceil((span.from - begin) / step - 1e-9);
    const many = Math.min(40, Math.floor((span.to - begin) / step + 1e-9) - first + 1);
    const times = Array.from({ length: Math.max(0, many) }, (_, n) => (first + n) * step);
    const cut = (index > 0 || span.from > begin) && left + span.x - CUT / 2;
    return [
      cut && s("line", { class: "cut", x1: cut, x2: cut, y1: 16, y2: height }),
      times.map((time) => {
        const x = left + at(begin + time);
        const text = time === 0 ? "0" : `+${write.round(time)}`;
        if (x < free || x + text.length * 6.5 > width) return null;
        free = x + text.length * 6.5 + 10;
        return [
          s("line", { class: "grid", x1: x, x2: x, y1: 16, y2: height }),
          s("text", { class: "tick", x, y: 12 }, text),
        ];
      }),
    ];
  });
}

function drawWaterfall(process, items, width) {
  const left = Math.min(220, Math.floor(width * 0.34));
  const height = 22 + items.length * ROW + 4;
  const time = scale(process, items, width - left - 8);
  return [[clock(time, left, width, height), items.map((item, index) => rowOf(item, index, left, time.at))], height];
}

/* The waterfall of one process, with its legend and the same as a table. outcome: only events of this one, or all. */
function waterfall(process, outcome) {
  const chosen = process.events.filter((event) => !outcome || event.outcome === outcome);
  const items = chosen.map((event) => ({ ...event, start: event.at - spentIn(event.phases), end: event.at }));
  if (!items.length) return h("p", { class: "note" }, "No events of this kind are kept for this process.");
  items.sort((a, b) => a.start - b.start);
  const first = Math.min(process.begin ?? Infinity, items[0].start);
  const names = byPhase(process.seconds).map(([name]) => name);
  const all = process.hits + process.misses + process.bypasses + process.failed;
  const about = `${items.length} events of process ${process.pid} on ${process.host}, each as a bar of its phases, in the order of time.`;
  const rows = items.map((item) => [
    [`+${write.seconds(item.start - first)}`, "right"],
    [badge(item.outcome)],
    [h("bdi", {}, item.function || "–")],
    [item.reason || ""],
    [item.phases.map(([phase, seconds]) => `${phase} ${write.seconds(seconds)}`).join(", ")],
    [write.seconds(spentIn(item.phases)), "right"],
  ]);
  return h(
    "div",
    { class: "waterfall" },
    figure(
      "Events of this process",
      about,
      (width) => drawWaterfall(process, items, width),
      `${items.length < all && !outcome ? `${items.length} of ${write.count(all)} events; ` : ""}waits between them are cut at the dashed lines`,
    ),
    legend(names),
    h(
      "details",
      {},
      h("summary", {}, "These events as a table"),
      simpleTable("Events of this process", ["After", "Outcome", "Function", "Reason", "Phases", "Seconds"], rows),
    ),
  );
}
