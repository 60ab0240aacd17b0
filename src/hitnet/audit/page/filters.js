// Filters: all of them combine; each active filter has a chip that removes it.
"use strict";

const LARGEST_MATRIX = 20;
const TOP_PAIRS = 60;
const HEALTH_ROWS = 40;
const NO_FILTERS = { given: null, suggested: null, either: null, flags: [], state: null, min: null, max: null, text: "" };

function createFilters(audit, memory, onChange) {
  let chosen = { ...NO_FILTERS, sort: "doubt", ...memory.read().filters };

  function set(changes) {
    chosen = { ...chosen, ...changes };
    memory.keep({ filters: chosen });
    render();
    onChange();
  }

  function render() {
    renderControls(chosen);
    renderChips(audit, chosen, set);
  }

  buildControls(audit, () => chosen, set);
  buildPairs(audit, () => chosen, set);
  buildHealth(audit, set);
  render();
  return {
    set,
    clear: () => set({ ...NO_FILTERS }),
    chosen: () => chosen,
  };
}

function buildControls(audit, chosen, set) {
  const number = (event) => (event.target.value === "" || !event.target.validity.valid ? null : Number(event.target.value));
  $("#search").addEventListener("input", (event) => set({ text: event.target.value.trim().toLowerCase() }));
  $("#score-min").addEventListener("input", (event) => set({ min: number(event) }));
  $("#score-max").addEventListener("input", (event) => set({ max: number(event) }));
  const select = $("#class-filter");
  select.append(el("option", { value: "" }, "all classes"), ...audit.names.map((name, k) => el("option", { value: k }, name)));
  select.addEventListener("change", () => set({ either: select.value === "" ? null : Number(select.value) }));
  audit.flags.forEach((flag, f) => {
    const toggle = () => set({ flags: chosen().flags.includes(f) ? chosen().flags.filter((g) => g !== f) : [...chosen().flags, f] });
    $("#flag-filter").append(el("button", { type: "button", class: `toggle ${FLAG_KIND[flag] ?? "none"}`, "data-flag": f, "aria-pressed": "false", onclick: toggle },
      flag, el("small", {}, count(audit.flag_counts[f]))));
  });
  for (const button of document.querySelectorAll("[data-state]")) {
    button.addEventListener("click", () => set({ state: chosen().state === button.dataset.state ? null : button.dataset.state }));
  }
  $("#sort").addEventListener("change", (event) => set({ sort: event.target.value }));
}

// Update the controls after a chip or the matrix has changed the filters.
function renderControls(chosen) {
  const put = (input, value) => { if (document.activeElement !== input) input.value = value ?? ""; };
  put($("#score-min"), chosen.min);
  put($("#score-max"), chosen.max);
  if ($("#search").value.trim().toLowerCase() !== chosen.text) $("#search").value = chosen.text;
  $("#class-filter").value = chosen.either ?? "";
  $("#sort").value = chosen.sort;
  for (const button of document.querySelectorAll("[data-flag]")) button.setAttribute("aria-pressed", chosen.flags.includes(Number(button.dataset.flag)));
  for (const button of document.querySelectorAll("[data-state]")) button.setAttribute("aria-pressed", chosen.state === button.dataset.state);
  for (const button of document.querySelectorAll("[data-given], [data-suggested]")) {
    const same = (key) => (button.dataset[key] === undefined ? chosen[key] === null : chosen[key] === Number(button.dataset[key]));
    button.setAttribute("aria-pressed", same("given") && same("suggested"));
  }
}

function renderChips(audit, chosen, set) {
  const chips = [];
  const add = (text, changes) => chips.push({ text, changes });
  const { given, suggested, either, flags, state, min, max, text } = chosen;
  if (given !== null && suggested !== null) add(`${audit.names[given]} → ${audit.names[suggested]}`, { given: null, suggested: null });
  else if (given !== null) add(`given ${audit.names[given]}`, { given: null });
  else if (suggested !== null) add(`suggested ${audit.names[suggested]}`, { suggested: null });
  if (either !== null) add(`class ${audit.names[either]}`, { either: null });
  for (const f of flags) add(audit.flags[f], { flags: flags.filter((g) => g !== f) });
  if (state !== null) add(state, { state: null });
  if (min !== null || max !== null) add(`score ${min ?? 0} to ${max ?? 1}`, { min: null, max: null });
  if (text !== "") add(`“${text}”`, { text: "" });
  const buttons = chips.map(({ text: label, changes }) => el("li", {}, el("button", { type: "button", class: "chip", "aria-label": `Remove filter ${label}`,
    onclick: () => set(changes) }, nameOf(label), el("span", { "aria-hidden": "true" }, "×"))));
  if (chips.length > 1) buttons.push(el("li", {}, el("button", { type: "button", class: "chip clear", onclick: () => set({ ...NO_FILTERS }) }, "clear all")));
  $("#chips").replaceChildren(...buttons);
}

