// Statements, holders and clients: tables that the pooler filters and orders.

import { ask, objects, orElse, table } from "./ask.js";
import { colourOf } from "./charts.js";
import { chip, code, el, empty, fill } from "./draw.js";
import { aged, lasted, line, number, statement } from "./words.js";
import { Folded, Table } from "./table.js";

const said = (text, tags) => el("span", { class: "sql", title: statement(text) }, statement(text, tags) || "–");
const us = (value) => (value === null || value === undefined ? "" : lasted(Number(value) / 1000));

function page(title, hint, ...parts) {
  return el("div", {}, el("div", { class: "heading" }, el("h1", {}, title), el("span", { class: "hint" }, hint)), ...parts);
}

async function show(list, name, make = (row) => row) {
  const shown = await table(name, list.query);
  list.show(objects(shown).map(make), shown ?? undefined);
  return shown;
}

// Columns of statements by samples.
const SUMS = [
  { title: "Sessions, on average", draw: (row) => el("div", { class: "share", share: row.samples / row.scale }, el("span", {}, number(row.samples / Math.max(1, row.looks))), el("i", {})) },
  { title: "Most", number: true, key: "most" },
  { title: "Seen in", number: true, draw: (row) => `${number((100 * row.seconds) / Math.max(1, row.looks))} %` },
  { title: "Statement", wide: true, draw: (row) => said(row.name) },
];

export function statements({ me }) {
  const tick = async () => {
    const to = Math.floor(Date.now() / 1000) + 5;
    const sums = me.admin && me.interval !== 0 ? await ask("waits", { from: to - 300, to, by: "statement" }).catch(orElse(null)) : null;
    const most = Math.max(1, ...(sums?.sums ?? []).map((sum) => sum.samples));
    const scaled = (list) => list.slice(0, 25).map((sum) => ({ ...sum, looks: sums.looks, scale: most }));
    waited.show(scaled(sums?.sums ?? []));
    own.show(scaled(sums?.own ?? []), sums?.own.length ?? 0);
    const counted = await show(queries, "QUERIES");
    missing.hidden = counted !== null;
    queries.element.hidden = counted === null;
  };
  const waited = new Table({
    name: "sessions at a time",
    columns: SUMS,
    none: () => (me.admin
      ? empty(me.interval === 0 ? "Nobody looks." : "Nothing has run in the last five minutes.", me.interval === 0 ? ["With ", code("observe_interval = 0"), " nothing is known of it."] : "")
      : empty("Statements are for administrators.", "Users of ", code("stats_users"), " see everything but these.")),
  });
  const own = new Folded("Statements of pgweir itself: its observer, checks, resets", new Table({ name: "pgweir's own statements", columns: SUMS }));
  const queries = new Table({
    name: "statements", asks: () => tick(), order: { by: "total_run_time", down: true },
    columns: [
      { key: "calls", title: "Calls", number: true },
      { key: "errors", title: "Errors", number: true, draw: (row) => (Number(row.errors) > 0 ? el("span", { class: "note" }, number(row.errors)) : "") },
      { key: "total_run_time", title: "Run, in all", number: true, draw: (row) => us(row.total_run_time) },
      { key: "p50_run_time", title: "p50", number: true, draw: (row) => us(row.p50_run_time) },
      { key: "p95_run_time", title: "p95", number: true, hide: "phone", draw: (row) => us(row.p95_run_time) },
      { key: "p99_run_time", title: "p99", number: true, draw: (row) => us(row.p99_run_time) },
      { key: "total_queue_time", title: "Queued, in all", number: true, draw: (row) => us(row.total_queue_time) },
      { key: "max_queue_time", title: "Longest", number: true, hide: "phone", draw: (row) => us(row.max_queue_time) },
      { key: "rows", title: "Rows", number: true, hide: "phone" },
      { key: "database", title: "Pool", draw: (row) => `${line(row.database)} / ${line(row.user)}` },
      { key: "statement", title: "Statement", wide: true, draw: (row) => said(row.statement) },
    ],
    none: (total) => (total ? empty("Nothing fits.") : empty("No statement has been counted yet.")),
  });
  const missing = el("div", { hidden: true }, empty("Statements are not counted.", code("track_statements = 1"), " counts calls, rows and times of each."));
  const element = page("Statements", "by fingerprint, without their constants",
    el("div", { class: "grid" }, el("section", { class: "card" }, el("div", { class: "heading" }, el("h2", {}, "What kept sessions busy"), el("span", { class: "hint" }, "the last five minutes, waits and runs")), waited.element, own.element)),
    el("section", { class: "card" }, el("div", { class: "heading" }, el("h2", {}, "Since the start"), el("span", { class: "hint" }, "time in the queue apart from time at PostgreSQL")), missing, queries.element));
  return { element, tick, period: 2000 };
}

