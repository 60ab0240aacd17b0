// Why: similar images under both labels, typical ones, near-duplicates, what each judge says, and other annotators.
"use strict";

function evidenceFigures(app, title, role, entries) {
  if (!entries?.length) return null;
  const figure = ({ id, caption, label }) => el("figure", { class: role },
    openable(app, id, app.thumbs.of(id, `Image ${id}${label === undefined ? "" : `, labelled ${app.audit.names[label]}`}`)), el("figcaption", {}, caption));
  return el("section", { class: "why" }, el("h3", {}, ...title), el("div", { class: "why-images" }, ...entries.map(figure)));
}

function judgeTable(app, judges) {
  if (!judges.length) return null;
  const { names } = app.audit;
  const cell = ([k, distance, votes]) => el("td", {}, nameOf(names[k]), ` ${distance.toFixed(2)}`, votes ? el("b", {}, ` ${plural(votes, "vote")}`) : null);
  return el("section", { class: "why all" }, el("h3", {}, "What each kind of judge says, nearest class first"),
    el("table", { class: "judges" }, el("tbody", {}, ...judges.map(({ kind, judges: members, nearest }) => el("tr", {},
      el("th", { scope: "row" }, members > 1 ? `${members} ${kind}` : kind), ...nearest.map(cell))))));
}

function annotatorLine(annotators) {
  const entries = Object.entries(annotators);
  if (!entries.length) return null;
  return el("section", { class: "why all" }, el("h3", {}, "Annotators"), el("p", { dir: "auto" }, entries.map(([name, n]) => `${name}: ${n}`).join(", ")));
}

function evidenceParts(app, row, why) {
  const { audit } = app;
  const named = { given: audit.given[row], suggested: audit.suggested[row] };
  const parts = [];
  for (const [kind, entriesOf] of [["Most like it, labelled ", (role) => why.similar[role]?.map(({ id, label, similarity }) => ({ id, label, caption: similarity.toFixed(2) }))],
    ["Typical of ", (role) => why.typical[role]?.map((id) => ({ id, caption: "" }))]]) {
    for (const role of ["given", "suggested"]) {
      parts.push(evidenceFigures(app, [kind, nameOf(audit.names[named[role]], role)], role, entriesOf(role)));
    }
  }
  const copies = why.copies.map(({ id, label, similarity }) => ({ id, label, caption: `${audit.names[label]} ${similarity.toFixed(2)}` }));
  parts.push(evidenceFigures(app, ["Nearly the same image"], "copy", copies), judgeTable(app, why.judges), annotatorLine(why.annotators));
  return parts.filter(Boolean);
}

// Ask the server for the evidence on the image that the large view shows.
async function renderEvidence(app, row) {
  const id = app.audit.id[row];
  let parts;
  try {
    const why = await app.server.ask(`evidence/${id}`);
    parts = evidenceParts(app, row, why);
  } catch (error) {
    parts = [el("p", { class: "hint" }, error.message)];
  }
  const shown = app.view.current();
  if ($("#zoom").open && shown !== undefined && app.audit.id[shown] === id) $("#zoom .evidence").replaceChildren(...parts);
}
