/* Tables that can be sorted and opened, and lists that begin short. Which rows there are is not decided here. */

const FIRST_ROWS = 12;
/* What the reader has done, kept while data comes and goes. */
const state = { text: "", outcome: "", host: "", sort: new Map(), open: new Set(), whole: new Set(), ids: new Map() };

/* An id that stays with a thing from one drawing to the next, so that focus can. */
function idOf(name) {
  if (!state.ids.has(name)) state.ids.set(name, `id-${state.ids.size}`);
  return state.ids.get(name);
}

function simpleTable(caption, names, rows) {
  const cell = ([content, side], index) =>
    h(index === 0 ? "th" : "td", { scope: index === 0 && "row", class: side }, content);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "quiet" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          names.map((name, index) => h("th", { scope: "col", class: rows[0]?.[index]?.[1] }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => h("tr", {}, row.map(cell))),
      ),
    ),
  );
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
}

/* One table. columns: {name, value: row => to sort by, show: row => content, side, lesser}; the first names the row.
   key: row => what the row is known by. more: row => what opens under it.
   below: row => what always stands under it. sort: [column's index, descending]. */
function table({ id, caption, columns, rows, key, more, below, sort }) {
  if (!state.sort.has(id)) state.sort.set(id, sort);
  const body = h("table", { class: "sortable" });
  const foot = h("div", { class: "foot" });
  const heads = columns.map((column, index) => head(id, column, index, () => draw()));
  body.append(h("caption", { class: "quiet" }, caption), h("thead", {}, h("tr", {}, heads)));

  function draw() {
    const [by, down] = state.sort.get(id);
    heads.forEach((th, index) => {
      if (index === by) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const { value } = columns[by];
    const sorted = [...rows].sort((a, b) => (down ? -1 : 1) * compare(value(a), value(b)));
    const shown = state.whole.has(id) ? sorted : sorted.slice(0, FIRST_ROWS);
    body.querySelectorAll("tbody").forEach((old) => old.remove());
    body.append(...shown.map((row) => group(id, columns, row, { key, more, below })));
    foot.replaceChildren(...(rows.length > FIRST_ROWS ? [whole(id, rows.length, draw)] : []));
  }

  draw();
  return [h("div", { class: "scroll" }, body), foot];
}

function head(id, column, index, draw) {
  const press = () => {
    const [by, down] = state.sort.get(id);
    state.sort.set(id, [
      index,
      by === index ? !down : typeof column.first === "boolean" ? column.first : column.side === "right",
    ]);
    draw();
  };
  const button = h(
    "button",
    { type: "button", id: idOf(`sort ${id} ${index}`), onclick: press },
    column.name,
    h("span", { class: "arrow", "aria-hidden": "true" }),
  );
  return h("th", { scope: "col", class: classes(column) }, button);
}

const classes = (column) => [column.side, column.lesser && "lesser", column.kind].filter(Boolean).join(" ") || null;

/* A row, and under it what opens: a body of its own, so that they stay together. */
function group(id, columns, row, { key, more, below }) {
  const name = `${id} ${key(row)}`;
  const cells = columns.map((column, index) => [index, column, column.show(row)]);
  const line = h("tr", {});
  const tbody = h("tbody", {}, line);
  const under = more && { id: idOf(`under ${name}`), hidden: true };
  for (const [index, column, content] of cells) {
    const inside = index === 0 && more ? opener(name, content, under.id, (open) => unfold(open)) : content;
    line.append(h(index === 0 ? "th" : "td", { scope: index === 0 && "row", class: classes(column) }, inside));
  }
  if (below) tbody.append(h("tr", { class: "below" }, h("td", { colspan: columns.length }, below(row))));
  let opened = null;
  function unfold(open) {
    if (open && !opened) {
      opened = h("tr", { ...under, class: "under" }, h("td", { colspan: columns.length }, more(row)));
      tbody.append(opened);
    }
    if (opened) opened.hidden = !open;
  }
  if (more && state.open.has(name)) unfold(true);
  return tbody;
}

function opener(name, content, target, unfold) {
  const button = h("button", { type: "button", class: "opener", id: idOf(`open ${name}`) }, h("span", {}, content));
  const tell = (open) => {
    button.setAttribute("aria-expanded", String(open));
    if (open) button.setAttribute("aria-controls", target); /* what it controls is only there once opened */
  };
  button.addEventListener("click", () => {
    const open = !state.open.has(name);
    state.open[open ? "add" : "delete"](name);
    unfold(open);
    tell(open);
  });
  tell(state.open.has(name));
  return button;
}

function whole(id, count, draw) {
  const all = state.whole.has(id);
  const press = () => {
    state.whole[all ? "delete" : "add"](id);
    draw();
    document.getElementById(idOf(`whole ${id}`))?.focus({ preventScroll: true });
  };
  const text = all ? `Show the first ${FIRST_ROWS}` : `Show all ${write.count(count)}`;
  return h("button", { type: "button", class: "more", id: idOf(`whole ${id}`), onclick: press }, text);
}

/* A part of the page that opens, and stays open when it is drawn again. Its inside is made when first needed. */
function folded(name, summary, inside) {
  const details = h("details", { open: state.open.has(name) }, h("summary", { id: idOf(`fold ${name}`) }, summary));
  const make = () =>
    details.open && details.children.length === 1 && details.append(h("div", { class: "inside" }, inside()));
  details.addEventListener("toggle", () => {
    state.open[details.open ? "add" : "delete"](name);
    make();
  });
  make();
  return details;
}
