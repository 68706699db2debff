/* The whole page: its first sentence, the overview, the filter, and (served live) fresh data. Runs once, at the end. */

const at = (id) => document.getElementById(id);
let doc = JSON.parse(at("data").textContent);

function headline() {
  const { totals, source, health } = doc;
  const lookups = totals.hits + totals.misses;
  if (!source.events) return "No events yet.";
  const bypassed = new Set(doc.bypasses.map(placeOf)).size;
  // Before all else: nothing that a cache can do is worse.
  const differing = doc.reasons.filter((row) => row.outcome === "verified" && row.reason === "differs");
  const wrong = differing.reduce((sum, row) => sum + row.count, 0);
  const rest = [
    wrong && write.many(wrong, "hit gave another result than a fresh compile", "hits gave other results than fresh compiles"),
    lookups
      ? `${write.share(totals.hit_rate)} of ${write.many(lookups, "lookup was a hit", "lookups were hits")}`
      : "Nothing was looked up",
    `${write.seconds(totals.seconds_saved)} of compiling saved`,
    bypassed ? write.many(bypassed, "function is bypassed", "functions are bypassed") : "nothing is bypassed",
    health.length && write.many(new Set(health.map((row) => row.tier)).size, "tier was sick", "tiers were sick"),
  ];
  return `${rest.filter(Boolean).join("; ")}.`;
}

function subtitle() {
  const { source, filters } = doc;
  const only = ["hosts", "ranks", "functions", "namespaces", "jobs"]
    .filter((name) => filters[name]?.length)
    .map((name) => `only ${name} ${filters[name].join(", ")}`);
  const span = source.first === null ? "" : `${write.time(source.first)} to ${write.time(source.last)}`;
  const parts = [
    `${write.many(source.events, "event", "events")} of ${write.many(source.processes, "process", "processes")} on ${write.many(source.hosts, "host", "hosts")}`,
    span,
    ...only,
    source.skipped > 0 && `${write.many(source.skipped, "line was", "lines were")} no events`,
  ];
  return [parts.filter(Boolean).join(" · "), " · ", h("bdi", { dir: "ltr" }, source.name)];
}

function tiles() {
  const { totals, store } = doc;
  const one = (term, value, note) =>
    h("div", { class: "tile" }, h("dt", {}, term), h("dd", {}, h("b", {}, value), note && h("span", {}, note)));
  return h(
    "dl",
    { class: "tiles" },
    one("Hit rate", write.share(totals.hit_rate), `${write.count(totals.hits)} hits`),
    one("Compiling saved", write.seconds(totals.seconds_saved), `${write.seconds(totals.seconds_spent)} spent in all`),
    one("Misses", write.count(totals.misses), `${write.seconds(totals.compile_seconds)} compiling`),
    one("Bypassed", write.count(totals.bypasses), "never cached"),
    one(
      "Failed",
      write.count(totals.failed),
      totals.skipped ? `${write.count(totals.skipped)} CUDA graphs skipped` : null,
    ),
    store ? one("Store", write.bytes(store.bytes), write.many(store.entries, "entry", "entries")) : null,
  );
}

function overview() {
  if (!doc.source.events)
    return [
      tiles(),
      h("p", { class: "none" }, 'Run a model with torch.compile(model, backend="warmgraph"), then look again.'),
    ];
  const rows = doc.over_time.map((span) => [
    [`${write.time(span.from)} to ${write.time(span.to, "clock")}`],
    ...["hits", "misses", "bypasses", "failed"].map((name) => [write.count(span[name]), "right"]),
    [write.share(rateOf(span)), "right"],
    [write.seconds(span.seconds_saved), "right"],
    [write.seconds(span.seconds_spent), "right"],
  ]);
  const kinds = ["hit", "miss", "bypass", "failed"].map((kind) =>
    h("li", {}, h("i", { class: `fill-${kind}` }), OUTCOMES[kind]),
  );
  const tiers = doc.tiers.map((tier) => [
    [h("bdi", {}, tier.tier)],
    [write.count(tier.hits), "right"],
    [write.bytes(tier.bytes), "right"],
    [write.seconds(tier.seconds_saved), "right"],
  ]);
  const phases = doc.phases.map((phase) => [
    [[h("i", { class: `mark ${phaseClass(phase.phase)}`, "aria-hidden": "true" }), h("bdi", {}, phase.phase)]],
    ...["hit", "miss", "bypass", "seconds"].map((name) => [phase[name] ? write.seconds(phase[name]) : "–", "right"]),
  ]);
  return [
    tiles(),
    doc.over_time.length
      ? h(
          "div",
          { class: "times" },
          h("div", { class: "charts" }, overTime(doc.over_time)),
          h("ul", { class: "legend", "aria-label": "Outcomes" }, kinds),
          folded("over time", "These charts as a table", () =>
            simpleTable(
              "Over time",
              ["Time", "Hits", "Misses", "Bypassed", "Failed", "Hit rate", "Saved", "Spent"],
              rows,
            ),
          ),
        )
      : null,
    h(
      "div",
      { class: "pair" },
      tiers.length
        ? h(
            "section",
            {},
            h("h2", {}, "Where hits came from"),
            simpleTable("Hits by tier", ["Tier", "Hits", "Loaded", "Saved"], tiers),
          )
        : null,
      phases.length
        ? h(
            "section",
            {},
            h("h2", {}, "Seconds by phase"),
            simpleTable("Seconds by phase", ["Phase", "In hits", "In misses", "In bypasses", "In all"], phases),
          )
        : null,
    ),
  ];
}

