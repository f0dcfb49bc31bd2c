// What the server is asked. Every answer that is no success becomes a Refusal with its status and one line.

export class Refusal extends Error {
  constructor(status, detail, body) {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the server does not answer", null);
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  const detail = typeof body?.detail === "string" ? body.detail : `the server answered ${answer.status}`;
  throw new Refusal(answer.status, detail, body);
}

const post = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

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
