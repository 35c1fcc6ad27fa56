// Now, and any second of the last hour: why clients wait, what is waited for, how much is done, who waits behind whom.

import { ask, objects, orElse, saved, table } from "./ask.js";
import { Chart, colourOf, inOrder, meaningOf, withGaps } from "./charts.js";
import { chip, code, el, empty, fill, redraw } from "./draw.js";
import { Hosts } from "./hosts.js";
import { stacks } from "./stacks.js";
import { bytes, clock, lasted, line, number, statement } from "./words.js";
import { Folded, Table } from "./table.js";
import { Tree, linesThen } from "./tree.js";

const SPANS = [[300, "5 min"], [900, "15 min"], [3600, "1 hour"]];
// These are read from the files of observe_file. A point of their charts covers some minutes.
const FAR = [[21600, "6 hours"], [86400, "1 day"], [604800, "7 days"]];

export function now({ me, rest, sure }) {
  let span = SPANS[0][0];
  let wished = false;
  let hour = null;
  // Figures of the part of the past that the charts show. `null`: they show the end of the hour in memory.
  let far = null;
  // The question for such figures that is not answered yet.
  let looking = null;
  // By this number the pooler knows which question a new one replaces.
  const tab = crypto.getRandomValues(new Uint32Array(1))[0];
  const choice = { at: rest ? Number(rest) : null, choose };
  const wide = matchMedia("(max-width: 720px)").matches ? 210 : 250;
  const small = 150;
  const waits = new Chart({ title: "What sessions wait for", height: wide, choice, stacked: true, hint: "sessions at a time, by PostgreSQL's wait event; Pool: for a server" });
  const done = new Chart({ title: "Transactions", unit: " /s", height: small, choice });
  const queue = new Chart({ title: "Queue", height: small, choice });
  const servers = new Chart({ title: "Servers", height: small, choice, stacked: true });
  const all = [waits, done, queue, servers];
  const figures = el("section", { class: "figures", "aria-label": "Figures" });
  const moment = el("section", { class: "card" });
  const hosts = new Hosts(async () => objects(await table("HOSTS")));
  const rules = el("div", { class: "grid two" });
  const spans = el("span", { class: "choices", role: "group", "aria-label": "Span" });
  const missing = el("div", {});
  const tree = new Tree({ most: 6 });
  const told = el("div", {});
  const verdict = el("section", { class: "card", "aria-label": "Verdict", hidden: true }, told, tree.element);
  // Each with whether it is of trouble.
  let sentences = [];
  const failed = el("span", { class: "note", role: "status" });
  const save = el("button", { type: "button", hidden: me.interval === 0, title: "One page for a ticket: the span of the charts, or the chosen second", onclick: saveReport }, "Save report");
  const flames = stacks({ me, sure, subject: {}, what: "the pooler" });
  const charts = el("div", {}, el("div", { class: "grid" }, waits.element),
    el("div", { class: "grid three" }, done.element, queue.element, servers.element));
  const element = el("div", {}, el("div", { class: "heading" }, el("h1", {}, "Now"), el("span", { class: "push" }, failed, flames.told, save, flames.button, spans)),
    el("div", { class: "grid" }, verdict), el("div", { class: "grid" }, hosts.element), el("div", { class: "grid" }, flames.element), figures, missing, charts, el("div", { class: "grid" }, moment), rules);
  const head = el("div", { class: "heading" });
  const groups = groupTable();
  const own = new Folded("Connections of pgweir itself: its observer, checks, resets", groupTable());
  const opened = new Set();
  const worst = worstTable(opened, () => showWorst());
  let rows = [];
  const pools = poolTable();
  drawSpans();

  function choose(at) {
    choice.at = at;
    if (at === null && far?.around) leave();
    history.replaceState(null, "", at === null ? "#now" : `#now/${at}`);
    for (const chart of all) chart.plot?.redraw(false);
    drawSpans();
    lookAround();
    return drawMoment();
  }

  // The charts show the end of the hour again.
  function leave() {
    looking?.abort();
    looking = null;
    far = null;
    failed.textContent = "";
    drawSpans();
    drawCharts();
  }

  // A second that the charts do not show: an hour around it is read.
  function lookAround() {
    const at = choice.at;
    if (at === null || !hour?.at.length || looking) return;
    const [from, to] = far ? [far.from, far.to] : [hour.at[0], Infinity];
    if (at < from || at > to) look(at - 1800, at + 1800, true);
  }

  function drawSpans() {
    const zoom = far && far.step > 1 && choice.at !== null;
    redraw(spans, [...SPANS, ...FAR].map(([seconds, name]) => el("button", {
      type: "button", "aria-pressed": String(seconds === span),
      onclick: () => {
        span = seconds;
        wished = true;
        if (seconds > 3600) return hour?.at.length ? look(hour.at.at(-1) - seconds, hour.at.at(-1)) : null;
        leave();
      },
    }, name)), zoom ? el("button", { type: "button", onclick: () => look(choice.at - 1800, choice.at + 1800) }, "Its seconds") : null);
  }

  // Reads the figures of a part of the past and shows them. A newer question replaces one that is not answered. `around`: the part is shown because
  // a second of it was chosen.
  async function look(from, to, around = false) {
    looking?.abort();
    const mine = new AbortController();
    looking = mine;
    failed.textContent = "Reading the history …";
    try {
      const seen = await ask("span", { from, to, tab }, mine.signal);
      if (looking !== mine) return;
      const step = seen.at.reduce((least, at, index) => (index ? Math.min(least, at - seen.at[index - 1]) : least), to - from > 3600 ? 3600 : 1);
      far = { ...seen, from, to, around, step: to - from > 3600 ? step : 1 };
      failed.textContent = "";
    } catch (error) {
      if (looking !== mine) return;
      failed.textContent = line(error.message);
    }
    looking = null;
    drawSpans();
    drawCharts();
    drawFigures();
  }

  // Saves the document of `pgweir report` on the chosen second, or on the time that the charts show.
  async function saveReport() {
    const end = hour?.at.at(-1);
    if (!end) return;
    const [from, to] = choice.at !== null ? [choice.at, choice.at] : far ? [far.from, far.to] : [end - span, end];
    failed.textContent = "";
    save.disabled = true;
    try {
      await saved("report", { from, to, tab }, `pgweir-report-${new Date(from * 1000).toISOString().slice(0, 19).replace(/[:T]/g, "-")}.html`);
    } catch (error) {
      failed.textContent = line(error.message);
    }
    save.disabled = false;
  }

  // Equal victims are one row, and those that are kept follow it once it is opened.
  function showWorst() {
    worst.show(rows.flatMap((row) => [row, ...(opened.has(row.fold) ? row.alike.map((one) => ({ ...one, count_alike: 1, alike: [] })) : [])]));
  }

  async function more() {
    const last = hour?.at.at(-1) ?? 0;
    const part = await ask("hour", { since: last });
    if (!hour || (part.at.length > 0 && part.at[0] <= last)) {
      hour = part;
      return;
    }
    for (const [name, values] of Object.entries(part)) {
      if (name === "classes") continue;
      if (name === "samples") {
        values.forEach((list, place) => {
          hour.samples[place] = [...(hour.samples[place] ?? new Array(hour.at.length - list.length).fill(0)), ...list];
        });
      } else {
        hour[name].push(...values);
      }
    }
    hour.classes = part.classes;
    const old = hour.at.findIndex((at) => at > hour.at.at(-1) - 3600);
    if (old > 0) for (const list of [...Object.values(hour).filter((value) => typeof value[0] === "number"), ...hour.samples]) list.splice(0, old);
  }

  function drawCharts() {
    const any = hour && hour.at.length > 0;
    charts.hidden = !any;
    if (!any) {
      fill(missing, el("div", { class: "card" }, me.interval === 0
        ? empty("Nobody looks.", "With ", code("observe_interval = 0"), " there is no history. ", code("observe_interval = 1"), " looks once a second.")
        : empty("The first second is yet to come.", "Charts begin when the pooler has looked twice.")));
      return;
    }
    fill(missing);
    const end = hour.at.at(-1);
    const known = SPANS.find(([seconds]) => seconds >= end - hour.at[0])?.[0] ?? 3600;
    if (!wished && known !== span) {
      span = known;
      drawSpans();
    }
    const shown = far ?? hour;
    const range = far ? [far.from, far.to] : [end - span, end];
    const from = far ? 0 : hour.at.findIndex((at) => at >= end - span);
    const part = (list) => list.slice(from);
    const order = inOrder(shown.classes);
    const show = (chart, lines, series) => {
      const [at, kept] = withGaps(part(shown.at), lines.map(part), far?.step);
      chart.show(at, kept, series, range);
    };
    show(waits, order.length ? order.map(([, at]) => shown.samples[at]) : [shown.at.map(() => 0)],
      order.length ? order.map(([name]) => ({ name, colour: colourOf(name) })) : [{ name: "nothing", colour: "var(--wait-other)" }]);
    show(done, [shown.transactions], [{ name: "transactions", colour: "var(--busy)", area: true }]);
    show(queue, [shown.waiting], [{ name: "waiting clients", colour: "var(--wait-pool)", area: true }]);
    show(servers, [shown.servers_active, shown.servers_idle, shown.servers_login], [
      { name: "busy", colour: "var(--busy)" }, { name: "idle", colour: "var(--idle)" }, { name: "opened now", colour: "var(--login)" }]);
  }

  function drawFigures() {
    if (!hour || hour.at.length === 0) return fill(figures);
    const shown = choice.at !== null && far ? far : hour;
    if (shown.at.length === 0) return fill(figures);
    const index = choice.at === null ? hour.at.length - 1 : shown.at.findLastIndex((at) => at <= choice.at);
    if (index < 0) return fill(figures);
    const of = (name) => shown[name][index];
    const figure = (name, much, unit = "", alarm = false) =>
      el("div", { class: alarm ? "figure alarm" : "figure" }, el("div", { class: "name" }, name), el("div", { class: "much" }, much, unit ? el("small", {}, ` ${unit}`) : null));
    const opened = of("servers_active") + of("servers_idle") + of("servers_login");
    redraw(figures,
      figure("Transactions", number(of("transactions")), "/s"),
      figure("Waiting clients", number(of("waiting")), "", of("waiting") > 0 && of("longest_wait_ms") > 1000),
      figure("Longest wait", of("waiting") > 0 ? lasted(of("longest_wait_ms")) : "–", "", of("longest_wait_ms") > 1000),
      figure("Mean wait", lasted(of("wait_us") / 1000)),
      figure("Busy servers", number(of("servers_active")), `of ${number(opened)}`),
      figure("To clients", bytes(of("bytes_out")), "/s"));
  }

  async function drawMoment() {
    drawFigures();
    const at = choice.at ?? hour?.at.at(-1);
    if (!at) {
      showVerdict(null, []);
      return fill(moment, me.interval === 0 ? null : empty("Nothing has been seen yet."));
    }
    const seen = await ask("moment", { at }).catch(orElse(null));
    const live = choice.at === null;
    redraw(head,
      el("h2", {}, live ? "This second" : `At ${clock(at)}`),
      el("span", { class: "hint" }, live ? `${clock(at)} · click into a chart for another one` : "who waited, for what, and behind whom"),
      live ? null : el("span", { class: "push" },
        el("button", { type: "button", "aria-label": "A second earlier", onclick: () => choose(choice.at - 1) }, "←"),
        el("button", { type: "button", "aria-label": "A second later", onclick: () => choose(choice.at + 1) }, "→"),
        el("button", { type: "button", onclick: () => choose(null) }, "Back to now")));
    if (!live) sentences = (seen?.verdicts ?? []).map((sentence) => [sentence, true]);
    showVerdict(live ? null : at, seen?.locks ?? []);
    if (!seen) return fill(moment, head, empty("Nothing is known of that second.", "Memory has an hour (", code("observe_memory"), "); ", code("observe_file"), " reaches further back."));
    const most = Math.max(1, ...seen.groups.map((group) => group.count));
    const scaled = seen.groups.map((group) => ({ ...group, scale: most }));
    const ours = scaled.filter((group) => group.who.own);
    groups.show(scaled.filter((group) => !group.who.own));
    own.show(ours, ours.length);
    rows = seen.worst.filter((row) => !row.who.own).map((row) => ({ ...row, fold: JSON.stringify([row.who, row.wait_class, row.wait_event]) }));
    showWorst();
    pools.show(seen.pools);
    fill(moment, head,
      seen.hosts_missing > 0 ? el("p", { class: "note" }, `${seen.hosts_missing} PostgreSQL server(s) had not answered: their backends are missing here.`) : null,
      groups.element, own.element,
      rows.length > 0 ? [el("h3", { class: "more" }, "In detail"), worst.element] : null,
      seen.pools.length > 0 ? [el("h3", { class: "more" }, "Pools"), pools.element] : null);
  }

  // Why clients wait now, by SHOW WHY. A second of the past has its own sentences. Where nobody looks, hosts alone are in trouble.
  async function drawVerdict() {
    const rows = objects(await table("WHY")).filter((row) => row.database !== null || me.interval !== 0);
    if (choice.at === null) sentences = rows.map((row) => [row.sentence, row.database !== null]);
  }

  // The sentences, and who is in whose way. `at`: the second of the past that they are of.
  function showVerdict(at, locks) {
    redraw(told, at === null ? null : el("h2", {}, `At ${clock(at)}`), sentences.map(([sentence, isTrouble]) => el("p", { class: isTrouble ? "note" : "" }, line(sentence))));
    if (locks.length > 0) tree.show(linesThen(locks));
    tree.element.hidden = locks.length === 0;
    verdict.hidden = sentences.length === 0 && locks.length === 0;
  }

  async function drawRules() {
    const [classes, sizing] = await Promise.all([table("CLASSES"), table("SIZING")]);
    redraw(rules, classesCard(objects(classes)), sizingCard(objects(sizing)));
  }

  let round = 0;
  return {
    element,
    async tick() {
      if (me.interval !== 0 || !hour) {
        const isFirst = !hour?.at.length;
        await more();
        // The address may name a second from before the hour.
        if (isFirst) lookAround();
      }
      drawCharts();
      if (choice.at === null) await drawVerdict();
      await hosts.tick();
      if (choice.at === null || round === 0) await drawMoment();
      if (round++ % 5 === 0) await drawRules();
      await flames.tick();
    },
    close() {
      looking?.abort();
      looking = null;
      for (const chart of all) chart.close();
    },
    key(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step && hour?.at.length) choose((choice.at ?? hour.at.at(-1)) + step * (event.shiftKey ? 10 : 1));
      else if (event.key === "Escape" && choice.at !== null) choose(null);
      else return false;
      return true;
    },
  };
}

