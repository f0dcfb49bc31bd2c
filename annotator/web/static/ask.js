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
  const body = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (answer.ok && (body !== null || answer.status === 204)) return body;
  const detail = body?.error?.message ?? body?.detail;
  throw new Refusal(answer.status, typeof detail === "string" ? detail : `the server answered ${answer.status}`, body);
}

export const post = (path, body, options = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
