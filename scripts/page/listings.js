/* The parts that list what there is: functions, keys, processes, tiers, entries. Misses and fixes are in sections.js. */

function functionsSection(doc, pass) {
  const one = (outcome) => (row) => row[OUTCOMES[outcome]] > 0;
  const rows = doc.functions.filter(
    (row) => (!state.outcome || !OUTCOMES[state.outcome] || one(state.outcome)(row)) && pass(row),
  );
  const most = Math.max(...doc.functions.map((row) => row.seconds_spent), 0);
  const rate = (row) => (total(row) ? row.hits / total(row) : null);
  const columns = [
    byName,
    counted("Hits", "hits", true),
    counted("Misses", "misses"),
    counted("Bypassed", "bypasses", true),
    right("Hit rate", rate, (row) => write.share(rate(row))),
    lasting("Saved", "seconds_saved", true),
    right(
      "Spent",
      (row) => row.seconds_spent,
      (row) => [bar(row.seconds_spent / (most || 1)), h("span", { class: "last" }, write.seconds(row.seconds_spent))],
    ),
    counted("Keys", "keys", true),
  ];
  const more = (row) =>
    facts([
      ["Hits", write.count(row.hits)],
      ["Misses", write.count(row.misses)],
      ["Bypassed", write.count(row.bypasses)],
      ["Failed", write.count(row.failed)],
      ["CUDA graphs skipped", write.count(row.skipped)],
      ["Compiling saved", write.seconds(row.seconds_saved)],
      ["Seconds spent", write.seconds(row.seconds_spent)],
      ["of that compiling", write.seconds(row.compile_seconds)],
      ["Size", write.bytes(row.bytes)],
      ["Keys", write.count(row.keys)],
    ]);
  return section({
    id: "functions",
    title: "Functions that cost most",
    short: "Functions",
    note: "Spent: all phases of all outcomes.",
    left: doc.functions_left_out,
    count: [rows.length, doc.functions.length, "function", "functions"],
    empty: "No functions.",
    body: rows.length
      ? table({ id: "functions", caption: "Functions", columns, rows, key: placeOf, more, sort: [6, true] })
      : null,
  });
}

function againSection(doc, pass) {
  const rows = doc.compiled_again.filter((row) =>
    pass(
      row,
      "miss",
      row.who.map((one) => one.host),
    ),
  );
  const columns = [
    byName,
    { name: "Key", value: (row) => row.key, show: (row) => code(write.key(row.key)), lesser: true },
    counted("Compiles", "count"),
    lasting("Seconds", "seconds"),
  ];
  const who = (row) =>
    row.who.map((one) => [
      [h("bdi", {}, one.host)],
      [one.pid, "right"],
      [one.rank ?? "–", "right"],
      [write.time(one.time)],
      [one.reason || "–"],
    ]);
  const more = (row) => [
    facts(
      [
        ["Key", code(row.key)],
        ["Look closer", code(`warmgraph explain ${row.key}`)],
      ],
      "lines",
    ),
    simpleTable(
      row.who.length < row.count ? `By whom (${row.who.length} of ${write.count(row.count)})` : "By whom",
      ["Host", "Process", "Rank", "When", "Reason"],
      who(row),
    ),
  ];
  const title = "Keys compiled more than once";
  return section({
    id: "again",
    title,
    short: "Compiled again",
    note: "A key in a shared store should be compiled once. Open one to see by whom, and why.",
    left: doc.compiled_again_left_out,
    count: [rows.length, doc.compiled_again.length, "key", "keys"],
    empty: "Every key was compiled once.",
    body: rows.length
      ? table({ id: "again", caption: title, columns, rows, key: (row) => row.key, more, sort: [3, true] })
      : null,
  });
}

