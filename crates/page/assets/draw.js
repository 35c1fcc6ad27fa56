// Elements. Whatever comes from outside enters as text: there is no other way in here.

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "share") element.style.setProperty("--share", String(value));
    else if (key === "colour") element.style.setProperty("--colour", value);
    else if (key === "depth") element.style.setProperty("--depth", String(value));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const fill = (element, ...children) =>
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));

// What is missing, and what would bring it.
export function empty(title, ...words) {
  return el("div", { class: "empty" }, el("strong", {}, title), el("p", {}, ...words));
}

export const code = (text) => el("code", {}, text);

// A coloured square and a word.
export const chip = (text, colour, kind = "") => el("span", { class: `chip ${kind}`, colour }, text);
