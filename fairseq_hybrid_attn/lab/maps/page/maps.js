// Shows the attention maps of the <section class="attention-maps"> that contains this script.
(() => {
  "use strict";
  const section = document.currentScript.closest(".attention-maps");
  const data = JSON.parse(section.querySelector(".maps-data").textContent);
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
  const MEAN = "mean";
  const LONGEST_LABEL = 24;
  const SLANT = 60; // degrees

  const one = (name) => section.querySelector(`[data-choice="${name}"]`);
  const say = (name, text) => { section.querySelector(`[data-text="${name}"]`).textContent = text; };
  // plotly interprets some HTML in texts.
  const escaped = (text) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (text) =>
    text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1)}…` : text;

  function fill(select, options, preferred) {
    // options: [value, text]; the choice is kept if possible.
    const before = preferred ?? select.value;
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    if (options.some(([value]) => String(value) === before)) select.value = before;
  }

  // ---- Numbers ----

  const unpacked = new WeakMap();
  function numbers(map) {
    if (!unpacked.has(map)) {
      const bytes = Uint8Array.from(atob(map.weights), (c) => c.charCodeAt(0));
      unpacked.set(map, new Uint16Array(bytes.buffer));
    }
    return unpacked.get(map);
  }

  // Rows of weights of a head, or the mean of a branch's heads; null where none may attend.
  function matrix(map, layer, branch, head) {
    const size = map.queries.length * map.keys.length;
    const heads = map.layers[layer].heads[branch].length;
    let start = 0;
    for (const earlier of map.layers.slice(0, layer)) {
      for (const words of earlier.heads) start += words.length * size;
    }
    for (const words of map.layers[layer].heads.slice(0, branch)) start += words.length * size;
    const wanted = head === MEAN ? [...Array(heads).keys()] : [Number(head)];
    const all = numbers(map);
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
    element.append(choices, description, gates, plot);
    section.querySelector(".maps-panels").append(element);
    fill(selects.model, data.models.map((model, n) => [n, model.name]), String(number));
    return { element, selects, description, gates, plot };
  }

  // Updates the choices of a panel; returns what it shows, or null if its model has no such map.
  function chosen(panel) {
    const model = data.models[panel.selects.model.value];
    panel.description.textContent = model.description;
    const map = model.sentences[one("sentence").value][one("unit").value][one("kind").value];
    for (const name of ["layer", "branch", "head"]) {
      panel.selects[name].closest("label").hidden = !map;
    }
    panel.gates.replaceChildren();
    if (!map) return null;
    const { layer, branch, head } = panel.selects;
    fill(layer, map.layers.map((l, n) => [n, l.number]));
    const { branches, heads } = map.layers[layer.value];
    fill(branch, branches.map((word, n) => [n, word]));
    branch.closest("label").hidden = branches.length === 1;
    const words = heads[branch.value];
    const mixed = new Set(words).size > 1;
    fill(head, [
      [MEAN, `mean of ${words.length}`],
      ...words.map((word, n) => [n, mixed ? `${n + 1} (${word})` : n + 1]),
    ]);
    showGates(panel.gates, map, map.layers[layer.value], branch.value, head.value);
    return { map, rows: matrix(map, Number(layer.value), Number(branch.value), head.value) };
  }

  // A bar for each row of the map: the gate of the branch, of the head if each has its own.
  function showGates(element, map, { gate, gates }, branch, head) {
    const of = gates?.[branch];
    if (!of) return;
    const mean = (values) => values.reduce((total, value) => total + value, 0) / values.length;
    const shown = map.queries.map((_, row) =>
      of.length > 1 && head !== MEAN ? of[head][row] : mean(of.map((values) => values[row])),
    );
    element.append(`Gate (${gate}): mean ${mean(shown).toFixed(4)} `);
    const all = gates.flat(2);
    shown.forEach((value, row) => {
      const label = document.createElement("span");
      const bar = document.createElement("meter");
      bar.min = Math.min(0, ...all);
      bar.max = Math.max(1, ...all);
      bar.value = value;
      label.title = value.toFixed(4);
      label.append(short(map.queries[row]), bar);
      element.append(label);
    });
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const stops = colour("scale").split(",").map((stop) => stop.trim());
    return {
      background: colour("background"), ink: colour("ink"), faint: colour("faint"),
      field: colour("field"), forbidden: colour("forbidden"),
      scale: stops.map((stop, n) => [n / (stops.length - 1), stop]),
    };
  }

  const ruler = document.createElement("canvas").getContext("2d");
  function width(labels, font) {
    ruler.font = font;
    return Math.max(...labels.map((label) => ruler.measureText(label).width));
  }

  function plot(panel, { map, rows }, top) {
    const paint = colours();
    const family = getComputedStyle(section).fontFamily;
    const labels = { x: map.keys.map(short), y: map.queries.map(short) };
    const slant = (SLANT * Math.PI) / 180;
    const above = width(labels.x, `12px ${family}`);
    const margin = {
      l: Math.ceil(width(labels.y, `12px ${family}`)) + 14,
      t: Math.ceil(above * Math.sin(slant)) + 24,
      r: Math.ceil(above * Math.cos(slant)) + 74,
      b: 12,
    };
    const room = panel.element.clientWidth - margin.l - margin.r;
    const cell = Math.max(14, Math.min(34, room / map.keys.length));
    const texts = rows.map((row, i) =>
      row.map((weight, j) => {
        const tokens = `${escaped(map.queries[i])} → ${escaped(map.keys[j])}`;
        return `<b>${tokens}</b><br>${weight === null ? "not allowed" : weight.toFixed(4)}`;
      }),
    );
    const axis = (side) => ({
      tickvals: [...labels[side].keys()], ticktext: labels[side].map(escaped), showgrid: false,
      zeroline: false, ticks: "outside", ticklen: 4, tickcolor: "transparent", fixedrange: true,
      tickfont: { size: 12 },
    });
    Plotly.react(
      panel.plot,
      [{
        type: "heatmap", z: rows, text: texts, hovertemplate: "%{text}<extra></extra>",
        colorscale: paint.scale, zmin: 0, zmax: top, xgap: 1, ygap: 1,
        colorbar: {
          thickness: 9, outlinewidth: 0, x: 1, xref: "paper", xpad: above * Math.cos(slant) + 6,
          len: Math.min(1, 180 / (map.queries.length * cell)), lenmode: "fraction", nticks: 4,
        },
      }],
      {
        width: margin.l + margin.r + map.keys.length * cell,
        height: margin.t + margin.b + map.queries.length * cell,
        margin, paper_bgcolor: paint.background, plot_bgcolor: paint.forbidden,
        font: { family, color: paint.ink },
        hoverlabel: {
          bgcolor: paint.field, bordercolor: paint.ink, align: "left",
          font: { family, color: paint.ink, size: 13 },
        },
        xaxis: { ...axis("x"), side: "top", tickangle: -SLANT },
        yaxis: { ...axis("y"), autorange: "reversed" },
      },
      { displaylogo: false, modeBarButtons: [["toImage"]] },
    );
  }

  // ---- Everything ----

  function draw() {
    const sentence = data.sentences[one("sentence").value];
    say("source", sentence.source.join(" "));
    say("target", sentence.target.join(" "));
    say("note", `${KINDS[one("kind").value][1]} Grey: forbidden by the pattern.`);
    panels[1].element.hidden = !one("second").checked;
    const shown = panels
      .filter((panel) => !panel.element.hidden)
      .map((panel) => [panel, chosen(panel)]);
    const weights = shown.flatMap(([, choice]) => (choice ? choice.rows.flat() : []));
    const largest = weights.reduce((most, weight) => Math.max(most, weight ?? 0), 0) || 1;
    for (const [panel, choice] of shown) {
      if (choice) plot(panel, choice, one("scale").value === "one" ? 1 : largest);
      else {
        Plotly.purge(panel.plot);
        panel.plot.textContent = "This model has no such attention.";
      }
    }
  }

  const tokens = data.sentences.flatMap((s) => [...s.source, ...s.target]).join("");
  const han = /[\u4e00-\u9fff]/.test(tokens), kana = /[\u3040-\u30ff]/.test(tokens);
  section.classList.toggle("chinese", han && !kana);

  fill(one("sentence"), data.sentences.map((s, n) => [
    n, `${s.number}: ${short(s.source.join(" "))}`,
  ]));
  const there = new Set(
    data.models.flatMap((m) => m.sentences.flatMap((s) => Object.keys(s.words))),
  );
  fill(one("kind"), Object.keys(KINDS).filter((k) => there.has(k)).map((k) => [k, KINDS[k][0]]));
  one("second").checked = data.models.length > 1;
  const panels = [makePanel(0), makePanel(1)];
  for (const name of ["sentence", "kind", "unit", "scale", "second"]) {
    one(name).addEventListener("change", draw);
  }
  let waiting;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(draw, 100); };
  addEventListener("resize", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(
    document.documentElement, { attributes: true, attributeFilter: ["data-theme"] },
  );
  draw();
})();
