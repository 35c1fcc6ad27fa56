// The lock tree: who waits for a lock behind whom, the root with the most behind it first. Equal waiters are one line with a count that unfolds.
//
// A line: { key, depth, count, members: [{ pid, client, waiting }], behind, server, database, user, class, application, tags, statement, waits, object, holds,
// state, transaction, note }, ages in milliseconds.

import { code, el, redraw } from "./draw.js";
import { lasted, line, number, statement } from "./words.js";

// Of those who wait directly behind one, so many lines are drawn until one asks for more.
const FEW = 6;

// Lines of SHOW LOCKS. `fold` makes one line of those that are equal.
export function linesNow(rows) {
  return fold(rows.map((row) => ({
    key: `${row.server} ${row.pid}`,
    depth: Number(row.depth),
    count: 1,
    members: [{ pid: Number(row.pid), client: row.client_id, waiting: row.waiting === null ? 0 : Number(row.waiting) * 1000 }],
    behind: Number(row.blocking),
    server: row.server, database: row.database, user: row.user, class: row.class, application: row.application_name, tags: row.tags ?? "",
    statement: row.query, waits: row.waits_for, object: row.object, holds: row.holds ?? "", state: row.state,
    transaction: row.transaction_age === null ? null : Number(row.transaction_age) * 1000,
    note: row.note,
  })));
}

// Lines of a second of the history, which has folded them already.
export function linesThen(locks) {
  return locks.map((row) => ({
    key: `${row.server} ${row.members[0]?.pid} ${row.depth} ${row.who.statement}`,
    depth: row.depth, count: row.count, members: row.members, behind: row.behind_it, server: row.server, database: row.who.database, user: row.who.user,
    class: row.who.class, application: row.application_name, tags: row.tags, statement: row.who.statement, waits: row.waits_for, object: row.object,
    holds: row.holds, state: row.state, transaction: row.transaction, note: row.note,
  }));
}