/* pass(row, outcome, hosts): does it pass the filter? Every word of the text must be in some text of the row. */
function passing() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = (value) =>
    Array.isArray(value)
      ? value.map(texts).join("\n")
      : typeof value === "string" || typeof value === "number"
        ? String(value)
        : "";
  return (row, outcome, hosts) => {
    if (outcome && state.outcome && outcome !== state.outcome) return false;
    if (hosts && state.host && !hosts.includes(state.host)) return false;
    if (!words.length) return true;
    const text = texts(Object.values(row)).toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

function lists() {
  const pass = passing();
  return [
    missesSection(doc, pass),
    fixes({
      id: "bypasses",
      title: "Bypasses and their fixes",
      short: "Bypasses",
      all: doc.bypasses,
      left: doc.bypasses_left_out,
      outcome: "bypass",
      pass,
      note: "Graphs that are never cached: each is compiled anew in every process, until this is changed.",
      empty: "Nothing is bypassed.",
    }),
    processesSection(doc, pass),
    functionsSection(doc, pass),
    againSection(doc, pass),
    fixes({
      id: "skips",
      title: "CUDA graphs skipped",
      short: "CUDA graphs",
      all: doc.skips,
      left: doc.skips_left_out,
      outcome: "skipped",
      pass,
      note: "Graphs that were to run in CUDA graphs, and run without.",
      empty: "No CUDA graph was skipped.",
    }),
    healthSection(doc),
    storeSection(doc, pass),
    neverSection(doc, pass),
  ].filter(Boolean);
}

function drawLists() {
  const focused = document.activeElement?.id;
  const parts = lists();
  at("lists").replaceChildren(...parts);
  at("parts").replaceChildren(...parts.map((part) => h("li", {}, h("a", { href: `#${part.id}` }, part.dataset.short))));
  const note = state.host
    ? "Processes and repeated keys of this host; other lists are not told apart by host. A page of one host: warmgraph audit --host HOST --html FILE"
    : "";
  at("host-note").textContent = note;
  if (focused && at(focused) && document.activeElement?.id !== focused) at(focused).focus({ preventScroll: true });
}

function draw() {
  const focused = document.activeElement?.id;
  document.title = `${plain(headline())} – warmgraph`;
  at("headline").textContent = plain(headline());
  at("subtitle").replaceChildren(...fill(h("p"), {}, [subtitle()]).childNodes);
  at("overview").replaceChildren(...overview().filter(Boolean));
  const hosts = [
    ...new Set([
      ...doc.processes.map((row) => row.host),
      ...doc.compiled_again.flatMap((row) => row.who.map((one) => one.host)),
    ]),
  ].sort();
  if (state.host && !hosts.includes(state.host)) hosts.push(state.host);
  at("host").replaceChildren(
    h("option", { value: "" }, "all hosts"),
    ...hosts.map((host) => h("option", { value: host, selected: host === state.host }, host)),
  );
  at("made").textContent = `warmgraph ${plain(doc.warmgraph)} · made ${write.time(doc.generated)}, times are local`;
  drawLists();
  if (focused && at(focused)) at(focused).focus({ preventScroll: true });
}

let waiting = 0;
function filterBy(name, value) {
  state[name] = value;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    drawLists();
    const rows = [...document.querySelectorAll("#lists h2 .number")].map((one) => one.textContent);
    at("told").textContent =
      state.text || state.outcome || state.host ? `Filtered: ${rows.length} lists have rows.` : "The filter is empty.";
  }, 60);
}

at("text").addEventListener("input", (event) => filterBy("text", event.target.value));
at("outcome").addEventListener("change", (event) => filterBy("outcome", event.target.value));
at("host").addEventListener("change", (event) => filterBy("host", event.target.value));
at("filter").addEventListener("submit", (event) => event.preventDefault());
at("filter").addEventListener("reset", () => {
  for (const name of ["text", "outcome", "host"]) filterBy(name, "");
});

/* Live: ask for fresh data while the page is looked at. A failure is told, and what was last read stays. */
let tag = null;
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch("audit.json", {
    headers: tag ? { "If-None-Match": tag } : {},
    cache: "no-store",
    signal: AbortSignal.timeout(20000),
  });
  if (answer.status === 200) {
    const fresh = await answer.json();
    tag = answer.headers.get("ETag");
    doc = fresh;
    draw();
  } else if (answer.status !== 304) throw new Error(`status ${answer.status}`);
}

function live(seconds) {
  const status = at("live");
  const again = async () => {
    const before = status.className;
    try {
      await refresh();
      status.className = "live";
      status.textContent = "live";
    } catch {
      status.className = "stale";
      if (before !== "stale")
        status.textContent = `not reachable since ${write.time(Date.now() / 1000, "second")}; this was last read`;
    }
    setTimeout(again, seconds * 1000);
  };
  document.addEventListener("visibilitychange", () => document.hidden || refresh().catch(() => {}));
  setTimeout(again, seconds * 1000);
}

draw();
if (document.documentElement.dataset.live) live(Number(document.documentElement.dataset.live));
