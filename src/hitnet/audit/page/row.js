// A row of the list: picture, evidence, labels, reason, distances, and the buttons to decide.
"use strict";

const HIT_RADIUS = 0.1;
const MISS_RADIUS = 0.9;
const FARTHEST = 2;
const FLAG_KIND = { "wrong": "wrong", "doubtful": "doubtful", "ambiguous: two labels": "ambiguous", "none of the classes": "none", "ok": "ok" };

function flagBadge(flag) {
  return el("span", { class: `flag ${FLAG_KIND[flag] ?? "none"}` }, flag);
}

// Bars of the nearest classes, over the hit zone and the miss zone: a short bar is a near class.
function distanceChart(audit, row) {
  const chart = el("div", { class: "chart", role: "img", "aria-label": chartLabel(audit, row) });
  chart.style.setProperty("--hit-end", HIT_RADIUS / FARTHEST);
  chart.style.setProperty("--miss-start", MISS_RADIUS / FARTHEST);
  audit.near[row].forEach((k, i) => {
    const distance = audit.near_distance[row][i];
    const kind = k === audit.given[row] ? "given" : k === audit.suggested[row] ? "suggested" : "";
    const bar = el("i", { class: "bar" });
    bar.style.setProperty("--d", Math.min(1, distance / FARTHEST));
    chart.append(el("div", { class: `line ${kind}` }, nameOf(audit.names[k]), el("span", { class: "plot" }, bar),
      el("span", { class: "value" }, distance.toFixed(2))));
  });
  return chart;
}

function chartLabel(audit, row) {
  const parts = audit.near[row].map((k, i) => `${audit.names[k]} ${audit.near_distance[row][i].toFixed(2)}`);
  return `Distances, nearest first: ${parts.join(", ")}`;
}

function prototypePair(audit, { typical: prototypes }, row) {
  if (!prototypes) return el("div", { class: "prototypes none" });
  const typical = audit.summary.prototypes === "typical";
  const figure = (k, role) => el("figure", { class: role },
    prototypes(k, `${typical ? "Typical image" : "Prototype"} of ${audit.names[k]}`),
    audit.tall ? el("figcaption", {}, typical ? "typical" : "prototype", nameOf(audit.names[k])) : el("figcaption", {}, role));
  return el("div", { class: "prototypes" }, figure(audit.given[row], "given"), figure(audit.suggested[row], "suggested"));
}

// The image most like this one under each label, where the page has it: some audits do not look for it.
function neighbourPair(audit, thumbs, row, open = (_, picture) => picture) {
  if (!audit.with_neighbours) return null;
  const figure = (id, k, role) => {
    const label = `Image ${id}, most like it, labelled ${audit.names[k]}`;
    const picture = id < 0 ? null : open(id, thumbs.of(id, label));
    return picture && el("figure", { class: role }, picture, el("figcaption", {}, "most like it, labelled", nameOf(audit.names[k])));
  };
  const same = audit.given[row] === audit.suggested[row];
  return el("div", { class: "neighbours" }, figure(audit.like_given[row], audit.given[row], "given"),
    same ? null : figure(audit.like_suggested[row], audit.suggested[row], "suggested"));
}

function labelPair(audit, row) {
  const given = audit.given[row], suggested = audit.suggested[row];
  const same = given === suggested;
  const long = audit.names[given].length + audit.names[suggested].length > 22;
  return el("div", { class: `labels ${long ? "long" : ""}` }, nameOf(audit.names[given], "given"),
    same ? null : el("span", { class: "arrow", "aria-label": "suggested" }, "→"),
    same ? null : nameOf(audit.names[suggested], "suggested"));
}

function scoreLine(audit, row) {
  const meter = el("i", { class: "meter" });
  meter.style.setProperty("--d", audit.score[row]);
  return el("div", { class: "facts" }, el("span", { class: "score" }, meter, "score ", el("b", {}, audit.score[row].toFixed(3))),
    el("span", {}, "votes ", el("b", {}, `${audit.votes[row]}/${audit.models[row]}`)),
    el("span", {}, "hits ", el("b", {}, `${audit.hits[row]}/${audit.models[row]}`)));
}

function fileLine(audit, row) {
  return el("div", { class: "file" }, el("span", {}, `#${audit.id[row]}`), audit.path[row] ? nameOf(audit.path[row]) : null);
}

// The possible decisions on an image; `pressed` marks the current decision.
function choices(audit, row, record) {
  const suggestion = audit.names[audit.suggested[row]];
  const is = (decision) => record?.decision === decision;
  const other = is("relabel") && record.label !== suggestion;
  return [
    { key: "1", kind: "keep", text: "Keep", name: audit.names[audit.given[row]], pressed: is("keep") },
    { key: "2", kind: "relabel", text: "Relabel", name: suggestion, pressed: is("relabel") && !other, off: audit.suggested[row] === audit.given[row] },
    { key: "3", kind: "other", text: other ? "To" : "Other…", title: "Relabel to another class", name: other ? record.label : null, pressed: other },
    { key: "4", kind: "drop", text: "Drop", pressed: is("drop") },
    { key: "5", kind: "unsure", text: "Unsure", pressed: is("unsure") },
    { key: "6", kind: "neither", text: "Neither", title: "Neither the given nor the suggested label fits", pressed: is("neither") },
  ];
}

