"use strict";
(() => {
  const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const table = document.getElementById("layers");
  if (!table) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows].map((row, index) => ({
    row, index,
    cells: [...row.cells].map((cell) => cell.textContent),
    text: row.textContent.toLowerCase(),
    more: null,
  }));

  // Text and children are nodes, never markup: names of tensors may hold anything.
  const make = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const draw = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const short = (value) => String(Number(value.toPrecision(4)));
  const places = (text) => [...text].map((letter) => ALPHABET.indexOf(letter) / 63);

  // Sorting: numbers before dashes, ties in the order of the model.
  const numberOf = (text) => {
    if (text === "\u221e") return Infinity;
    const found = parseFloat(text.replace("<", "").replace("\u2212", "-"));
    return text.startsWith("<") ? 0.005 : found;
  };
  const compare = (column, sign) => (a, b) => {
    if (!heads[column].classList.contains("n")) {
      return sign * a.cells[column].localeCompare(b.cells[column]) || a.index - b.index;
    }
    const [x, y] = [numberOf(a.cells[column]), numberOf(b.cells[column])];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.index - b.index;
    return (x === y ? 0 : sign * (x < y ? -1 : 1)) || a.index - b.index;
  };
  const sortBy = (column) => {
    const way = heads[column].getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", way);
    rows.sort(compare(column, way === "ascending" ? 1 : -1));
    body.append(...rows.flatMap((each) => (each.more ? [each.row, each.more] : [each.row])));
  };

  const [find, state, operator] = ["find", "state", "operator"].map((id) => document.getElementById(id));
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const each of rows) {
      const fits = words.every((word) => each.text.includes(word))
        && (!state.value || each.cells[3] === state.value) && (!operator.value || each.cells[2] === operator.value);
      each.row.hidden = !fits;
      if (each.more) each.more.hidden = !fits || each.row.querySelector("button").getAttribute("aria-expanded") !== "true";
      count += fits;
    }
    document.getElementById("shown").textContent = `${count} of ${rows.length} nodes`;
  };

  // Drawings of a tensor, 400 units wide.
  const WIDTH = 400, HEIGHT = 150, FOOT = 26;
  const picture = (title, ...shapes) => draw("svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT + FOOT}`, role: "img", "aria-label": title },
    draw("title", {}, document.createTextNode(title)), ...shapes);
  const label = (x, text, anchor) => draw("text", { x, y: HEIGHT + 19, class: anchor }, document.createTextNode(text));
  const rule = (x, kind) => draw("line", { x1: x, x2: x, y1: 0, y2: HEIGHT, class: kind });

  const histogram = (tensor) => {
    const [start, width, text] = tensor.h || [0, 0, ""];
    const heights = places(text);
    // Outer bars end beyond what was seen, but for which nothing is there to show.
    const ends = [...(tensor.v || []), ...(tensor.r || [])];
    if (!ends.length) return null;
    const low = Math.min(...ends), high = Math.max(...ends);
    if (!(high > low)) return null;
    const x = (value) => ((value - low) / (high - low)) * WIDTH;
    const [from, to] = tensor.r || [low, high];
    const shapes = [];
    if (tensor.r) shapes.push(draw("rect", { x: x(from), y: 0, width: x(to) - x(from), height: HEIGHT, class: "span" }));
    heights.forEach((height, index) => {
      if (!height) return;
      const left = Math.max(start + index * width, low), right = Math.min(start + (index + 1) * width, high);
      const kind = tensor.r && tensor.c === 1 && (right <= from || left >= to) ? "cut" : "hist";
      const tall = Math.max(height * (HEIGHT - 8), 2);
      shapes.push(draw("rect", { x: x(left), y: HEIGHT - tall, width: Math.max(x(right) - x(left) - 0.4, 0.6), height: tall, class: kind }));
    });
    if (!tensor.h && tensor.v) {
      shapes.push(draw("rect", { x: x(tensor.v[0]), y: HEIGHT / 2 - 12, width: Math.max(x(tensor.v[1]) - x(tensor.v[0]), 2), height: 24, class: "hist" }));
    }
    if (tensor.r) shapes.push(rule(x(from), "keep"), rule(x(to), "keep"));
    shapes.push(draw("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: "zero" }));
    shapes.push(label(0, short(low), "start"), label(WIDTH, short(high), "end"));
    if (low < 0 && high > 0 && x(0) > 60 && x(0) < WIDTH - 60) shapes.push(label(x(0), "0", "mid"));
    return picture(`${tensor.h ? "Histogram (logarithmic)" : "Range"} of ${tensor.n}: ${range(tensor)}`, ...shapes);
  };

  const channels = (tensor) => {
    const [number, end, lows, highs, reach] = tensor.w;
    const columns = lows.length, width = WIDTH / columns;
    if (!columns || !end) return null;
    const y = (place) => HEIGHT * (1 - place);
    const [low, high, far] = [places(lows), places(highs), places(reach)];
    const shapes = low.map((value, index) => draw("rect", {
      x: index * width, width: Math.max(width - 0.6, 0.6), y: y(high[index]),
      height: Math.max(y(value) - y(high[index]), 1.5), class: "channel",
    }));
    for (const sign of [1, -1]) {
      const path = far.map((value, index) => `${index ? "L" : "M"}${index * width} ${HEIGHT / 2 - (sign * value * HEIGHT) / 2}h${width}`);
      if (far.some((value) => value > 0)) shapes.push(draw("path", { d: path.join(""), class: "reach" }));
    }
    shapes.push(draw("line", { x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "zero" }));
    shapes.push(label(0, "channel 0", "start"), label(WIDTH, String(number - 1), "end"));
    return picture(`Least and greatest weight of ${number} channels of ${tensor.n}, up to ${short(end)}; lines: what codes reach`, ...shapes);
  };

  const range = (tensor) => [
    tensor.v && `seen ${short(tensor.v[0])} to ${short(tensor.v[1])}`,
    tensor.r && `kept ${short(tensor.r[0])} to ${short(tensor.r[1])}`,
    tensor.x > 0 && `${short(100 * tensor.x)} % cut off`,
  ].filter(Boolean).join("; ");
  const facts = (tensor) => [
    `${tensor.k}, ${tensor.t}`,
    tensor.s && `shape ${tensor.s.join(" \u00d7 ")}`,
    tensor.c > 1 && `${tensor.c} scales, up to ${short(tensor.d)}`,
    tensor.c === 1 && `scale ${short(tensor.d)}, zero point ${tensor.z}`,
    range(tensor),
    tensor.q !== undefined && `expected ${tensor.q} dB`,
    tensor.m !== undefined && `measured ${tensor.m} dB`,
    tensor.p !== undefined && `its own rounding ${tensor.p} dB`,
    tensor.l > 0 && `${short(100 * tensor.l)} % clipped`,
    tensor.g !== undefined && `${short(100 * tensor.g)} % of the codes used`,
    tensor.u && `worst channels ${tensor.u.map(([channel, ratio]) => `${channel} (${ratio.toFixed(1)} dB)`).join(", ")}`,
    tensor.o !== undefined && `has the scale of ${data.tensors[tensor.o].n}`,
  ].filter(Boolean).join("; ");

  const block = (tensor, role) => {
    const made = make("div", {}, make("h3", {}, `${role}: ${tensor.n}`), make("p", {}, facts(tensor)));
    const drawn = histogram(tensor);
    if (drawn) made.append(drawn);
    const columns = tensor.w && channels(tensor);
    if (columns) made.append(make("p", {}, `${tensor.w[0]} channels: least and greatest weight; the line is what codes reach`), columns);
    return made;
  };
  const details = (index) => {
    const [inputs, outputs] = data.nodes[index];
    const blocks = [
      ...outputs.map((place) => block(data.tensors[place], "writes")),
      ...inputs.map((place) => block(data.tensors[place], "reads")),
    ];
    if (!blocks.length) return make("p", {}, "None of its tensors is quantized.");
    return make("div", { class: "tensors" }, ...blocks);
  };
  const toggle = (each, button) => {
    const opens = button.getAttribute("aria-expanded") !== "true";
    if (!each.more) {
      const list = heads.map((head, column) => `${head.textContent}: ${each.cells[column]}`).slice(2).join("; ");
      const id = `more-${each.index}`;
      each.more = make("tr", { class: "open", id },
        make("td", { colspan: heads.length }, make("p", {}, list), details(each.index)));
      button.setAttribute("aria-controls", id);
      each.row.after(each.more);
    }
    each.more.hidden = !opens;
    button.setAttribute("aria-expanded", String(opens));
  };

  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, head.textContent);
    button.addEventListener("click", () => sortBy(column));
    head.replaceChildren(button);
  });
  const buttons = new Map();
  for (const each of rows) {
    const cell = each.row.cells[1];
    const button = make("button", { type: "button", "aria-expanded": "false" }, cell.textContent);
    cell.replaceChildren(button);
    buttons.set(button, each);
  }
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) toggle(buttons.get(button), button);
  });
  // What lies under the pointer in the plot along the network; the table below it says the same to a keyboard.
  const plot = document.querySelector("#depth[data-scales]");
  if (plot) {
    const [x0, x1, left, right, y0, y1, bottom, top] = plot.dataset.scales.split(" ").map(Number);
    const place = new Map();
    data.nodes.forEach(([inputs, outputs], index) => {
      for (const each of inputs) if (!place.has(each)) place.set(each, index);
      for (const each of outputs) place.set(each, index);
    });
    const points = data.tensors.flatMap((tensor, index) => [["q", "expected"], ["m", "measured"], ["p", "its own rounding"]]
      .filter(([key]) => tensor[key] !== undefined && place.has(index))
      .map(([key, word]) => ({
        x: left + ((place.get(index) - x0) / (x1 - x0)) * (right - left),
        y: bottom + ((tensor[key] - y0) / (y1 - y0)) * (top - bottom),
        node: place.get(index),
        text: `${tensor.n}: ${word} ${tensor[key].toFixed(1)} dB, node ${place.get(index)}`,
      })));
    const said = make("p", { class: "said" }, "Point at a mark for its name, select it for its node.");
    plot.after(said);
    const nearest = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
      let found = null, least = 20;
      for (const each of points) {
        const distance = Math.hypot(each.x - at.x, each.y - at.y);
        if (distance < least) [found, least] = [each, distance];
      }
      return found;
    };
    plot.addEventListener("pointermove", (event) => {
      const found = nearest(event);
      if (found) said.textContent = found.text;
      plot.classList.toggle("near", Boolean(found));
    });
    plot.addEventListener("click", (event) => {
      const found = nearest(event);
      if (found) location.hash = `n${found.node}`;
    });
  }

  // A link to a node opens it, also where the filter hides it.
  const follow = () => {
    const each = rows.find((row) => `#${row.row.id}` === location.hash);
    if (!each) return;
    if (each.row.hidden) {
      find.value = state.value = operator.value = "";
      filter();
    }
    const button = each.row.querySelector("button");
    if (button.getAttribute("aria-expanded") === "false") toggle(each, button);
    button.focus({ preventScroll: true });
    each.row.scrollIntoView({ block: "start" });
  };
  window.addEventListener("hashchange", follow);
  for (const control of [find, state, operator]) control.addEventListener("input", filter);
  const controls = document.getElementById("controls");
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
  filter();
  follow();
})();
