// Charts of the hour, by uPlot. A click chooses a second; all charts show the same one.

import { el } from "./draw.js";
import { marks, number } from "./words.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Told apart without red and green: by Okabe and Ito's colours, and by their order. Waits for the pooler are on top.
const CLASSES = [
  ["CPU", "--wait-cpu"], ["IO", "--wait-io"], ["Client", "--wait-client"], ["IPC", "--wait-ipc"], ["Timeout", "--wait-timeout"],
  ["Activity", "--wait-activity"], ["Extension", "--wait-extension"], ["InjectionPoint", "--wait-extension"], ["BufferPin", "--wait-pin"],
  ["Buffer", "--wait-pin"], ["LWLock", "--wait-lwlock"], ["Lock", "--wait-lock"], ["Pool", "--wait-pool"],
];
const names = CLASSES.map(([name]) => name);

export const colourOf = (wait) => {
  const found = CLASSES.find(([name]) => name === wait);
  return `var(${found ? found[1] : "--wait-other"})`;
};

const MEANINGS = {
  CPU: "runs", IO: "reads or writes files", Client: "waits for its client", IPC: "waits for another process", Timeout: "sleeps",
  LWLock: "waits for memory that others use", Lock: "waits for a lock", BufferPin: "waits for a page in use", Buffer: "waits for a page in use",
  Pool: "waits for a server of its pool", Extension: "waits in an extension", Activity: "rests",
};
export const meaningOf = (wait) => MEANINGS[wait] ?? "";

const place = (name) => (names.includes(name) ? names.indexOf(name) : names.indexOf("Extension"));
export const inOrder = (classes) => classes.map((name, at) => [name, at]).sort((a, b) => place(a[0]) - place(b[0]));

const resolved = (colour) => (colour.startsWith("var(") ? css(colour.slice(4, -1)) : colour);

// What was chosen is drawn as a line; the cursor is shared.
function chosen(choice) {
  return {
    hooks: {
      draw: (plot) => {
        const at = choice.at;
        if (at === null || at < plot.scales.x.min || at > plot.scales.x.max) return;
        const x = Math.round(plot.valToPos(at, "x", true));
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = css("--ink");
        ctx.lineWidth = devicePixelRatio;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.restore();
      },
    },
  };
}

export class Chart {
  // series: [{ name, colour, area }]; stacked: later ones lie on earlier ones.
  constructor({ title, unit = "", height, choice, format = number, stacked = false, hint = "" }) {
    Object.assign(this, { title, unit, height, choice, format, stacked, series: [] });
    this.legend = el("ul", { class: "legend" });
    this.plotted = el("div", { class: "plot" });
    this.element = el("figure", { class: "chart" },
      el("figcaption", {}, el("h2", {}, title), hint ? el("span", { class: "hint" }, hint) : null), this.plotted, this.legend);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.plotted);
    this.remake = () => this.make();
    addEventListener("pgweir-theme", this.remake);
  }

  // What is outside of the element knows it no more: the window, and the other charts, whose cursor it shares.
  close() {
    this.observer.disconnect();
    removeEventListener("pgweir-theme", this.remake);
    this.plot?.destroy();
    this.plot = null;
    this.closed = true;
  }

  fit() {
    const width = this.plotted.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
    else if (!this.plot && width > 0) this.make();
  }

  make() {
    const width = this.plotted.clientWidth;
    if (this.closed || width === 0 || this.series.length === 0) return;
    this.plot?.destroy();
    const axis = {
      stroke: () => css("--muted"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false },
      font: `11px ${css("--font")}`,
    };
    const drawn = this.stacked ? [...this.series].reverse() : this.series;
    const lines = drawn.map((one) => {
      const colour = resolved(one.colour);
      return {
        label: one.name, stroke: colour, width: this.stacked ? 0 : 1.5, points: { show: false }, spanGaps: false,
        fill: this.stacked ? colour : one.area ? `${colour}26` : undefined,
      };
    });
    const options = {
      width, height: this.height, padding: [8, 16, 0, 0], legend: { show: false },
      cursor: { sync: { key: "hour" }, points: { show: !this.stacked, size: 6 }, drag: { x: false, y: false }, y: false },
      scales: { x: { time: true, range: () => this.range ?? [0, 1] }, y: { range: (_, least, most) => [0, nice(most)] } },
      axes: [
        { ...axis, size: 26, space: 80, values: (_, at) => marks(at, this.range ? this.range[1] - this.range[0] : 0) },
        { ...axis, size: 46, space: 32, gap: 6, values: (_, at) => at.map((value) => this.format(value)) },
      ],
      series: [{}, ...lines], plugins: [chosen(this.choice)],
    };
    this.plot = new globalThis.uPlot(options, this.drawable(), this.plotted);
    this.plot.over.addEventListener("click", () => {
      const at = this.plot.cursor.idx;
      if (at !== null && at !== undefined) this.choice.choose(this.plot.data[0][at]);
    });
    this.plot.over.setAttribute("role", "img");
    this.plot.over.setAttribute("aria-label", `${this.title}: click for one second`);
  }

  drawable() {
    if (!this.at) return [[], ...this.series.map(() => [])];
    if (!this.stacked) return [this.at, ...this.lines];
    const sums = new Array(this.at.length).fill(0);
    const layers = this.lines.map((line) => line.map((value, at) => {
      if (value === null) return null;
      sums[at] += value;
      return sums[at];
    }));
    return [this.at, ...layers.reverse()];
  }

  show(at, lines, series, range) {
    const changed = series.map((one) => one.name).join() !== this.series.map((one) => one.name).join();
    Object.assign(this, { at, lines, series, range });
    if (changed || !this.plot) {
      this.make();
      const item = (one) => el("li", { title: meaningOf(one.name) }, el("i", { colour: one.colour }), one.name, el("b", {}));
      this.legend.replaceChildren(...series.map(item));
    } else {
      this.plot.setData(this.drawable());
    }
    const last = (line) => line.findLast((value) => value !== null) ?? 0;
    [...this.legend.children].forEach((row, index) => {
      row.lastChild.textContent = `${this.format(last(lines[index]))}${this.unit}`;
    });
  }
}

const nice = (most) => {
  if (!(most > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * size >= most * 1.05) * size || most * 1.1;
};

// Where nobody looked there is no line.
export function withGaps(at, lines, step = 1) {
  const times = [];
  const kept = lines.map(() => []);
  at.forEach((second, index) => {
    if (index > 0 && second - at[index - 1] > 5 * step) {
      times.push(at[index - 1] + step);
      kept.forEach((line) => line.push(null));
    }
    times.push(second);
    kept.forEach((line, which) => line.push(lines[which][index]));
  });
  return [times, kept];
}
