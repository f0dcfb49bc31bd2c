// How things are told: the same words for eyes and for screen readers.

export const VERDICT = { accept: "accepted", reject: "rejected", unsure: "unsure" };
// Whether a verdict leads to the next episode; kept in this browser.
export const ONWARDS = "goalreel onwards";
export const onwards = () => localStorage.getItem(ONWARDS) === "on";
export const UNSEEN = " without looking";
export const ISSUE = {
  wrong_object: "wrong object", wrong_time: "wrong time", missing: "a step is missing",
  extra: "one too many", wrong_picture: "wrong picture",
};
export const STEP_ISSUES = ["wrong_object", "wrong_time", "extra", "wrong_picture"];

export const seconds = (frame, fps) => `${(frame / fps).toFixed(2)} s`;
export const minutes = (s) => `${Math.max(1, Math.round(s / 60))} min`;
export const span = (step, fps) => `${(step.start / fps).toFixed(1)}–${(step.end / fps).toFixed(1)} s`;
// The address of an exact frame, at most `width` pixels wide.
export const frameUrl = (index, key, number, width) => `/frames/${index}/${encodeURIComponent(key)}/${number}.jpg?width=${width}`;
export const camera = (key) => key.replace(/^observation\.images\./, "");

export function doubt(value) {
  if (value >= 0.66) return "much doubt";
  if (value >= 0.33) return "some doubt";
  return "little doubt";
}

// The details of a step (`goalreel.claims`), each in one text.
export const DETAIL = {
  motion: "Motion", pose: "Pose", scene: "Scene", reasoning: "Reasoning", failure: "Why it failed",
};

// The details that may be told of a step.
export const detailsOf = (step) => Object.keys(DETAIL).filter((name) => name !== "failure" || step.outcome === "failed");

// What changes the details of a step to the texts of a form.
export function described(step, given) {
  const restorable = given.restorable ? given.restorable === "true" : null;
  return detailsOf(step).flatMap((detail) => {
    const before = step.details?.[detail];
    const text = given[detail]?.trim() || null;
    const mend = detail === "failure" && text ? restorable : null;
    const same = text === (before?.text ?? null) && mend === (before?.restorable ?? null);
    return same ? [] : [{ kind: "describe", step: step.id, detail, text, restorable: mend }];
  });
}
