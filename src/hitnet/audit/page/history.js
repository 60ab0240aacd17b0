// The history of decisions: every step, with a button that undoes it or brings it back.
"use strict";

const STEPS_SHOWN = 200;

function stepText({ kinds, images, ids, label, undoes }) {
  if (undoes) return "undo or redo";
  const what = Object.entries(kinds).map(([kind, n]) => `${images > 1 ? `${count(n)} ` : ""}${decidedText(kind, kind === "relabel" ? label : "")}`).join(", ");
  return images === 1 ? `#${ids[0]}: ${what}` : what;
}

async function openHistory(app) {
  let steps;
  try {
    steps = (await app.server.ask("steps")).steps.slice(0, STEPS_SHOWN);
  } catch (error) {
    return app.announce(error.message);
  }
  // What is undone is undone by another step: bringing it back undoes that one.
  const nameFor = (step) => steps.find((other) => other.undoes === step.step && other.stands)?.step ?? step.step;
  const line = (step) => el("li", { class: step.stands ? "" : "undone" },
    el("span", { class: "step-images" }, ...step.ids.map((id) => app.thumbs.of(id, `Image ${id}`)).filter(Boolean)),
    el("span", { class: "step-text", dir: "auto" }, stepText(step)),
    el("small", {}, [step.reviewer, new Date(step.time).toLocaleString()].filter(Boolean).join(", ")),
    step.undoes ? null : el("button", { type: "button", onclick: () => undoStep(app, nameFor(step)) }, step.stands ? "Undo" : "Bring back"));
  $("#history-steps").replaceChildren(...steps.map(line));
  $("#history-empty").hidden = steps.length > 0;
  if (!$("#history").open) $("#history").showModal();
}

async function undoStep(app, name) {
  await undo(app, name);
  await openHistory(app);
}