// Somebody who repeats: pool, class, tags.
const person = (who) => el("div", { class: "two-lines" },
  el("span", {}, who.database || who.user ? `${line(who.database)} / ${line(who.user)}` : "several",
    who.class && who.class !== "default" ? el("span", { class: "dim" }, ` · ${line(who.class)}`) : null),
  who.tags ? el("span", { class: "tags" }, line(who.tags)) : null);

const said = (text) => el("span", { class: "sql", title: statement(text) }, statement(text) || "–");

const event = (wait) => chip(wait.wait_class === wait.wait_event ? wait.wait_class : `${line(wait.wait_class)} · ${line(wait.wait_event)}`, colourOf(wait.wait_class));

function groupTable() {
  return new Table({
    name: "who did what",
    columns: [
      { title: "Sessions", draw: (row) => el("div", { class: "share", share: row.count / row.scale, colour: colourOf(row.wait_class) }, el("span", {}, number(row.count)), el("i", {})) },
      { title: "Waits for", draw: (row) => el("span", { title: meaningOf(row.wait_class) }, event(row)) },
      { title: "Who", draw: (row) => person(row.who) },
      { title: "Statement", wide: true, draw: (row) => said(row.who.statement) },
      { title: "Behind", draw: (row) => (row.behind ? el("div", { class: "two-lines" }, person(row.behind), said(row.behind.statement)) : "") },
    ],
    none: () => empty("Nobody did anything.", "No client had or waited for a server, and no backend was busy."),
  });
}

