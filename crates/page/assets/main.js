// The frame: views by the address's hash, one question a second, keys, theme, logout.

import { ask, logout, Refused } from "./ask.js";
import { el, fill } from "./draw.js";
import { line } from "./words.js";
import { now } from "./now.js";
import { locks } from "./locks.js";
import { clients, holders, statements } from "./lists.js";
import { client } from "./client.js";

const VIEWS = [
  { name: "now", title: "Now", make: now },
  { name: "locks", title: "Locks", make: locks },
  { name: "statements", title: "Statements", make: statements },
  { name: "holders", title: "Holders", make: holders },
  { name: "clients", title: "Clients", make: clients },
  { name: "client", title: "Client", make: client, within: "clients" },
];

const PERIOD = 1000;

const at = (id) => document.getElementById(id);
const me = await ask("me").catch(() => null);
if (!me) location.replace("/login");

let view = null;
let turn = 0;

// `#client/17` is the view `client` of `17`.
function read() {
  const [name, rest = ""] = location.hash.slice(1).split("/");
  return [VIEWS.find((one) => one.name === name) ?? VIEWS[0], decoded(rest)];
}

// Anybody may write an address, and a lone `%` in it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function open() {
  const [chosen, rest] = read();
  view?.close?.();
  view = chosen.make({ me, rest, sure });
  view.name = chosen.name;
  for (const link of at("views").children) {
    if (link.hash === `#${chosen.within ?? chosen.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${chosen.title} · pgweir`;
  fill(at("view"), view.element);
  tick();
}

async function tick() {
  const mine = ++turn;
  const shown = view;
  try {
    if (!document.hidden) await shown.tick();
    at("state").textContent = "";
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return;
    if (!(error instanceof Refused || error instanceof TypeError)) console.error(error);
    at("state").textContent = error instanceof Refused ? line(error.message) : error instanceof TypeError ? "no answer" : "cannot draw";
  }
  if (mine === turn) setTimeout(() => mine === turn && tick(), shown.period ?? PERIOD);
}

// Asks before something is done that cannot be undone. Gives the choice; false: it is not to be done.
function sure(question, ...choices) {
  return new Promise((told) => {
    const dialog = at("sure");
    const choice = (says) => () => {
      dialog.close();
      told(says);
    };
    fill(dialog, el("p", {}, question), el("div", { class: "choice" },
      el("button", { type: "button", onclick: choice(false) }, "No"),
      choices.map((one) => el("button", { type: "button", class: one.calm ? null : "danger", onclick: choice(one) }, one.verb ?? one))));
    dialog.oncancel = () => told(false);
    dialog.showModal();
  });
}

const KEYS = [
  ["1 … 5", "Now, Locks, Statements, Holders, Clients"],
  ["/", "filter"],
  ["← →", "in Now: one second back or on (with Shift: ten)"],
  ["Esc", "back to what is so now; out of a filter"],
  ["t", "light or dark"],
  ["?", "these keys"],
];

function help() {
  fill(at("help"), el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, KEYS.map(([key, what]) =>
    el("tr", {}, el("td", {}, key.split(" ").map((one) => [one === "…" ? "… " : el("kbd", {}, one), " "])), el("td", {}, what))))),
  el("div", { class: "choice" }, el("button", { type: "button", onclick: () => at("help").close() }, "Close")));
  at("help").showModal();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target instanceof HTMLInputElement) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const number = "12345".indexOf(event.key);
  const filter = document.querySelector("[data-filter]");
  if (number >= 0 && event.key.length === 1) location.hash = VIEWS[number].name;
  else if (event.key === "/" && filter) filter.focus();
  else if (event.key === "t") globalThis.pgweirSwitchTheme();
  else if (event.key === "?") help();
  else if (!view?.key?.(event)) return;
  event.preventDefault();
});

if (me) {
  fill(at("views"), VIEWS.filter((one) => !one.within).map((one) => el("a", { href: `#${one.name}` }, one.title)));
  at("where").textContent = line(`${me.user} @ ${me.host}`);
  at("where").title = me.version;
  at("theme").addEventListener("click", () => globalThis.pgweirSwitchTheme());
  at("keys").addEventListener("click", help);
  at("leave").addEventListener("click", logout);
  // The hash says which view is shown: the link to it must leave it as it is.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    at("view").focus();
  });
  addEventListener("hashchange", open);
  document.addEventListener("visibilitychange", () => !document.hidden && tick());
  open();
}
