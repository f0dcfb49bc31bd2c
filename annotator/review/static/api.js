// What the server is asked.

import { ask, post } from "/common/server.js";

export const dataset = () => ask("/api/dataset");
export const episodes = (query, signal) => ask(`/api/episodes?${query}`, { signal });
export const episode = (index, query) => ask(`/api/episodes/${index}?${query}`);
export const history = (index, offset) => ask(`/api/episodes/${index}/history?offset=${offset}`);
export const change = (index, revision, by, event, query) =>
  post(`/api/episodes/${index}/events?${query}`, { revision, by, event });
export const render = (index, revision, by, step, prompt, query) =>
  post(`/api/episodes/${index}/render?${query}`, { revision, by, step, prompt });
export const frame = (index, camera, number, width) =>
  `/frames/${index}/${encodeURIComponent(camera)}/${number}.jpg?width=${width}`;
