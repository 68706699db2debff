/* The page's parts, from the document to elements: misses, and what can be fixed. How tables work is in tables.js. */

const total = (row) => row.hits + row.misses;
const right = (name, value, show, lesser) => ({ name, value, show, side: "right", lesser });
const counted = (name, field, lesser) =>
  right(
    name,
    (row) => row[field],
    (row) => write.count(row[field]),
    lesser,
  );
const lasting = (name, field, lesser) =>
  right(
    name,
    (row) => row[field],
    (row) => write.seconds(row[field]),
    lesser,
  );
const byName = { name: "Function", value: (row) => row.function || "", show: named, kind: "wide" };
const placeOf = (row) => [row.function, row.file, row.line].join("\0");

/* count: [how many pass the filter, how many there are, one of them, several]. body: null where nothing is to be shown.
   short: its name in the list of parts. left: how many the document leaves out. */
function section({ id, title, short, note, left, count, body, empty }) {
  const told =
    count &&
    count[1] > 0 &&
    `${count[0] === count[1] ? "" : `${write.count(count[0])} of `}${write.many(count[1], count[2], count[3])}`;
  const notes =
    count?.[1] > 0 && [note, left > 0 && `${write.count(left)} more are left out.`].filter(Boolean).join(" ");
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title`, "data-short": short },
    h("h2", { id: `${id}-title` }, title, told && h("span", { class: "number" }, told)),
    notes && h("p", { class: "note" }, notes),
    body || h("p", { class: "none" }, count && count[1] ? "Nothing here passes the filter." : empty),
  );
}

function missesSection(doc, pass) {
  const rows = doc.misses.filter((row) => pass(row, "miss"));
  const reasons = doc.reasons.filter((reason) => reason.outcome === "miss");
  const most = Math.max(1, ...reasons.map((reason) => reason.count));
  const causes = reasons
    .map((reason) => {
      const own = rows.filter((row) => row.reason === reason.reason);
      const there = doc.misses.some((row) => row.reason === reason.reason);
      if (there && !own.length) return null;
      const summary = h(
        "span",
        { class: "cause" },
        h("span", { class: "cause-count" }, write.count(reason.count)),
        bar(reason.count / most, "miss"),
        h(
          "span",
          { class: "cause-name" },
          h("b", {}, h("bdi", {}, reason.reason || "no reason")),
          " ",
          h("span", { class: "quietly", dir: "auto" }, reason.meaning),
        ),
        h("span", { class: "cause-seconds" }, write.seconds(reason.seconds_spent)),
      );
      return folded(`cause ${reason.reason}`, summary, () => causeInside(reason, own));
    })
    .filter(Boolean);
  const note =
    "Each cause with how often it came and the seconds that its compiles took. Open one for its functions, and a function for what differed.";
  return section({
    id: "misses",
    title: "Misses by cause",
    short: "Misses",
    note,
    left: doc.misses_left_out,
    count: [rows.length, doc.misses.length, "kind", "kinds"],
    body: causes.length ? causes : null,
    empty: "No misses.",
  });
}

function causeInside(reason, rows) {
  const columns = [
    byName,
    {
      name: "What differs",
      value: (row) => row.detail || "",
      show: (row) => h("span", { class: "clip", dir: "auto" }, row.detail || (row.differs || []).join(", ") || "–"),
      lesser: true,
      kind: "wide",
    },
    counted("Misses", "count"),
    lasting("Spent", "seconds_spent"),
  ];
  const more = (row) =>
    facts(
      [
        ["Detail", row.detail],
        ["Parts that differ", (row.differs || []).join(", ")],
        ["Key", row.key && code(row.key)],
        ["Nearest entry", row.nearest && code(row.nearest)],
        ["Look closer", row.key && code(`warmgraph explain ${row.key}`)],
      ],
      "lines",
    );
  const key = (row) => [row.reason, placeOf(row), row.detail, (row.differs || []).join()].join("\0");
  return [
    reason.advice && h("p", { class: "advice", dir: "auto" }, h("b", {}, "What to do: "), reason.advice),
    rows.length
      ? table({
          id: `misses ${reason.reason}`,
          caption: `Misses: ${reason.reason}`,
          columns,
          rows,
          key,
          more,
          sort: [3, true],
        })
      : null,
  ];
}

/* Bypasses and skipped CUDA graphs alike: what is in the way, and the way out, without a click. */
function fixes({ id, title, short, note, all, left, outcome, pass, empty }) {
  const rows = all.filter((row) => pass(row, outcome));
  const why = (row) => [
    h("p", { dir: "auto" }, row.detail || row.meaning),
    row.advice && h("p", { class: "advice", dir: "auto" }, h("b", {}, "What to do: "), row.advice),
  ];
  const columns = [
    byName,
    {
      name: "Why",
      value: (row) => row.reason || "",
      show: (row) => [
        badge(outcome, row.reason || outcome),
        h("span", { class: "quietly meaning", dir: "auto" }, row.meaning),
      ],
      kind: "wider",
    },
    counted("Times", "count"),
  ];
  const key = (row) => [row.reason, placeOf(row), row.detail].join("\0");
  const body = rows.length ? table({ id, caption: title, columns, rows, key, below: why, sort: [2, true] }) : null;
  return section({ id, title, short, note, left, count: [rows.length, all.length, "place", "places"], body, empty });
}