export function holders({ me }) {
  const list = new Table({
    name: "holders", asks: () => show(list, "HOLDERS"), open: (row) => row.client_id !== null && (location.hash = `client/${row.client_id}`),
    columns: [
      { key: "held", title: "Held", number: true, draw: (row) => aged(row.held) },
      { key: "reason", title: "Why", draw: (row) => el("div", { class: "two-lines" }, el("span", {}, line(row.reason)), row.keeps ? el("span", { class: "dim" }, line(row.keeps)) : null) },
      { key: "idle", title: "Silent", number: true, draw: (row) => aged(row.idle) },
      { key: "wait_event_type", title: "Waits for", hide: "phone", draw: (row) => (row.wait_event_type ? chip(`${line(row.wait_event_type)} · ${line(row.wait_event)}`, colourOf(row.wait_event_type)) : "") },
      { key: "blocking", title: "Behind it", number: true, draw: (row) => (Number(row.blocking) > 0 ? el("span", { class: "note" }, number(row.blocking)) : "") },
      { key: "database", title: "Pool", draw: (row) => `${line(row.database)} / ${line(row.user)}` },
      { key: "waiting", title: "Queue", number: true },
      { key: "client_id", title: "Client", number: true, draw: (row) => (row.client_id === null ? "" : `#${row.client_id}`) },
      { key: "application_name", title: "Application", hide: "phone", draw: (row) => line(row.application_name ?? "") },
      { key: "query", title: "Statement", wide: true, draw: (row) => el("div", { class: "two-lines" }, said(row.query, row.tags), row.tags ? el("span", { class: "tags" }, line(row.tags)) : null) },
    ],
    none: (total) => (total ? empty("Nothing fits.") : me.interval === 0
      ? empty("Nobody looks.", "With ", code("observe_interval = 0"), " it is not known who has servers.")
      : empty("Nobody has a server at the moment.")),
  });
  const element = page("Holders", "who has the servers of a pool, for how long, and for what; those that wait for a lock come last", el("section", { class: "card" }, list.element));
  return { element, tick: () => show(list, "HOLDERS") };
}

export function clients() {
  const list = new Table({
    name: "clients", asks: () => show(list, "SESSIONS", keyed), order: { by: "state", down: true }, open: (row) => (location.hash = `client/${row.id}`),
    columns: [
      { key: "id", title: "Client", number: true, draw: (row) => `#${row.id}` },
      { key: "state", title: "State", draw: (row) => chip(line(row.state), row.state === "waiting" ? colourOf("Pool") : row.state === "active" ? colourOf("CPU") : colourOf("Timeout")) },
      { key: "wait", title: "Waiting", number: true, draw: (row) => (row.state === "waiting" ? lasted(Number(row.wait) * 1000 + Number(row.wait_us) / 1000) : "") },
      { key: "database", title: "Pool", draw: (row) => `${line(row.database)} / ${line(row.user)}` },
      { key: "class", title: "Class", draw: (row) => line(row.class ?? "") },
      { key: "application_name", title: "Application", draw: (row) => line(row.application_name ?? "") },
      { key: "tags", title: "Tags", draw: (row) => (row.tags ? el("span", { class: "tags" }, line(row.tags)) : "") },
      { key: "addr", title: "From", draw: (row) => line(row.addr === "unix" ? "unix" : `${row.addr}:${row.port}`) },
      { key: "connect_time", title: "Since", draw: (row) => line((row.connect_time ?? "").replace(/^\d+-\d+-\d+ /, "").replace(/ [A-Z+-]\S*$/, "")) },
    ],
    none: (total) => (total ? empty("Nobody fits.", "The filter looks at all columns.") : empty("No client is connected.")),
  });
  const element = page("Clients", "all that are connected; the pooler filters and orders", el("section", { class: "card" }, list.element));
  return { element, tick: () => show(list, "SESSIONS", keyed), period: 2000 };
}

const keyed = (row) => ({ ...row, key: row.id });
