// The hosts among which databases choose: which is the primary, how far the others are behind, and why clients are sent there or not.

import { chip, el, empty } from "./draw.js";
import { bytes, lasted, line } from "./words.js";
import { Table } from "./table.js";

const ROUNDS = 5;
const GOOD = "var(--busy)";
const BAD = "var(--wait-lock)";
const OTHER = "var(--idle)";

// Not there where each database has one host, and it answers. Those are asked for seldom.
export class Hosts {
  constructor(ask) {
    this.ask = ask;
    this.round = 0;
    this.table = table();
    this.element = el("section", { class: "card", hidden: true, "aria-label": "Hosts" },
      el("div", { class: "heading" }, el("h2", {}, "Hosts"), el("span", { class: "hint" }, "of databases with several: where clients that write are sent, and why")), this.table.element);
  }

  async tick() {
    if (this.element.hidden && this.round++ % ROUNDS !== 0) return;
    const rows = await this.ask();
    this.element.hidden = rows.length === 0 || (rows.length === 1 && rows[0].up === "1");
    this.table.show(rows.map((row) => ({ ...row, key: `${row.host}:${row.port}` })));
  }
}

const colour = (row) => (row.up === "0" || row.disputed === "1" ? BAD : row.role === "primary" ? GOOD : OTHER);

function table() {
  return new Table({
    name: "hosts",
    columns: [
      { title: "Host", draw: (row) => line(`${row.host}:${row.port}`) },
      { title: "Role", draw: (row) => chip(line(row.role ?? "not known"), colour(row)) },
      { title: "State", draw: (row) => (row.up === "0" || row.disputed === "1" ? el("span", { class: "note" }, line(row.why)) : line(row.why)) },
      { title: "Timeline", number: true, draw: (row) => row.timeline ?? "" },
      { title: "Epoch", number: true, draw: (row) => row.epoch ?? "" },
      { title: "Behind", number: true, draw: (row) => (row.lag === null || row.role !== "standby" ? "" : bytes(row.lag)) },
      { title: "Probed", number: true, draw: (row) => (row.probed === null ? "" : `${lasted(row.probed)} ago`) },
      { title: "Patroni", hide: "phone", draw: (row) => line(row.patroni ?? "") },
      { title: "Databases", wide: true, draw: (row) => line(row.databases ?? "") },
    ],
    none: () => empty("No database has several hosts."),
  });
}
