// One client: what it is, what it does, and what it did in the last hour.

import { ask, objects, order, orElse, table } from "./ask.js";
import { colourOf } from "./charts.js";
import { chip, code, el, empty, fill, redraw } from "./draw.js";
import { stacks } from "./stacks.js";
import { aged, clock, lasted, line, statement, visible } from "./words.js";
import { Table } from "./table.js";

export function client({ me, rest, sure }) {
  const number = /^\d{1,10}$/.test(rest) ? rest : "0";
  const facts = el("section", { class: "card" });
  const life = el("section", { class: "card" });
  const told = el("span", { class: "note", role: "status" });
  const flames = stacks({ me, sure, subject: { client: number }, what: `the backend of client #${number}` });
  const cancel = el("button", { type: "button", class: "danger", hidden: !me.admin, onclick: () => give("cancel", `Cancel what client #${number} runs? It gets an error, and stays connected.`, "Cancel query", "Its query is being cancelled.") }, "Cancel query");
  const end = el("button", { type: "button", class: "danger", hidden: !me.admin, onclick: () => give("disconnect", `Disconnect client #${number}? Its transaction is rolled back.`, "Disconnect", "It is being disconnected.") }, "Disconnect");
  const element = el("div", {}, el("div", { class: "heading" }, el("a", { href: "#clients" }, "Clients"), el("h1", {}, `Client #${number}`), el("span", { class: "push" }, told, flames.told, flames.button, cancel, end)),
    el("div", { class: "grid" }, facts, flames.element), life);
  const runs = new Table({
    name: "what it did",
    columns: [
      { title: "From", draw: (run) => el("a", { href: `#now/${run.from}` }, clock(run.from)) },
      { title: "For", number: true, draw: (run) => lasted((run.to - run.from + 1) * 1000) },
      { title: "", draw: (run) => chip(run.wait_class === run.wait_event ? run.wait_class : `${line(run.wait_class)} · ${line(run.wait_event)}`, colourOf(run.wait_class)) },
      { title: "Statement", wide: true, draw: (run) => el("span", { class: "sql", title: statement(run.who.statement) }, statement(run.who.statement) || "–") },
      { title: "Behind", draw: (run) => (run.behind ? el("span", {}, `${line(run.behind.database)} / ${line(run.behind.user)}`, run.behind.tags ? el("span", { class: "tags" }, ` ${line(run.behind.tags)}`) : null) : "") },
    ],
    none: () => empty("Nothing is known of it.", me.interval === 0 ? ["With ", code("observe_interval = 0"), " there is no history."] : "In no second of the last hour was it seen to wait or to work. What lasts less than a second is seen by chance."),
  });

  async function give(path, question, verb, done) {
    if (!(await sure(question, verb))) return;
    try {
      await order(path, { client: number });
      told.textContent = done;
    } catch (error) {
      told.textContent = line(error.message);
    }
  }

  function drawFacts(connected, busy) {
    cancel.disabled = end.disabled = !connected;
    if (!connected) {
      return redraw(facts, empty("This client is not connected any more.", "What it did is below, as long as it is in the hour."));
    }
    const all = [
      ["State", busy?.state ?? connected.state], ["Pool", `${connected.database} / ${connected.user}`], ["Class", connected.class],
      ["Application", connected.application_name], ["From", connected.addr === "unix" ? "unix" : `${connected.addr}:${connected.port}`],
      ["Connected since", connected.connect_time], ["TLS", connected.tls || "no"],
      ["Waits for", busy?.wait_event_type ? `${busy.wait_event_type} · ${busy.wait_event}` : null],
      ["Waits for a server", busy?.waiting ? aged(busy.waiting) : null], ["Had waited", busy?.queued && Number(busy.queued) > 0 ? aged(busy.queued) : null],
      ["In its transaction", busy?.transaction_age ? aged(busy.transaction_age) : null], ["Backend", busy?.pid], ["Blocked by", busy?.blocked_by],
      ["Behind it", busy?.blocking], ["Keeps its server for", busy?.keeps], ["Tags", busy?.tags],
    ];
    redraw(facts, el("dl", { class: "facts" }, all.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, line(value))))),
      busy?.query ? el("pre", { class: "sql" }, visible(busy.query)) : null);
  }

  function drawLife(seen) {
    const to = Math.floor(Date.now() / 1000);
    const from = Math.max(to - 3600, Math.min(seen.runs[0]?.from ?? to, to - 300));
    const span = to - from;
    const strip = el("div", { class: "life", role: "img", "aria-label": "The last hour" }, seen.runs.filter((run) => run.to >= from).map((run) => {
      const piece = el("i", { colour: colourOf(run.wait_class), share: (Math.min(run.to, to) - Math.max(run.from, from) + 1) / span, title: `${clock(run.from)} ${line(run.wait_class)}` });
      piece.style.setProperty("--from", String((Math.max(run.from, from) - from) / span));
      return piece;
    }));
    runs.show([...seen.runs].reverse().slice(0, 200));
    fill(life, el("div", { class: "heading" }, el("h2", {}, "Its last hour"), el("span", { class: "hint" }, "second by second, where it was seen to wait or to work")),
      strip, el("div", { class: "ends" }, el("span", {}, clock(from)), el("span", {}, "now")), runs.element);
  }

  return {
    element,
    period: 2000,
    async tick() {
      const [connected, busy, seen] = await Promise.all([
        table("CLIENTS", { column: "id", is: number }), table("ACTIVITY", { column: "client_id", is: number }), ask(`client/${number}`).catch(orElse({ runs: [] }))]);
      drawFacts(objects(connected)[0], objects(busy)[0]);
      drawLife(seen);
      await flames.tick();
    },
  };
}
