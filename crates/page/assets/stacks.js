// Flame graphs, of the pooler or of a client's backend: a button, and the picture that came of it. For administrators, and where a tool can be used.

import { ask, order } from "./ask.js";
import { el, fill } from "./draw.js";
import { line, visible } from "./words.js";

// How often it is asked whether a tool can be used, in ticks of the view.
const ROUND = 5;

// `subject`: {} is the pooler, { client } the backend that a client has.
export function stacks({ me, sure, subject, what }) {
  const told = el("span", { class: "note", role: "status" });
  const button = el("button", { type: "button", hidden: true, "aria-label": `Stacks of ${what}`, onclick: begin }, "Stacks");
  const element = el("section", { class: "card", hidden: true });
  let ways = {};
  let mine = null;
  let round = 0;

  async function begin() {
    const gdb = "gdb shows where each thread is, waiting or not, and stops the process for 0.1 to 0.5 s at each sample.";
    const choices = [ways.perf && { verb: "By perf", by: "perf", calm: true }, ways.gdb && { verb: "By gdb", by: "gdb" }].filter(Boolean);
    const perf = ways.perf ? "perf shows what runs on a CPU, and stops nothing." : null;
    const chosen = await sure([`Sample the stacks of ${what} for 3 s?`, perf, ways.gdb ? gdb : null].filter(Boolean).join(" "), ...choices);
    if (!chosen) return;
    try {
      mine = (await order("stacks", { ...subject, by: chosen.by })).number;
      button.disabled = true;
      told.textContent = "Stacks are being sampled.";
    } catch (error) {
      told.textContent = line(error.message);
    }
  }

  function show({ number, summary, error }) {
    mine = null;
    if (error) {
      told.textContent = line(error);
      return;
    }
    told.textContent = "The flame graph is there.";
    const picture = `/stacks/${number}.svg`;
    fill(element, el("div", { class: "heading" }, el("h2", {}, "Stacks"),
      el("span", { class: "hint" }, "a box is a function, as wide as its share of the samples, on its caller"),
      el("span", { class: "push" },
        el("a", { href: picture, target: "_blank", rel: "noopener" }, "Open it alone, with names"),
        el("button", { type: "button", onclick: () => { element.hidden = true; button.focus(); } }, "Close"))),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Flame graph" }, el("img", { class: "flames", src: picture, alt: `Flame graph of ${what}: ${line(summary)}` })),
    el("pre", { class: "sql" }, visible(summary.trimEnd())));
    element.hidden = false;
  }

  return {
    told, button, element,
    async tick() {
      if (!me.admin || (mine === null && round++ % ROUND !== 0)) return;
      const asked = mine;
      const known = await ask("stacks", subject);
      ways = known;
      // What was begun meanwhile is not in this answer.
      if (asked !== null && known.last && known.last.number === asked) show(known.last);
      else if (asked !== null && known.now !== asked) {
        mine = null;
        told.textContent = "Nothing came of it.";
      }
      button.hidden = !(known.perf || known.gdb || mine !== null);
      button.disabled = known.now !== null || mine !== null;
    },
  };
}
