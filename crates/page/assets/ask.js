// Questions to the pooler. Whoever is not logged in any more goes to the login.

const OWN = { "X-Pgweir": "1" };

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

async function answered(answer) {
  if (answer.ok) return answer;
  if (answer.status === 401) location.replace("/login");
  const words = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, words.error ?? `the answer is ${answer.status}`);
}

const REST_MS = 250;

// An answer that takes long is 202 until it is there: the question is repeated. `signal` ends that.
async function got(path, query, signal) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== ""));
  for (;;) {
    const answer = await answered(await fetch(`/api/${path}?${asked}`, { headers: OWN, cache: "no-store", signal }));
    if (answer.status !== 202) return answer;
    await new Promise((done) => { setTimeout(done, REST_MS); });
  }
}

export async function ask(path, query = {}, signal = undefined) {
  return (await got(path, query, signal)).json();
}

// Saves a document under a name.
export async function saved(path, query, name) {
  const answer = await got(path, query);
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// A table of SHOW; null where this user has none of that name. That the pooler has no time for it is an error.
export const table = (name, query = {}) => ask(`show/${name}`, query);

// The rows of a table as objects.
export function objects(shown) {
  if (!shown) return [];
  return shown.rows.map((row) => Object.fromEntries(shown.columns.map((column, at) => [column.name, row[at]])));
}

// Where the pooler knows of nothing, there is nothing; any other refusal is one.
export const orElse = (nothing) => (error) => {
  if (error instanceof Refused && error.status === 404) return nothing;
  throw error;
};

// What an order has begun, if it is not done yet.
export async function order(path, fields) {
  const answer = await answered(await fetch(`/api/${path}`, { method: "POST", headers: OWN, body: new URLSearchParams(fields) }));
  return answer.status === 202 ? answer.json() : null;
}

export async function logout() {
  await fetch("/logout", { method: "POST", headers: OWN });
  location.replace("/login");
}