function worstTable(opened, draw) {
  const turn = (row) => (event) => {
    event.stopPropagation();
    if (!opened.delete(row.fold)) opened.add(row.fold);
    draw();
  };
  const count = (row) => el("button", { type: "button", class: "count", "aria-expanded": String(opened.has(row.fold)), onclick: turn(row), onkeydown: (event) => event.stopPropagation() },
    `${number(row.count_alike)} alike`);
  const who = (row) => `${row.client === null ? "stranger" : `#${row.client}`}${row.application_name ? ` ${line(row.application_name)}` : ""}`;
  return new Table({
    name: "in detail",
    open: (row) => {
      if (row.client !== null) location.hash = `client/${row.client}`;
    },
    columns: [
      { title: "Client", draw: (row) => el("div", { class: "two-lines" }, row.count_alike > 1 ? [count(row), el("span", { class: "dim" }, `the first ${who(row)}`)] : [el("span", {}, who(row)), el("span", { class: "dim" }, row.address ?? "")]) },
      { title: "pid", number: true, hide: "phone", draw: (row) => (row.pid === null ? "" : String(row.pid)) },
      { title: "Waits for", draw: event },
      { title: "Waiting", number: true, draw: (row) => lasted(row.waiting) },
      { title: "Queued", number: true, hide: "phone", draw: (row) => (row.queued > 0 ? lasted(row.queued) : "") },
      { title: "Transaction", number: true, draw: (row) => lasted(row.transaction) },
      { title: "Idle in it", number: true, hide: "phone", draw: (row) => lasted(row.idle) },
      { title: "Behind it", number: true, draw: (row) => (row.behind_it > 0 ? el("span", { class: "note" }, number(row.behind_it)) : "") },
      { title: "Behind pid", number: true, hide: "phone", draw: (row) => (row.blocker === null ? "" : row.root !== row.blocker && row.root !== null ? `${row.blocker} → ${row.root}` : String(row.blocker)) },
      { title: "Statement", wide: true, draw: (row) => el("div", { class: "two-lines" }, said(row.who.statement), row.all_tags ? el("span", { class: "tags" }, line(row.all_tags)) : null) },
    ],
  });
}