// A statement without what differs from one call to the next.
const shape = (text) => statement(text, true).trim().replace(/'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b/g, "?");

// The tags that both have: those of single requests differ.
function common(one, other) {
  const theirs = new Set(other.split(" "));
  return one.split(" ").filter((tag) => theirs.has(tag)).join(" ");
}

export function fold(lines) {
  const path = [];
  const known = new Map();
  const folded = [];
  lines.forEach((own, place) => {
    path.length = own.depth;
    const behind = path.at(-1);
    path.push(own.key);
    const isLeaf = !(lines[place + 1]?.depth > own.depth);
    if (own.depth === 0 || !isLeaf) return folded.push(own);
    const key = JSON.stringify([behind, own.database, own.user, own.class, own.waits, own.object, shape(own.statement)]);
    const first = known.get(key);
    if (!first) {
      // Behind a leaf there are at most those that come after it in a queue.
      const leaf = { ...own, behind: 0 };
      known.set(key, leaf);
      return folded.push(leaf);
    }
    first.count += 1;
    first.members = [...first.members, ...own.members];
    first.tags = common(first.tags, own.tags);
    if (first.application !== own.application) first.application = "";
    return null;
  });
  return folded;
}

export class Tree {
  // `most`: lines that are drawn until somebody asks for the whole tree.
  constructor({ most = Infinity } = {}) {
    this.most = most;
    this.isWhole = false;
    this.element = el("div", {});
    this.opened = new Set();
    this.last = [];
  }

  show(lines, ...more) {
    this.last = [lines, more];
    const isCut = !this.isWhole && lines.length > this.most + 1;
    const roots = [];
    const path = [];
    for (const one of isCut ? lines.slice(0, this.most) : lines) {
      const node = { one, children: [] };
      path.length = Math.min(one.depth, path.length);
      (path.at(-1)?.children ?? roots).push(node);
      path.push(node);
    }
    const whole = () => {
      this.isWhole = true;
      this.show(lines, ...more);
    };
    redraw(this.element, el("ul", { class: "tree" }, roots.map((node) => this.drawn(node))),
      isCut ? el("button", { type: "button", class: "rest", onclick: whole }, `${number(lines.length - this.most)} more lines`) : null, more);
  }

  turn(key) {
    if (!this.opened.delete(key)) this.opened.add(key);
    this.show(this.last[0], ...this.last[1]);
  }

  drawn({ one, children }) {
    const few = `${one.key} children`;
    const all = this.opened.has(few) || children.length <= FEW + 1;
    const shown = all ? children : children.slice(0, FEW);
    return el("li", { "data-key": one.key }, this.described(one), children.length === 0 ? null : el("ul", {}, shown.map((node) => this.drawn(node)),
      all ? null : el("li", {}, el("button", { type: "button", onclick: () => this.turn(few) }, `${number(children.length - FEW)} more`))));
  }

  described(one) {
    const who = `${line(one.database ?? "")} / ${line(one.user ?? "")}`;
    const isOpen = this.opened.has(one.key);
    return el("div", { class: "node", colour: one.waits ? "var(--line)" : "var(--alarm)" },
      el("div", { class: "first" },
        one.count > 1 ? el("button", { type: "button", class: "count", "aria-expanded": String(isOpen), onclick: () => this.turn(one.key) }, `${number(one.count)} clients`) : null,
        waitsFor(one), one.behind > 0 ? el("span", { class: "behind" }, `${number(one.behind)} behind it`) : null, has(one)),
      el("div", { class: "first dim" }, one.count > 1 ? null : el("span", {}, `pid ${one.members[0]?.pid}`), el("span", {}, who),
        one.count > 1 ? null : client(one.members[0]), one.application ? el("span", {}, line(one.application)) : null,
        one.class && one.class !== "default" ? el("span", {}, line(one.class)) : null, one.tags ? el("span", { class: "tags" }, line(one.tags)) : null),
      one.statement ? el("div", { class: "sql", title: statement(one.statement) }, statement(one.statement, one.tags)) : null,
      one.note ? el("div", { class: "note" }, line(one.note)) : null,
      one.count > 1 && isOpen ? members(one) : null);
  }
}

// PostgreSQL's word for the lock of a transaction, on which others wait for rows that it has changed.
const ROWS = "transactionid";

function waitsFor(one) {
  if (!one.waits) return el("strong", {}, line(one.state || "active"), one.transaction ? `, in its transaction for ${lasted(one.transaction)}` : "");
  const longest = Math.max(...one.members.map((member) => member.waiting));
  const begun = `${one.count > 1 ? "wait up to" : "waits"} ${lasted(longest)} for`;
  if (one.object === ROWS) return el("strong", { title: `${line(one.waits)} on ${ROWS}` }, `${begun} a row that the one above has changed`);
  return el("strong", {}, `${begun} ${line(one.waits)}`, one.object ? [" on ", code(line(one.object))] : null);
}

// One that waits may have what others wait for, or be before them in the queue.
function has(one) {
  if (one.holds) {
    const locks = one.holds.split(", ");
    const shown = locks.map((lock) => (lock.endsWith(` on ${ROWS}`) ? "rows that it has changed" : line(lock)));
    return el("span", { title: line(one.holds) }, `holds ${shown.join(", ")}`);
  }
  return one.waits && one.behind > 0 ? el("span", { class: "dim" }, "before them in the queue") : null;
}

const client = (member) => (member?.client === null || member?.client === undefined ? el("span", { class: "dim" }, "no client of the pooler")
  : el("a", { href: `#client/${member.client}` }, `client #${member.client}`));

// The ids of equal waiters: those that are kept.
function members(one) {
  return el("ul", { class: "members" }, one.members.map((member) => el("li", {}, client(member), el("span", { class: "dim" }, ` pid ${member.pid}, ${lasted(member.waiting)}`))),
    one.count > one.members.length ? el("li", { class: "dim" }, `${number(one.count - one.members.length)} more`) : null);
}
