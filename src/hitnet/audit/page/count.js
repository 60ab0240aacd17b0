// The certified count: one button that draws images to judge, and one sentence on what the decisions on them come to.
"use strict";

const FIRST_COUNT = 100;

// While images are judged for the count, the page shows nothing of what the audit says of them.
const isBlind = (app) => app.filters.chosen().state === "drawn";

// From the first image on, and one after the other: only decisions without a gap count.
function hideOpinions(app) {
  document.body.classList.toggle("blind", isBlind(app));
  return isBlind(app) && refresh(app, null);
}

async function startCount(app) {
  const { drawn, left } = app.counted ?? { drawn: 0, left: 0 };
  try {
    if (!left) await app.store.draw(drawn + FIRST_COUNT);
  } catch (error) {
    return app.announce(error.message);
  }
  await showAs(app, false);
  app.filters.set({ ...NO_FILTERS, state: "drawn" });
}

function renderCounted(app, counted) {
  if (counted === undefined) return; // a page without a server
  app.counted = counted;
  const { drawn, left, sentence } = counted ?? { drawn: 0, left: 0, sentence: null };
  $("#count-start").textContent = left ? `Judge the ${plural(left, "image")} left for the count`
    : drawn ? `Judge ${FIRST_COUNT} more images for the count` : `How many labels are wrong? Judge ${FIRST_COUNT} images`;
  $("#count-sentence").textContent = sentence ?? "";
  $("#counted").hidden = false;
}