function poolTable() {
  return new Table({
    name: "pools",
    columns: [
      { title: "Pool", draw: (row) => `${line(row.database)} / ${line(row.user)}` },
      { title: "Clients", number: true, key: "clients" },
      { title: "Waiting", number: true, key: "waiting" },
      { title: "Longest wait", number: true, draw: (row) => (row.waiting > 0 ? lasted(row.longest_wait_ms) : "–") },
      { title: "Servers busy", number: true, key: "servers_active" },
      { title: "idle", number: true, key: "servers_idle" },
      { title: "opened now", number: true, key: "servers_login", hide: "phone" },
      { title: "Size by auto", number: true, draw: (row) => (row.auto_size > 0 ? number(row.auto_size) : "–") },
    ],
  });
}

function classesCard(rows) {
  const shown = new Table({
    name: "classes",
    columns: [
      { title: "Class", key: "class" },
      { title: "Weight", number: true, key: "weight" },
      { title: "Most servers", number: true, key: "max" },
      { title: "Busy", number: true, key: "sv_active" },
      { title: "Waiting", number: true, key: "cl_waiting" },
      { title: "Longest wait", number: true, draw: (row) => (row.maxwait_seconds && Number(row.maxwait_seconds) > 0 ? lasted(row.maxwait_seconds * 1000) : "–") },
      { title: "Refused", number: true, key: "refused" },
    ],
    none: () => empty("There are no classes.", "Clients are put into classes by ", code("[classes]"), " and ", code("[rules]"), " of the configuration."),
  });
  shown.show(rows);
  return el("section", { class: "card" }, el("div", { class: "heading" }, el("h2", {}, "Classes and their limits")), shown.element);
}

function sizingCard(rows) {
  const shown = new Table({
    name: "sizes",
    columns: [
      { title: "Pool", draw: (row) => `${line(row.database)} / ${line(row.user)}` },
      { title: "Size", number: true, key: "size" },
      { title: "From – to", number: true, draw: (row) => `${row.floor} – ${row.ceiling}` },
      { title: "Why, and what came before", wide: true, draw: (row) => el("div", { class: "two-lines" }, el("span", { title: line(row.why) }, line(row.why)), el("span", { class: "dim", title: line(row.changes) }, line(row.changes ?? ""))) },
    ],
    none: () => empty("No pool has its size found.", code("pool_size = auto"), " lets the pooler find how many servers do the most work."),
  });
  shown.show(rows);
  return el("section", { class: "card" }, el("div", { class: "heading" }, el("h2", {}, "What auto did, and why")), shown.element);
}