function buildPairs(audit, chosen, set) {
  const pairs = audit.pairs.map(([given, suggested, n]) => ({ given, suggested, n })); // most frequent first
  const most = Math.max(1, ...pairs.map((pair) => pair.n));
  const choose = (given, suggested) => {
    const same = chosen().given === given && chosen().suggested === suggested;
    set(same ? { given: null, suggested: null } : { given, suggested });
  };
  const content = audit.names.length <= LARGEST_MATRIX ? pairMatrix(audit, pairs, most, choose) : pairList(audit, pairs, most, choose);
  $("#pairs").replaceChildren(content);
}

function pairMatrix(audit, pairs, most, choose) {
  const of = new Map(pairs.map((pair) => [`${pair.given},${pair.suggested}`, pair.n]));
  const head = (k, role) => el("th", { scope: role === "given" ? "row" : "col" }, el("button", { type: "button", class: "head", tabindex: "-1",
    [`data-${role}`]: k, "aria-label": `${role} ${audit.names[k]}`, onclick: () => (role === "given" ? choose(k, null) : choose(null, k)) }, nameOf(audit.names[k])));
  const cell = (given, suggested) => {
    const n = of.get(`${given},${suggested}`) ?? 0;
    if (given === suggested) return el("td", { class: "same" });
    const button = el("button", { type: "button", class: "cell", tabindex: "-1", "data-given": given, "data-suggested": suggested,
      "aria-pressed": "false", "aria-label": `given ${audit.names[given]}, suggested ${audit.names[suggested]}: ${n}`,
      title: `${audit.names[given]} → ${audit.names[suggested]}: ${n}`, onclick: () => choose(given, suggested) }, n ? count(n) : "");
    button.style.setProperty("--v", n ? 0.12 + 0.88 * Math.sqrt(n / most) : 0);
    button.classList.toggle("strong", n / most > 0.3);
    return el("td", {}, button);
  };
  const table = el("table", { class: "matrix", "aria-label": "Given class by suggested class" },
    el("thead", {}, el("tr", {}, el("td", { class: "corner", title: "rows: given, columns: suggested" }, "↓→"), ...audit.names.map((_, k) => head(k, "suggested")))),
    el("tbody", {}, ...audit.names.map((_, g) => el("tr", {}, head(g, "given"), ...audit.names.map((__, s) => cell(g, s))))));
  table.classList.toggle("dense", audit.names.length > 12);
  table.classList.toggle("long", audit.names.some((name) => name.length > 3));
  rove(table);
  return table;
}

// The matrix is a single Tab stop; the arrow keys move inside it.
function rove(table) {
  const grid = [...table.rows].map((row) => [...row.cells].map((cell) => cell.querySelector("button")));
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  grid[1][2].tabIndex = 0;
  table.addEventListener("focusin", (event) => {
    for (const button of table.querySelectorAll("[tabindex='0']")) button.tabIndex = -1;
    event.target.tabIndex = 0;
  });
  table.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    let y = grid.findIndex((row) => row.includes(event.target)), x = grid[y].indexOf(event.target);
    do { y += step[0]; x += step[1]; } while (grid[y]?.[x] === null && grid[y + step[0]]?.[x + step[1]] !== undefined);
    grid[y]?.[x]?.focus();
  });
}

function pairList(audit, pairs, most, choose) {
  const items = pairs.slice(0, TOP_PAIRS).map(({ given, suggested, n }) => {
    const button = el("button", { type: "button", class: "pair", "data-given": given, "data-suggested": suggested, "aria-pressed": "false", onclick: () => choose(given, suggested) },
      nameOf(audit.names[given], "given"), el("span", { class: "arrow", "aria-label": "suggested" }, "→"), nameOf(audit.names[suggested], "suggested"), el("small", {}, count(n)));
    button.style.setProperty("--v", n / most);
    return el("li", {}, button);
  });
  const more = audit.all_pairs - items.length;
  return el("div", {}, el("ol", { class: "pair-list" }, ...items), more > 0 ? el("p", { class: "hint" }, `and ${count(more)} rarer pairs`) : null);
}

function buildHealth(audit, set) {
  const classes = [...audit.summary.classes].sort((a, b) => b.suspects / Math.max(1, b.images) - a.suspects / Math.max(1, a.images));
  const line = (c) => {
    const share = c.suspects / Math.max(1, c.images);
    const bar = el("i", { class: "meter" });
    bar.style.setProperty("--d", Math.min(1, share * 5));
    return el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", onclick: () => set({ either: audit.classIndex.get(c.name) ?? null }) }, nameOf(c.name))),
      el("td", {}, count(c.images)), el("td", {}, count(c.suspects)), el("td", { class: "share" }, bar, `${(100 * share).toFixed(1)}%`),
      el("td", {}, c.expected_errors.toFixed(1)), el("td", {}, c.mean_score === null ? "–" : c.mean_score.toFixed(2)));
  };
  const heads = ["class", "images", "suspects", "share", "errors", "score"];
  const body = el("tbody", {}, ...classes.slice(0, HEALTH_ROWS).map(line));
  const table = el("table", { class: "health" }, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))), body);
  const rest = classes.length - HEALTH_ROWS;
  const more = rest > 0 ? el("button", { type: "button", class: "more", onclick: () => { body.replaceChildren(...classes.map(line)); more.remove(); } }, `show ${count(rest)} more classes`) : null;
  $("#health").replaceChildren(table, ...(more ? [more] : []));
}
