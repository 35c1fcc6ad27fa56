// Tables: a head that orders, rows that open, a filter that the pooler applies. Of many rows the first hundreds are drawn.

import { el, redraw } from "./draw.js";
import { line, number } from "./words.js";

// columns: { key, title, number, draw(row) → node or text, wide, hide: "phone" }
export class Table {
  constructor({ columns, order = {}, open = null, name, asks = null, none }) {
    Object.assign(this, { columns, open, name, asks, none });
    this.by = order.by ?? "";
    this.down = order.down ?? false;
    this.text = "";
    this.head = el("thead");
    this.body = el("tbody");
    this.foot = el("p", { class: "count", "aria-live": "polite" });
    this.grid = el("div", { class: "scroll" }, el("table", {}, this.head, this.body));
    this.missing = el("div", {});
    this.filter = el("input", {
      type: "search", class: "filter", placeholder: "Filter", "aria-label": `Filter ${name}`, "data-filter": true,
      oninput: () => {
        this.text = this.filter.value;
        this.asks?.();
      },
    });
    this.element = el("section", { class: "listing", "aria-label": name },
      asks ? el("div", { class: "bar" }, this.filter, this.foot) : null, this.grid, this.missing);
    this.drawHead();
  }

  // What the pooler is asked for.
  get query() {
    return { text: this.text, by: this.by, down: this.by ? this.down : undefined };
  }

  drawHead() {
    const cell = (column) => {
      const sorted = this.by === column.key;
      const attributes = { class: classes(column), scope: "col", "aria-sort": sorted ? (this.down ? "descending" : "ascending") : null };
      if (!this.asks || column.fixed) return el("th", attributes, column.title);
      const choose = () => {
        this.down = sorted ? !this.down : Boolean(column.number);
        this.by = column.key;
        this.drawHead();
        this.asks();
      };
      return el("th", attributes, el("button", { type: "button", onclick: choose }, column.title));
    };
    redraw(this.head, el("tr", {}, this.columns.map(cell)));
  }

  show(rows, { total = rows.length, fitting = rows.length } = {}) {
    redraw(this.body, rows.map((row) => {
      const opens = this.open && {
        class: "opens", tabindex: 0, onclick: () => this.open(row), onkeydown: (event) => event.key === "Enter" && this.open(row),
      };
      return el("tr", { "data-key": row.key, ...opens },
        this.columns.map((column) => el("td", { class: classes(column), "data-title": column.title }, column.draw ? column.draw(row) : plain(row[column.key], column))));
    }));
    const of = fitting < total ? ` of ${number(total)}` : "";
    this.foot.textContent = rows.length < fitting ? `${number(rows.length)} shown, ${number(fitting)} fit${of}` : `${number(fitting)}${of}`;
    this.grid.hidden = rows.length === 0;
    redraw(this.missing, rows.length === 0 ? this.none?.(total) : null);
  }
}

const classes = (column) =>
  [column.number ? "number" : "", column.wide ? "wide" : "", column.hide ? `not-${column.hide}` : ""].filter(Boolean).join(" ");

function plain(value, column) {
  if (value === null || value === undefined) return "";
  return column.number ? number(value) : line(value);
}

// A table that is closed until somebody opens it, and not there while it has no rows.
export class Folded {
  constructor(title, table) {
    this.table = table;
    this.title = el("summary", {}, title, el("span", {}));
    this.element = el("details", { class: "folded", hidden: true }, this.title, table.element);
  }

  show(rows, count) {
    this.title.lastChild.textContent = ` · ${number(count)}`;
    this.element.hidden = rows.length === 0;
    this.table.show(rows);
  }
}
