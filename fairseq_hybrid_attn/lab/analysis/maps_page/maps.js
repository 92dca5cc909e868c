// Shows the attention maps of the <section class="attention-maps"> that contains this script.
(() => {
  "use strict";
  const section = document.currentScript.closest(".attention-maps");
  const models = JSON.parse(section.querySelector(".maps-data").textContent);
  const sentences = models[0].sentences;
  const KINDS = {
    encoder: ["encoder self-attention", "Rows attend to columns; both are the source."],
    decoder: [
      "decoder self-attention",
      "Rows attend to columns; both are the input of the decoder: <s>, then the target.",
    ],
    cross: [
      "cross-attention",
      "Rows are the target, each at the step that predicts it; they attend to the source.",
    ],
  };
  const STEPS = 65534; // as in page/__init__.py
  const ALL = "all";
  const MEAN = "mean";
  const LONGEST_LABEL = 24;
  const SLANT = 60; // degrees
  const CELL = [14, 48]; // pixels, at least and at most
  const GAP = 20; // between the maps of several heads
  const SCALE = 5; // colours of the scale in maps.css

  const one = (name) => section.querySelector(`[data-choice="${name}"]`);
  const say = (name, text) => { section.querySelector(`[data-text="${name}"]`).textContent = text; };
  const short = (text) =>
    text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1)}…` : text;

  function fill(select, options, preferred) {
    // options: [value, text]; the choice is kept if possible.
    const before = preferred ?? select.value;
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    if (options.some(([value]) => String(value) === before)) select.value = before;
  }

  // ---- Numbers ----

  // Rows of weights of a head, or the mean of a branch's heads; null where none may attend.
  function matrix(map, layer, branch, head) {
    const size = map.queries.length * map.keys.length;
    const heads = map.layers[layer].heads[branch].length;
    const start = branch * heads * size;
    const wanted = head === MEAN ? [...Array(heads).keys()] : [Number(head)];
    const bytes = Uint8Array.from(atob(map.layers[layer].weights), (c) => c.charCodeAt(0));
    const all = new Uint16Array(bytes.buffer);
    return map.queries.map((_, row) =>
      map.keys.map((_, column) => {
        const cells = wanted.map((h) => all[start + h * size + row * map.keys.length + column]);
        if (cells.every((cell) => cell === 0)) return null;
        const sum = cells.reduce((total, cell) => total + Math.max(cell - 1, 0), 0);
        return sum / STEPS / wanted.length;
      }),
    );
  }

  // ---- Panels ----

  function makePanel(number) {
    const element = document.createElement("div");
    element.className = "maps-panel";
    const choices = document.createElement("div");
    choices.className = "maps-choices";
    const selects = {};
    for (const name of ["model", "layer", "branch", "head"]) {
      const label = document.createElement("label");
      const select = document.createElement("select");
      select.dataset.choice = `${name}-${number}`;
      label.append(`${name[0].toUpperCase()}${name.slice(1)} `, select);
      choices.append(label);
      selects[name] = select;
      select.addEventListener("change", draw);
    }
    const description = document.createElement("p");
    description.className = "maps-description";
    const gates = document.createElement("p");
    gates.className = "maps-gates";
    const plot = document.createElement("div");
    plot.className = "maps-plot";
    element.append(choices, plot, description, gates);
    section.querySelector(".maps-panels").append(element);
    fill(selects.model, models.map((model, n) => [n, model.name]), String(number));
    return { element, selects, description, gates, plot };
  }

  // Updates the choices of a panel; returns what it shows, or null if its model has no such map.
  function chosen(panel) {
    const model = models[panel.selects.model.value];
    panel.description.textContent = model.description;
    const { sentence } = sentences[one("sentence").value];
    const maps = model.sentences.find((other) => other.sentence === sentence)?.maps;
    const map = maps?.[one("unit").value][one("kind").value];
    for (const name of ["layer", "branch", "head"]) {
      panel.selects[name].closest("label").hidden = !map;
    }
    panel.gates.replaceChildren();
    if (!map) return null;
    const { layer, branch, head } = panel.selects;
    fill(layer, map.layers.map((l, n) => [n, l.layer]));
    const { branches, heads } = map.layers[layer.value];
    fill(branch, branches.map((word, n) => [n, word]));
    branch.closest("label").hidden = branches.length === 1;
    const words = heads[branch.value];
    const mixed = new Set(words).size > 1;
    fill(head, [
      ...(words.length > 1 ? [[ALL, `all ${words.length}`]] : []),
      [MEAN, `mean of ${words.length}`],
      ...words.map((word, n) => [n, mixed ? `${n + 1} (${word})` : n + 1]),
    ]);
    showGates(panel.gates, map, map.layers[layer.value], branch.value, head.value);
    const places = head.value === ALL ? words.map((_, n) => n) : [head.value];
    const shown = places.map((place) => ({
      title: head.value === ALL ? `head ${place + 1}${mixed ? ` (${words[place]})` : ""}` : "",
      rows: matrix(map, Number(layer.value), Number(branch.value), place),
    }));
    return { map, shown };
  }

  // A bar for each row of the map: the gate of the branch, of the head if each has its own.
  function showGates(element, map, { gate, gates }, branch, head) {
    const of = gates?.[branch];
    if (!of) return;
    const mean = (values) => values.reduce((total, value) => total + value, 0) / values.length;
    const shown = map.queries.map((_, row) =>
      of.length > 1 && head in of ? of[head][row] : mean(of.map((values) => values[row])),
    );
    element.append(`Gate (${gate}): mean ${mean(shown).toFixed(2)}; of the rows: `);
    const all = gates.flat(2);
    shown.forEach((value, row) => {
      const label = document.createElement("span");
      const bar = document.createElement("meter");
      bar.min = Math.min(0, ...all);
      bar.max = Math.max(1, ...all);
      bar.value = value;
      label.title = value.toFixed(2);
      label.append(short(map.queries[row]), bar);
      element.append(label);
    });
  }

  // ---- Drawing ----

  const blank = section.querySelector(".maps-panels > template").content.firstElementChild;
  function shape(name, attributes, text) {
    const made = document.createElementNS(blank.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const ruler = document.createElement("canvas").getContext("2d");
  function width(labels, font) {
    ruler.font = font;
    return Math.ceil(Math.max(...labels.map((label) => ruler.measureText(label).width)));
  }

  // A colour of the theme's scale, which follows the theme without being drawn again.
  function colour(share) {
    const step = Math.min(SCALE - 2, Math.floor(share * (SCALE - 1)));
    const beyond = 100 * (share * (SCALE - 1) - step);
    return `color-mix(in srgb, var(--scale${step + 1}) ${beyond}%, var(--scale${step}))`;
  }

  function plot(panel, { map, shown }, top) {
    const font = `12px ${getComputedStyle(section).fontFamily}`;
    const [keys, queries] = [map.keys.map(short), map.queries.map(short)];
    const slant = (SLANT * Math.PI) / 180;
    const above = width(keys, font);
    const left = width(queries, font) + 10;
    const over = Math.ceil(above * Math.sin(slant)) + 14;
    const right = Math.ceil(above * Math.cos(slant)) + 4;
    const [least, most] = CELL;
    const all = panel.element.clientWidth + GAP;
    const fitting = Math.floor(all / (left + right + keys.length * least + GAP));
    const lines = Math.ceil(shown.length / Math.max(1, fitting));
    const beside = Math.ceil(shown.length / lines); // as many in each line
    const room = all / beside - GAP - left - right;
    const cell = Math.floor(Math.max(least, Math.min(most, room / keys.length)));
    panel.plot.replaceChildren(...shown.map(({ title, rows }) => {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      caption.textContent = title;
      const sizes = { keys, queries, left, right, over, cell };
      figure.append(...(title ? [caption] : []), drawn(map, rows, top, sizes));
      return figure;
    }));
  }

  function drawn(map, rows, top, { keys, queries, left, right, over, cell }) {
    const svg = blank.cloneNode();
    svg.setAttribute("width", left + right + keys.length * cell);
    svg.setAttribute("height", over + queries.length * cell);
    queries.forEach((query, i) => {
      const y = over + (i + 0.5) * cell;
      svg.append(shape("text", { class: "maps-query", x: left - 6, y }, query));
    });
    keys.forEach((key, j) => {
      const at = `translate(${left + (j + 0.5) * cell} ${over - 6}) rotate(${-SLANT})`;
      svg.append(shape("text", { class: "maps-key", transform: at }, key));
    });
    rows.forEach((row, i) => row.forEach((weight, j) => {
      const rect = shape("rect", {
        x: left + j * cell, y: over + i * cell, width: cell - 1, height: cell - 1,
      });
      rect.style.fill = weight === null ? "var(--forbidden)" : colour(Math.min(1, weight / top));
      Object.assign(rect.dataset, { row: i, column: j, weight: weight ?? "" });
      svg.append(rect);
    }));
    svg.addEventListener("pointerover", ({ target }) => {
      const { row, column, weight } = target.dataset;
      tip.hidden = row === undefined;
      if (tip.hidden) return;
      tip.firstChild.textContent = `${map.queries[row]} → ${map.keys[column]}`;
      tip.lastChild.textContent = weight === "" ? "not allowed" : Number(weight).toFixed(2);
      const { left: x, bottom: y } = target.getBoundingClientRect();
      tip.style.left = `${Math.max(0, Math.min(x, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${Math.min(y + 4, innerHeight - tip.offsetHeight)}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    return svg;
  }

  // ---- Everything ----

  function draw() {
    const sentence = sentences[one("sentence").value];
    say("source", sentence.source.join(" "));
    say("target", sentence.target.join(" "));
    say("note", `${KINDS[one("kind").value][1]} Grey: forbidden by the pattern.`);
    panels[1].element.hidden = !one("second").checked;
    const shown = panels
      .filter((panel) => !panel.element.hidden)
      .map((panel) => [panel, chosen(panel)]);
    const weights = shown.flatMap(([, choice]) => (
      choice ? choice.shown.flatMap(({ rows }) => rows.flat()) : []
    ));
    const largest = weights.reduce((most, weight) => Math.max(most, weight ?? 0), 0) || 1;
    const top = one("scale").value === "one" ? 1 : largest;
    say("top", top === 1 ? "1" : top.toFixed(2));
    for (const [panel, choice] of shown) {
      if (choice) plot(panel, choice, top);
      else panel.plot.textContent = "This model has no such attention to this sentence.";
    }
  }

  const tokens = sentences.flatMap((s) => [...s.source, ...s.target]).join("");
  const han = /[\u4e00-\u9fff]/.test(tokens), kana = /[\u3040-\u30ff]/.test(tokens);
  section.classList.toggle("chinese", han && !kana);

  fill(one("sentence"), sentences.map((s, n) => [
    n, `${s.sentence}: ${short(s.source.join(" "))}`,
  ]));
  const there = new Set(
    models.flatMap((m) => m.sentences.flatMap((s) => Object.keys(s.maps.words))),
  );
  fill(one("kind"), Object.keys(KINDS).filter((k) => there.has(k)).map((k) => [k, KINDS[k][0]]));
  one("second").checked = models.length > 1;
  const panels = [makePanel(0), makePanel(1)];
  const tip = section.querySelector(".maps-tip");
  for (const name of ["sentence", "kind", "unit", "scale", "second"]) {
    one(name).addEventListener("change", draw);
  }
  let waiting;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(draw, 100); };
  addEventListener("resize", later);
  draw();
})();
