// What an author's code throws when something is wrong, and what the contract makes of it.

export class BadRecord extends Error {
  get name() {
    return 'BadRecord';
  }
}

export class Retry extends Error {
  get name() {
    return 'Retry';
  }
}

/** The contract's `error` for what was thrown where no record can be named. */
export function wireError(thrown) {
  if (thrown instanceof Retry) return { tag: 'retry', val: thrown.message };
  return { tag: 'fatal', val: explain(thrown) };
}

/** What was thrown, as text: an error that the author did not foresee says where it happened. */
export function explain(thrown) {
  if (!(thrown instanceof Error)) return `it threw ${String(thrown)}`;
  if (thrown instanceof BadRecord || thrown instanceof Retry) return thrown.message;
  const lines = String(thrown.stack ?? '').split('\n').map((line) => line.trim());
  const where = lines.filter((line) => line.startsWith('at ')).slice(0, 2);
  return [`${thrown.name}: ${thrown.message}`, ...where].join(' ');
}

/** Refuses promises: the host waits for nobody. */
export function refusePromise(result, what) {
  if (result !== null && typeof result === 'object' && typeof result.then === 'function') {
    throw new TypeError(`${what} gave a promise: an operator does its work before it returns`);
  }
}
