// Who waits for a lock behind whom, drawn as trees: the one in everybody's way first.

import { objects, table } from "./ask.js";
import { code, el, empty, fill, redraw } from "./draw.js";
import { aged, line, number, statement } from "./words.js";
import { Table } from "./table.js";

// Of those who wait directly behind one, so many are drawn until one asks for more.
const FEW = 6;

export function locks({ me }) {
  const trees = el("section", { class: "card" });
  const counts = el("section", { class: "card" });
  const element = el("div", {}, el("div", { class: "heading" }, el("h1", {}, "Locks"), el("span", { class: "hint" }, "who is in whose way, now")),
    el("div", { class: "grid" }, trees), counts);
  const opened = new Set();
  const countTable = new Table({
    name: "lock counts",
    columns: [
      { title: "Server", key: "server" },
      { title: "Mode", draw: (row) => line(row.mode ?? "none") },
      { title: "Held", number: true, key: "held" },
      { title: "Waiting, all modes", number: true, key: "waiting" },
      { title: "Fast path, all modes", number: true, key: "fast_path" },
      { title: "Counted", number: true, draw: (row) => (Number(row.age) < 1 ? "now" : `${aged(row.age)} ago`) },
    ],
    none: () => empty("Locks have not been counted yet.", "They are counted once a minute, and when somebody waits."),
  });

  function draw(rows, cut) {
    if (rows.length === 0) {
      redraw(trees, me.interval === 0
        ? empty("Nobody looks.", "With ", code("observe_interval = 0"), " locks are not read.")
        : empty("Nobody waits for a lock.", "Who does appears here within a second or two, below the one in the way."));
      return;
    }
    const roots = [];
    const path = [];
    for (const row of rows) {
      const node = { row, children: [], key: `${row.server} ${row.pid}` };
      const depth = Number(row.depth);
      path.length = Math.min(depth, path.length);
      (path.at(-1)?.children ?? roots).push(node);
      path.push(node);
    }
    redraw(trees, el("ul", { class: "tree" }, roots.map(drawNode)), cut);
  }

  function drawNode(node) {
    const { row, children, key } = node;
    const all = opened.has(key) || children.length <= FEW + 1;
    const shown = all ? children : children.slice(0, FEW);
    const open = () => {
      opened.add(key);
      tick();
    };
    return el("li", { "data-key": key }, described(row), children.length === 0 ? null : el("ul", {}, shown.map(drawNode),
      all ? null : el("li", {}, el("button", { type: "button", onclick: open }, `${number(children.length - FEW)} more`))));
  }

  function described(row) {
    const waits = row.waits_for !== null;
    const who = `${line(row.database ?? "")} / ${line(row.user ?? "")}`;
    const client = row.client_id === null ? el("span", { class: "dim" }, "not through the pooler")
      : el("a", { href: `#client/${row.client_id}` }, `client #${row.client_id}`);
    return el("div", { class: "node", colour: waits ? "var(--line)" : "var(--alarm)" },
      el("div", { class: "first" },
        waits ? el("strong", {}, `waits ${aged(row.waiting)} for ${line(row.waits_for)}`, row.object ? [" on ", code(line(row.object))] : null)
          : el("strong", {}, line(row.state ?? "active"), row.transaction_age ? `, in its transaction for ${aged(row.transaction_age)}` : ""),
        Number(row.blocking) > 0 ? el("span", { class: "behind" }, `${number(row.blocking)} behind it`) : null,
        !waits && row.blocks_with ? el("span", { class: "dim" }, `holds ${line(row.blocks_with)}`, row.blocks_on ? ` on ${line(row.blocks_on)}` : "") : null),
      el("div", { class: "first dim" }, [`pid ${row.pid}`, who].map((text) => el("span", {}, text)), client, row.application_name ? el("span", {}, line(row.application_name)) : null,
        row.class && row.class !== "default" ? el("span", {}, line(row.class)) : null, row.tags ? el("span", { class: "tags" }, line(row.tags)) : null),
      row.query ? el("div", { class: "sql", title: statement(row.query) }, statement(row.query, row.tags)) : null,
      row.note ? el("div", { class: "note" }, line(row.note)) : null);
  }

  async function tick() {
    const [tree, counted] = await Promise.all([table("LOCKS", { rows: 500 }), table("LOCK_COUNTS")]);
    const cut = tree && tree.fitting > tree.rows.length ? el("p", { class: "count" }, `${number(tree.rows.length)} of ${number(tree.fitting)} are drawn.`) : null;
    draw(objects(tree), cut);
    countTable.show(objects(counted));
    fill(counts, el("div", { class: "heading" }, el("h2", {}, "Locks held")), countTable.element);
  }

  return { element, tick };
}
