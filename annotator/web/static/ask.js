// What a server is asked. Every answer that is no success becomes a Refusal with its status and one line.

export class Refusal extends Error {
  constructor(status, detail, body) {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

export async function ask(path, options = {}) {
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

export const post = (path, body, options = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