function choiceButtons(app, row, record) {
  const group = el("div", { class: "choices", role: "group", "aria-label": "Decision" });
  for (const c of choices(app.audit, row, record)) {
    group.append(el("button", {
      type: "button", class: `choice ${c.kind}`, "aria-pressed": String(c.pressed), "aria-keyshortcuts": c.key, disabled: c.off, title: c.title,
      onclick: () => act(app, c.key),
    }, el("kbd", { "aria-hidden": "true" }, c.key), el("span", {}, c.text), c.name === null || c.name === undefined ? null : nameOf(c.name)));
  }
  return group;
}

// Who decided, where several people review.
function whoLine(record) {
  if (!record?.reviewer) return null;
  const said = ([reviewer, decision, label]) => `${reviewer}: ${decision}${label ? ` to ${label}` : ""}`;
  const others = record.others.map(said).join("; ");
  return el("div", { class: `who ${record.disputed ? "disputed" : ""}`, dir: "auto" }, `${said([record.reviewer, record.decision, record.label])}${others ? `; ${others}` : ""}`);
}

function buildRow(app, row) {
  const { audit, thumbs } = app, id = audit.id[row], record = app.store.get(id), saving = app.store.pending.has(id);
  return el("article", {
    class: `row ${record ? `decided ${record.decision}` : ""} ${saving ? "saving" : ""}`, "aria-busy": saving ? "true" : null, "data-id": id,
    "aria-label": `Image ${id}, given ${audit.names[audit.given[row]]}, suggested ${audit.names[audit.suggested[row]]}, ${audit.flags[audit.flag[row]]}`,
  },
  el("div", { class: "picture", ondblclick: () => act(app, "Enter") }, thumbs.of(id, `Image ${id}`)),
  prototypePair(audit, thumbs, row),
  neighbourPair(audit, thumbs, row),
  el("div", { class: "about" }, labelPair(audit, row), scoreLine(audit, row),
    el("div", { class: "reason" }, flagBadge(audit.flags[audit.flag[row]]), nameOf(audit.rule[row], "rule")),
    fileLine(audit, row), record?.others?.length || record?.disputed ? whoLine(record) : null),
  distanceChart(audit, row),
  choiceButtons(app, row, record));
}

// The large view of an image, with all its figures from the audit.
function buildZoom(app, row) {
  const { audit, thumbs } = app, record = app.store.get(audit.id[row]);
  const evidence = audit.server ? [] : [prototypePair(audit, thumbs, row), neighbourPair(audit, thumbs, row, (id, picture) => openable(app, id, picture))];
  const back = app.back === null || app.back === audit.id[row] ? null
    : el("button", { type: "button", class: "back", onclick: () => openImage(app, app.back) }, `← Back to #${app.back}`);
  return el("div", { class: "zoomed" },
    zoomPicture(audit, thumbs, row),
    el("div", { class: "zoom-about" }, back, labelPair(audit, row), whoLine(record), choiceButtons(app, row, record),
      zoomFacts(audit, row), distanceChart(audit, row)),
    el("div", { class: "evidence" }, ...evidence));
}

// A picture of another image that a click opens, where the page can show it.
function openable(app, id, picture) {
  if (!picture || (!app.audit.server && !app.audit.rowOf.has(id))) return picture;
  return el("button", { type: "button", class: "open", "aria-label": `Open ${picture.alt}`, onclick: () => openImage(app, id) }, picture);
}

function zoomFacts(audit, row) {
  const number = (value) => (value === null ? "–" : value.toFixed(3));
  const fact = (term, ...value) => [el("dt", {}, term), el("dd", {}, ...value)];
  return el("dl", {}, ...fact("image", `#${audit.id[row]}`), ...(audit.path[row] ? fact("file", nameOf(audit.path[row])) : []),
    ...fact("flag", flagBadge(audit.flags[audit.flag[row]])), ...fact("rule", nameOf(audit.rule[row])),
    ...fact("score", number(audit.score[row])),
    ...fact("margin", `${number(audit.margin_mean[row])} ± ${number(audit.margin_std[row])}`),
    ...fact("ghost", nameOf(audit.names[audit.ghost[row]]), ` at ${number(audit.ghost_distance[row])}`),
    ...fact("votes, hits", `${audit.votes[row]} and ${audit.hits[row]} of ${audit.models[row]} models`));
}

// The original in the large view; a click shows it at its own size.
function zoomPicture(audit, thumbs, row) {
  const picture = thumbs.original(audit.id[row], `Image ${audit.id[row]}`);
  if (!audit.server) return el("div", { class: "picture" }, picture);
  const frame = el("button", { type: "button", class: "picture zoomable", "aria-label": "Show the original at its own size", "aria-pressed": "false",
    onclick: () => frame.setAttribute("aria-pressed", String(frame.classList.toggle("whole"))) }, picture);
  return frame;
}
