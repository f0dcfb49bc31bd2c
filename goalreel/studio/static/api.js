// What the server is asked.

import { ask, post } from "/common/server.js";


const at = (id, rest = "") => `/v1/storyboards/${encodeURIComponent(id)}${rest}`;

export const studio = () => ask("/v1/studio");
export const examples = () => ask("/v1/examples");
export const datasets = () => ask("/v1/datasets");
export const firstFrame = (dataset, episode) => ask(`/v1/frames?${new URLSearchParams({ dataset, episode })}`);
export const cameraFrame = (topic) => ask(`/v1/frames/ros?${new URLSearchParams({ topic })}`);

export const storyboards = (query, signal) => ask(`/v1/storyboards?${query}`, { signal });
export const submit = (task) => post("/v1/storyboards", task);
export const state = (id) => ask(at(id, "?record=false"));
export const edit = (id, after, by, change) => post(at(id, "/edits"), { after, by, edit: change });
export const resume = (id) => post(at(id, "/resume"), {});
export const cancel = (id) => post(at(id, "/cancel"), {});
export const remove = (id) => ask(at(id), { method: "DELETE" });
export const execute = (id) => post(at(id, "/execute"), {});
export const addToCorpus = (id) => post(at(id, "/corpus"), {});
export const exported = (id, name) => at(id, `/export/${name}`);
export const events = (id, after) => at(id, `/events?${new URLSearchParams({ after, follow: "true" })}`);
