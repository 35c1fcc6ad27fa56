// Who waits for a lock behind whom now, and how many locks there are. The tree of a second of the past is in Now.

import { objects, table } from "./ask.js";
import { code, el, empty, fill } from "./draw.js";
import { aged, line, number } from "./words.js";
import { Table } from "./table.js";
import { Tree, linesNow } from "./tree.js";

export function locks({ me }) {
  const trees = el("section", { class: "card" });
  const counts = el("section", { class: "card" });
  const tree = new Tree();
  const element = el("div", {}, el("div", { class: "heading" }, el("h1", {}, "Locks"),
    el("span", { class: "hint" }, "who is in whose way, now; for a second of the past choose it in Now")), el("div", { class: "grid" }, trees), counts);
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
      fill(trees, me.interval === 0
        ? empty("Nobody looks.", "With ", code("observe_interval = 0"), " locks are not read.")
        : empty("Nobody waits for a lock.", "Who does appears here within a second or two, below the one in the way."));
      return;
    }
    tree.show(linesNow(rows), cut);
    fill(trees, tree.element);
  }

  async function tick() {
    const [shown, counted] = await Promise.all([table("LOCKS", { rows: 500 }), table("LOCK_COUNTS")]);
    const cut = shown && shown.fitting > shown.rows.length ? el("p", { class: "count" }, `${number(shown.rows.length)} of ${number(shown.fitting)} are drawn.`) : null;
    draw(objects(shown), cut);
    countTable.show(objects(counted));
    fill(counts, el("div", { class: "heading" }, el("h2", {}, "Locks held")), countTable.element);
  }

  return { element, tick };
}
