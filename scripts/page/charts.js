/* Charts over time: SVG drawn to the width that there is, with a title and a description. The table is elsewhere. */

const HEIGHT = 132;
const EDGE = { left: 46, right: 6, top: 8, bottom: 20 };
let charts = 0;

/* A figure that is drawn anew whenever its width changes. draw(width) gives [nodes, height]. */
function figure(title, description, draw, note) {
  const id = `chart-${(charts += 1)}`;
  const holder = h("div", { class: "chart" });
  let drawn = 0;
  const again = (width) => {
    if (width < 40 || Math.abs(width - drawn) < 1) return;
    drawn = width;
    const [nodes, height] = draw(width);
    const about = [s("title", { id: `${id}-title` }, title), s("desc", { id: `${id}-about` }, description)];
    const size = { width, height, viewBox: `0 0 ${width} ${height}` };
    holder.replaceChildren(
      s(
        "svg",
        { ...size, role: "img", "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-about` },
        about,
        nodes,
      ),
    );
  };
  new ResizeObserver((entries) => again(Math.floor(entries[0].contentRect.width))).observe(holder);
  return h(
    "figure",
    {},
    h("figcaption", {}, h("strong", {}, title), note && h("span", { class: "note" }, note)),
    holder,
  );
}

/* A round number at or above `most`. EVEN: so that the half of it is round, too. */
const EVEN = [1, 2, 4, 6, 8, 10];
function ceiling(most, steps = [1, 2, 5, 10]) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return power * steps.find((step) => step * power >= most * 0.999);
}

/* The same for seconds: so many minutes or hours that the half of it is a round number too. */
function longest(most) {
  if (most <= 60) return ceiling(most, EVEN);
  if (most > 7200) return ceiling(most / 3600, EVEN) * 3600;
  return [2, 4, 10, 20, 30, 60, 120].find((minutes) => minutes * 60 >= most * 0.999) * 60;
}

function frame(width, buckets, low, high, label) {
  const inner = {
    x: EDGE.left,
    y: EDGE.top,
    width: width - EDGE.left - EDGE.right,
    height: HEIGHT - EDGE.top - EDGE.bottom,
  };
  const y = (value) => inner.y + inner.height * (1 - (value - low) / (high - low));
  const x = (index) => inner.x + (inner.width * index) / buckets.length;
  const lines = [low, (low + high) / 2, high].map((value) => [
    s("line", { class: "grid", x1: inner.x, x2: inner.x + inner.width, y1: y(value), y2: y(value) }),
    s("text", { class: "tick", x: inner.x - 6, y: y(value) + 4, "text-anchor": "end" }, label(value)),
  ]);
  return { inner, x, y, nodes: [...lines, ticks(buckets, inner)] };
}

function ticks(buckets, inner) {
  const [first, last] = [buckets[0].from, buckets[buckets.length - 1].to];
  const part = last - first > 2 * 86400 ? "day" : last - first > 120 ? "clock" : "second";
  const most = Math.max(2, Math.min(5, Math.floor(inner.width / 90)));
  const places = Array.from({ length: most }, (_, n) => n / (most - 1));
  return places.map((at) => {
    const anchor = at === 0 ? "start" : at === 1 ? "end" : "middle";
    const where = { x: inner.x + inner.width * at, y: HEIGHT - 5, "text-anchor": anchor };
    return s("text", { class: "tick", ...where }, write.time(first + (last - first) * at, part));
  });
}

/* One invisible column per bucket: what it holds, when pointed at. */
function columns(buckets, area, tell) {
  const { inner, x } = area;
  return buckets.map((bucket, index) => {
    const where = { class: "column", x: x(index), y: inner.y, width: x(index + 1) - x(index), height: inner.height };
    return s(
      "rect",
      where,
      s("title", {}, `${write.time(bucket.from)} to ${write.time(bucket.to, "clock")}\n${tell(bucket)}`),
    );
  });
}