function processesSection(doc, pass) {
  const kind = OUTCOMES[state.outcome];
  const rows = doc.processes.filter(
    (row) =>
      (!kind || (kind in row ? row[kind] > 0 : row.events.some((event) => event.outcome === state.outcome))) &&
      pass({ ...row, text: row.events.map((event) => event.function) }, null, [row.host]),
  );
  const spent = (row) => byPhase(row.seconds).reduce((sum, [, seconds]) => sum + seconds, 0);
  const most = Math.max(...doc.processes.map(spent), 0);
  const show = (row) => [
    h("bdi", { class: "name" }, row.host),
    h(
      "bdi",
      { class: "place" },
      `pid ${row.pid}${row.rank === null ? "" : `, rank ${row.rank}`}${row.job ? `, job ${row.job}` : ""}`,
    ),
  ];
  const columns = [
    { name: "Process", value: (row) => row.host, show, kind: "wide" },
    right(
      "Began",
      (row) => row.begin,
      (row) => write.time(row.begin),
      true,
    ),
    counted("Hits", "hits", true),
    counted("Misses", "misses", true),
    {
      name: "Where its seconds went",
      value: spent,
      first: true,
      show: (row) => phaseBar(row.seconds, most),
      kind: "broad",
    },
    right("Seconds", spent, (row) => write.seconds(spent(row))),
  ];
  const key = (row) => [row.host, row.pid, row.started ?? row.begin].join("\0");
  const names = [...KNOWN_PHASES, "other"].filter((name) =>
    doc.processes.some((row) => byPhase(row.seconds).some(([one]) => one === name)),
  );
  const body = rows.length
    ? [
        legend(names),
        table({
          id: "processes",
          caption: "Processes",
          columns,
          rows,
          key,
          more: (row) => waterfall(row, state.outcome),
          sort: [5, true],
        }),
      ]
    : null;
  return section({
    id: "processes",
    title: "Where a start’s seconds went",
    short: "Starts",
    note: "The most costly processes. Open one for a waterfall of its events.",
    left: doc.processes_left_out,
    count: [rows.length, doc.processes.length, "process", "processes"],
    body,
    empty: "No processes.",
  });
}

function healthSection(doc) {
  const rows = doc.health.map((row) => [
    [h("bdi", {}, row.tier)],
    [h("span", { dir: "auto" }, row.detail)],
    [write.count(row.count), "right"],
    [write.count(row.hosts), "right"],
  ]);
  return section({
    id: "health",
    title: "Health",
    short: "Health",
    empty: "No tier was sick.",
    body: rows.length ? simpleTable("Tiers that were sick", ["Tier", "What happened", "Times", "Hosts"], rows) : null,
  });
}

function storeSection(doc, pass) {
  if (!doc.store) return section({ id: "store", title: "Store", short: "Store", empty: "The store was not listed." });
  const rows = doc.store.by_function.filter((row) => pass(row));
  const most = Math.max(...doc.store.by_function.map((row) => row.bytes), 0);
  const columns = [
    byName,
    counted("Entries", "entries"),
    {
      name: "Share",
      value: (row) => row.bytes,
      first: true,
      show: (row) => bar(row.bytes / (most || 1), "size"),
      kind: "broad",
      lesser: true,
    },
    right(
      "Size",
      (row) => row.bytes,
      (row) => write.bytes(row.bytes),
    ),
  ];
  const note = `${write.many(doc.store.entries, "entry", "entries")}, ${write.bytes(doc.store.bytes)}.`;
  return section({
    id: "store",
    title: "Store by function",
    short: "Store",
    note,
    count: [rows.length, doc.store.by_function.length, "function", "functions"],
    empty: "The store is empty.",
    body: rows.length
      ? table({
          id: "store",
          caption: "The store by function",
          columns,
          rows,
          key: (row) => row.function || "",
          sort: [3, true],
        })
      : null,
  });
}

function neverSection(doc, pass) {
  if (!doc.never_hit) return null;
  const rows = doc.never_hit.filter((row) => pass(row));
  const columns = [
    {
      ...byName,
      show: (row) => [
        h("bdi", { class: "name" }, row.function || "(no function)"),
        h("span", { class: "place" }, write.key(row.key)),
      ],
    },
    right(
      "Created",
      (row) => row.created,
      (row) => write.time(row.created),
      true,
    ),
    lasting("Took to compile", "compile_seconds"),
    right(
      "Size",
      (row) => row.bytes,
      (row) => write.bytes(row.bytes),
    ),
  ];
  const more = (row) =>
    facts(
      [
        ["Key", code(row.key)],
        ["Variant", row.variant],
        ["Created", write.time(row.created)],
        ["Look closer", code(`warmgraph show ${row.key}`)],
      ],
      "lines",
    );
  return section({
    id: "never",
    title: "Entries never hit",
    short: "Never hit",
    note: "In these events, nobody loaded them.",
    left: doc.never_hit_count - doc.never_hit.length,
    count: [rows.length, doc.never_hit.length, "entry", "entries"],
    empty: "Every entry was hit.",
    body: rows.length
      ? table({
          id: "never",
          caption: "Entries never hit",
          columns,
          rows,
          key: (row) => `${row.key} ${row.variant}`,
          more,
          sort: [3, true],
        })
      : null,
  });
}
