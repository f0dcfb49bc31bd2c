// Which command a key press stands for, the same on every page.

import { find } from "./dom.js";

const WRITES = "input, textarea, select, [contenteditable]";
const PRESSED = "button, a, summary";

export const pressed = (target) => target.closest(PRESSED);

// The command as {act, ...}; null where the press is for a form, a dialog or the browser, or stands for nothing.
// `acts` maps keys to commands. `special` is asked first, and answers undefined for what it leaves to `acts`.
export function commandOf(event, acts, special) {
  const { key, shiftKey, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return null;
  if (key === "Escape") return { act: "cancel" };
  if (target.closest(WRITES)) return null;
  const command = special(event);
  if (command !== undefined) return command;
  if (key.toLowerCase() === "z") return { act: shiftKey ? "redo" : "undo" };
  if (/^[1-9]$/.test(key)) return { act: "choose", attempt: Number(key) - 1 };
  const act = acts[key] ?? acts[key.toLowerCase()];
  return act ? { act } : null;
}
