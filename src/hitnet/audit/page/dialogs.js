// Dialogs: choose a class, large view, export, import, help.
"use strict";

const PICKER_ROWS = 200;
const PROBLEMS_SHOWN = 20;

function setUpDialogs(audit) {
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }
  const typical = audit.summary.prototypes === "typical";
  const explained = { prototypes: !typical, typical, neighbours: audit.with_neighbours, heads: Boolean(audit.summary.sentence) };
  for (const part of document.querySelectorAll("[data-for]")) part.hidden = !explained[part.dataset.for];
  $("#open-help").addEventListener("click", () => $("#help").showModal());
}

// Ask before something that probably does harm.
function ask(question, yes, action) {
  $("#ask-text").textContent = question;
  $("#ask-yes").textContent = yes;
  $("#ask-yes").onclick = () => { $("#ask").close(); action(); };
  $("#ask").showModal();
}

// A list of classes that typing filters; `choose` receives the rows and the class index.
function createPicker(audit, thumbs, choose) {
  const dialog = $("#picker"), input = $("#picker-input"), list = $("#picker-list");
  let rows = [], row = 0, matches = [], active = 0;

  function open(ofRows) {
    rows = ofRows;
    row = rows[0];
    $("#picker-title").textContent = rows.length === 1 ? "Relabel to…" : `Relabel ${count(rows.length)} images to…`;
    input.value = "";
    render();
    dialog.showModal();
    input.focus();
  }

  function ordered() {
    const near = audit.near[row];
    const rest = audit.names.map((_, k) => k).filter((k) => !near.includes(k));
    return [...near, ...rest];
  }

  function render() {
    const typed = input.value.trim().toLowerCase();
    matches = ordered().filter((k) => audit.names[k].toLowerCase().includes(typed)).slice(0, PICKER_ROWS);
    // An exact match comes first, so that typing "1" and Enter means 1 and not 10.
    matches.sort((a, b) => (audit.names[b].toLowerCase() === typed) - (audit.names[a].toLowerCase() === typed));
    list.replaceChildren(...matches.map(option));
    activate(0);
  }

  function option(k, place) {
    const at = audit.near[row].indexOf(k);
    const note = k === audit.given[row] ? "given: keep" : k === audit.suggested[row] ? "suggested" : "";
    return el("li", { id: `option-${place}`, role: "option", "aria-selected": "false", onclick: () => take(place) },
      thumbs.typical ? thumbs.typical(k, "") : null, nameOf(audit.names[k]), el("small", {}, note),
      el("small", { class: "value" }, at < 0 ? "" : audit.near_distance[row][at].toFixed(2)));
  }

  function activate(place) {
    active = Math.max(0, Math.min(matches.length - 1, place));
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    list.children[active]?.scrollIntoView({ block: "nearest" });
    if (matches.length) input.setAttribute("aria-activedescendant", `option-${active}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function take(place) {
    if (matches[place] === undefined) return;
    dialog.close();
    choose(rows, matches[place]);
  }

  input.addEventListener("input", render);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) activate(active + step);
    else if (event.key === "Enter") take(active);
    else return;
    event.preventDefault();
  });
  return { open };
}

function createExport(app) {
  const { server, store, announce } = app;
  const text = $("#export-text");
  let exported = ""; // a text area would change its line ends

  async function open() {
    try {
      exported = text.value = await server.ask("export");
    } catch (error) {
      return announce(error.message);
    }
    $("#export-summary").textContent = decisionSummary(store.counts()) || "No decisions yet.";
    if (!$("#export").open) $("#export").showModal();
  }

  function download() {
    const url = URL.createObjectURL(new Blob([exported], { type: "text/plain;charset=utf-8" }));
    el("a", { href: url, download: server.file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    app.unsaved = false;
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(exported);
    } catch {
      text.select();
      if (!document.execCommand("copy")) return announce("The browser does not allow copying. The text is selected: press Ctrl+C.");
    }
    app.unsaved = false;
    announce("Copied.");
  }

  $("#open-export").addEventListener("click", open);
  $("#export-download").addEventListener("click", download);
  $("#export-copy").addEventListener("click", copy);
  return { open };
}

function createImport(app) {
  const file = $("#import-file"), problems = $("#import-problems");

  async function read() {
    if (!file.files.length) return;
    try {
      const { images } = await app.store.importText(await file.files[0].text());
      $("#import").close();
      app.announce(`${plural(images, "decision")} imported.`);
      refresh(app, idOf(app));
    } catch (error) {
      const lines = error.message.split("\n"), more = lines.length - PROBLEMS_SHOWN;
      if (more > 0) lines.splice(PROBLEMS_SHOWN, more, `and ${count(more)} more.`);
      problems.replaceChildren(el("li", {}, el("b", {}, "Nothing was imported.")), ...lines.map((line) => el("li", { dir: "auto" }, line)));
    }
  }

  $("#open-import").addEventListener("click", () => {
    file.value = "";
    problems.replaceChildren();
    $("#import").showModal();
  });
  file.addEventListener("change", read);
}
