// Words that are typed and not saved, kept in this tab: a reload, Back, or another step does not lose them.

export class Drafts {
  constructor(owner) {
    this.name = `goalreel words ${owner}`;
  }

  get #all() {
    return JSON.parse(sessionStorage.getItem(this.name)) ?? {};
  }

  #put(all) {
    sessionStorage.setItem(this.name, JSON.stringify(all));
  }

  keep(form) {
    this.#put({ ...this.#all, [key(form.dataset)]: Object.fromEntries(new FormData(form)) });
  }

  fill(form) {
    const fields = form ? this.#all[key(form.dataset)] : null;
    // A field may be gone since: a step that is done has no failure.
    for (const [name, text] of Object.entries(fields ?? {})) if (form.elements[name]) form.elements[name].value = text;
  }

  drop(given) {
    const { [key(given)]: _, ...others } = this.#all;
    this.#put(others);
  }

  clear() {
    sessionStorage.removeItem(this.name);
  }

  // The form and the step of the first draft whose step is still there.
  first(steps) {
    const drafts = Object.keys(this.#all).map((name) => ({ form: name.split(" ")[0], step: name.split(" ")[1] }));
    return drafts.find(({ step }) => steps.some(({ id }) => id === step)) ?? null;
  }
}

const key = ({ form, step }) => `${form} ${step}`;