/* values: [[class, bucket => number]], from the bottom up. */
function stacked(buckets, values, label, tell, upTo) {
  const most = upTo(
    Math.max(...buckets.map((bucket) => values.reduce((sum, [, of]) => sum + Math.max(0, of(bucket)), 0))),
  );
  return (width) => {
    const area = frame(width, buckets, 0, most, label);
    const step = area.inner.width / buckets.length;
    const gap = step > 5 ? Math.min(2, step / 5) : 0;
    const bars = buckets.map((bucket, index) => {
      let under = 0;
      return values.map(([kind, of]) => {
        const value = Math.max(0, of(bucket));
        if (!value) return null;
        const [bottom, top] = [area.y(under), area.y((under += value))];
        const size = { width: Math.max(0.5, step - gap), height: Math.max(0.8, bottom - top) };
        return s("rect", { class: `fill-${kind}`, x: area.x(index) + gap / 2, y: bottom - size.height, ...size });
      });
    });
    return [[area.nodes, bars, columns(buckets, area, tell)], HEIGHT];
  };
}

const rateOf = (bucket) => (bucket.hits + bucket.misses ? bucket.hits / (bucket.hits + bucket.misses) : null);

/* The hit rate; where nothing was looked up the line is broken. The scale begins lower where it must, and says so. */
function rates(buckets) {
  const known = buckets.map(rateOf).filter((rate) => rate !== null);
  const low = [0.9, 0.8, 0.5].find((base) => known.length && Math.min(...known) >= base) ?? 0;
  return (width) => {
    const area = frame(width, buckets, low, 1, (value) => `${Math.round(value * 100)}${GAP}%`);
    const middle = (index) => (area.x(index) + area.x(index + 1)) / 2;
    let path = "";
    const dots = [];
    buckets.forEach((bucket, index) => {
      const rate = rateOf(bucket);
      if (rate === null) return;
      const alone = index === 0 || rateOf(buckets[index - 1]) === null;
      path += `${alone ? "M" : "L"}${middle(index).toFixed(1)} ${area.y(rate).toFixed(1)}`;
      dots.push(s("circle", { class: "dot", cx: middle(index), cy: area.y(rate), r: buckets.length > 60 ? 1.2 : 2 }));
    });
    const tell = (bucket) =>
      `${write.share(rateOf(bucket))} of ${write.many(bucket.hits + bucket.misses, "lookup", "lookups")}`;
    return [[area.nodes, s("path", { class: "rate", d: path }), dots, columns(buckets, area, tell)], HEIGHT];
  };
}

function overTime(buckets) {
  const sum = (of) => buckets.reduce((total, bucket) => total + of(bucket), 0);
  const kinds = ["hit", "miss", "bypass", "failed"].map((kind) => [kind, (bucket) => bucket[OUTCOMES[kind]] || 0]);
  const tell = (bucket) => kinds.map(([kind, of]) => `${write.count(of(bucket))} ${OUTCOMES[kind]}`).join(", ");
  const each = `per ${write.round(buckets[0].to - buckets[0].from)}`;
  const low = Math.min(...buckets.map((bucket) => rateOf(bucket) ?? 1));
  return [
    figure("Hit rate", `Lowest ${write.share(low)}, over ${buckets.length} spans of time.`, rates(buckets), each),
    figure(
      "Outcomes",
      tell({ ...Object.fromEntries(kinds.map(([kind, of]) => [OUTCOMES[kind], sum(of)])) }),
      stacked(buckets, kinds, write.count, tell, (most) => Math.max(2, ceiling(most, EVEN))),
      each,
    ),
    figure(
      "Compiling saved",
      `${write.seconds(sum((bucket) => bucket.seconds_saved))} in all.`,
      stacked(
        buckets,
        [["saved", (bucket) => bucket.seconds_saved]],
        write.round,
        (bucket) => `${write.seconds(bucket.seconds_saved)} saved, ${write.seconds(bucket.seconds_spent)} spent`,
        longest,
      ),
      each,
    ),
  ];
}
