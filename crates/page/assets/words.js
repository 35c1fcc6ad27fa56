// Numbers, times and texts as people read them.

const thin = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${one.format(value / 1e9)} G`;
  if (size >= 1e6) return `${one.format(value / 1e6)} M`;
  if (size >= 1e5) return `${one.format(value / 1e3)} k`;
  if (size > 0 && size < 0.1) return small(value);
  if (size > 0 && size < 10 && !Number.isInteger(Number(value))) return one.format(value);
  return thin.format(value);
}

// Two digits that count: 0.03 is not 0.0.
const two = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const small = (value) => (Math.abs(value) < 0.001 ? "< 0.001" : two.format(value));

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let size = Number(value);
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${at === 0 || size >= 100 ? thin.format(size) : one.format(size)} ${units[at]}`;
}

// Of milliseconds.
export function lasted(ms) {
  if (ms === null || ms === undefined || ms === "") return "";
  const value = Number(ms);
  if (value < 0.001) return value === 0 ? "0" : "< 1 µs";
  if (value < 1) return `${thin.format(value * 1000)} µs`;
  if (value < 10) return `${one.format(value)} ms`;
  if (value < 1000) return `${thin.format(value)} ms`;
  if (value < 60_000) return `${(value < 10_000 ? one : thin).format(Math.floor(value / 100) / 10)} s`;
  const minutes = Math.floor(value / 60_000);
  const seconds = String(Math.floor(value / 1000) % 60).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${seconds} min`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`;
}

// Of seconds, as the console writes them.
export const aged = (seconds) => (seconds === null || seconds === undefined ? "" : lasted(Number(seconds) * 1000));

export const clock = (second) =>
  new Date(second * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// The marks of an axis of time. Where it is longer than 20 hours, the first mark of each day has the date.
export function marks(seconds, length) {
  let before = null;
  return seconds.map((second) => {
    const at = new Date(second * 1000);
    const parts = { hour: "2-digit", minute: "2-digit" };
    if (at.getSeconds() !== 0) parts.second = "2-digit";
    const time = at.toLocaleTimeString("en-GB", parts);
    if (length <= 20 * 3600) return time;
    const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const isNew = day !== before;
    before = day;
    if (!isNew) return time;
    return time === "00:00" ? day : `${day} ${time}`;
  });
}

// Characters that a terminal or a browser would act on are shown as what they are.
// eslint-disable-next-line no-control-regex
const ACTIVE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function visible(text) {
  return String(text ?? "").replace(ACTIVE, (sign) => {
    const at = sign.codePointAt(0);
    if (at === 0x09) return "  ";
    if (at < 0x20) return String.fromCodePoint(0x2400 + at);
    if (at === 0x7f) return "\u2421";
    return `\u2039U+${at.toString(16).toUpperCase().padStart(4, "0")}\u203a`;
  });
}

// In one line.
export const line = (text) => visible(String(text ?? "").replace(/\s*\n\s*/g, " \u240a "));

// A statement's lines in one. Where its tags are shown apart, without the comments before and behind it.
export function statement(text, tags = null) {
  const lines = String(text ?? "").replace(/\s+/g, " ").trim();
  return visible(tags ? lines.replace(/^\/\*.*?\*\/ ?|(?<!\/)\/\*[^/]*?\*\/;?$/g, "") || lines : lines);
}
