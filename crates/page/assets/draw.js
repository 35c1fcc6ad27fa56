// Elements. Whatever comes from outside enters as text: there is no other way in here.
//
// What is drawn again each second keeps the nodes that stay, so that a reader's focus and selection stay, too.

// What an element does on an event: `redraw` gives it another one.
const actions = new WeakMap();

function act(element, event, action) {
  if (!actions.has(element)) actions.set(element, {});
  const known = actions.get(element);
  if (!(event in known)) element.addEventListener(event, (happened) => actions.get(element)[event]?.(happened));
  known[event] = action;
}

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) act(element, key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "share") element.style.setProperty("--share", String(value));
    else if (key === "colour") element.style.setProperty("--colour", value);
    else if (key === "depth") element.style.setProperty("--depth", String(value));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...there(children));
  return element;
}

const there = (children) => children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
const nodes = (children) => there(children).map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));

// Gives an element these children. Those that it has already are not taken out.
export function fill(element, ...children) {
  put(element, nodes(children));
}

// Gives an element children that were made for this one time: where it has one of the same kind, that one becomes as the new one is. Children with a
// `data-key` follow their key, others their place.
export function redraw(element, ...children) {
  const focus = document.activeElement;
  become(element, nodes(children));
  if (focus !== document.activeElement && element.contains(focus)) focus.focus({ preventScroll: true });
}

function put(element, wanted) {
  const stay = new Set(wanted);
  for (const child of [...element.childNodes]) if (!stay.has(child)) child.remove();
  let at = element.firstChild;
  for (const node of wanted) {
    if (node === at) at = at.nextSibling;
    else element.insertBefore(node, at);
  }
}

const keyOf = (node) => node.dataset?.key;

function become(element, wanted) {
  const old = [...element.childNodes];
  const byKey = new Map(old.filter(keyOf).map((node) => [keyOf(node), node]));
  const others = old.filter((node) => !keyOf(node));
  put(element, wanted.map((node) => {
    const key = keyOf(node);
    const known = key ? byKey.get(key) : others.shift();
    if (key) byKey.delete(key);
    if (!known || known.nodeName !== node.nodeName) return node;
    renew(known, node);
    return known;
  }));
}

function renew(known, node) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (known.data !== node.data) known.data = node.data;
    return;
  }
  for (const { name } of [...known.attributes]) if (!node.hasAttribute(name) && name !== "style") known.removeAttribute(name);
  for (const { name, value } of node.attributes) if (name !== "style" && known.getAttribute(name) !== value) known.setAttribute(name, value);
  if (known.style.cssText !== node.style.cssText) known.style.cssText = node.style.cssText;
  const does = actions.get(node) ?? {};
  for (const event of Object.keys(actions.get(known) ?? {})) if (!(event in does)) act(known, event, undefined);
  for (const [event, action] of Object.entries(does)) act(known, event, action);
  become(known, [...node.childNodes]);
}

// What is missing, and what would bring it.
export function empty(title, ...words) {
  return el("div", { class: "empty" }, el("strong", {}, title), el("p", {}, ...words));
}

export const code = (text) => el("code", {}, text);

// A coloured square and a word.
export const chip = (text, colour, kind = "") => el("span", { class: `chip ${kind}`, colour }, text);
