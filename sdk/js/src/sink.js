// Runs the two halves of an author's sink.

import { Input } from './columns.js';
import { explain, refusePromise, wireError } from './errors.js';
import { folderOf, taskOf } from './host.js';
import { Record } from './record.js';
import { States } from './state.js';
import { encodeText } from './text.js';

/** What became of one committable, for `commit` and `status`. */
export const outcome = {
  committed: { tag: 'committed' },
  alreadyCommitted: { tag: 'already-committed' },
  retry: (why) => ({ tag: 'retry', val: String(why) }),
  unknown: (why) => ({ tag: 'unknown', val: String(why) }),
  lost: (why) => ({ tag: 'lost', val: String(why) }),
};

/** What became of an abort. */
export const abortOutcome = {
  aborted: { tag: 'aborted' },
  committed: { tag: 'committed' },
  retry: (why) => ({ tag: 'retry', val: String(why) }),
};

const OUTCOMES = new Set(['committed', 'already-committed', 'retry', 'unknown', 'lost']);
const ABORT_OUTCOMES = new Set(['aborted', 'committed', 'retry']);

/** `info` of a writer's class; throws if it is none. */
export function sinkInfoOf(Writer) {
  const { info } = Writer;
  if (typeof info !== 'object' || info === null) throw new TypeError('a writer needs `static info = { name, version, committableVersions }`');
  const { name, version, committableVersions, ...unknown } = info;
  for (const [what, text] of Object.entries({ name, version })) {
    if (typeof text !== 'string') throw new TypeError(`info.${what} is a string`);
  }
  if (!Array.isArray(committableVersions)) throw new TypeError('info.committableVersions is a list of numbers');
  const [surplus] = Object.keys(unknown);
  if (surplus !== undefined) throw new TypeError(`info: there is no '${surplus}'`);
  return { name, version, committableVersions };
}

/** The records of a call: one object serves them all. */
class Batch {
  constructor(batch) {
    this.input = new Input(batch);
    this.length = this.input.count;
  }

  [Symbol.iterator]() {
    const record = new Record(new States([]));
    record.input = this.input;
    record.at = -1;
    const result = { done: false, value: record };
    return {
      next: () => {
        record.at += 1;
        if (record.at === this.length) return { done: true, value: undefined };
        return result;
      },
    };
  }
}

/** One open writer. */
export class WriterDriver {
  constructor(Writer, files) {
    this.Writer = Writer;
    this.files = files;
  }

  describe() {
    const { name, version, committableVersions } = sinkInfoOf(this.Writer);
    return { pluginName: name, pluginVersion: version, committableVersions };
  }

  open(task, config) {
    guard('open', () => {
      this.info = sinkInfoOf(this.Writer);
      this.writer = new this.Writer();
      return this.writer.open?.(taskOf(task, this.files), JSON.parse(config));
    });
  }

  begin(transaction) {
    guard('begin', () => this.writer.begin(transaction));
  }

  write(batch) {
    guard('write', () => this.writer.write(new Batch(batch)));
  }

  prepare(checkpoint, endOfInput) {
    const prepared = guard('prepare', () => this.writer.prepare(checkpoint, endOfInput)) ?? null;
    if (prepared === null) return null;
    const { version, bytes } = prepared;
    if (!this.info.committableVersions.includes(version)) {
      throw { tag: 'fatal', val: `prepare gave version ${version}, which info.committableVersions does not have` };
    }
    return { version, bytes: typeof bytes === 'string' ? encodeText(bytes) : bytes };
  }

  close() {
    this.writer.close?.();
  }
}

/** One open committer. */
export class CommitterDriver {
  constructor(Committer, files) {
    this.Committer = Committer;
    this.files = files;
  }

  open(job, sink, config) {
    const task = { job, sink, folder: (grant) => folderOf(this.files, grant) };
    guard('open', () => {
      this.committer = new this.Committer();
      return this.committer.open?.(task, JSON.parse(config));
    });
  }

  /** In order; after the first one that is not committed the rest is not tried. */
  commit(what) {
    let stoppedAt;
    return what.map((committable) => {
      if (stoppedAt !== undefined) return outcome.retry(`not tried: ${stoppedAt} before it is not committed`);
      const became = this.judge('commit', committable);
      if (became.tag !== 'committed' && became.tag !== 'already-committed') stoppedAt = committable.id;
      return became;
    });
  }

  status(what) {
    return what.map((committable) => this.judge('status', committable));
  }

  /** Whoever throws does not know what has become of it. */
  judge(call, committable) {
    try {
      const became = this.committer[call](committable);
      refusePromise(became, call);
      return checked(became, OUTCOMES, call);
    } catch (thrown) {
      return outcome.unknown(explain(thrown));
    }
  }

  abort(what) {
    return what.map((transaction) => {
      try {
        const became = this.committer.abort(transaction);
        refusePromise(became, 'abort');
        return checked(became, ABORT_OUTCOMES, 'abort');
      } catch (thrown) {
        return abortOutcome.retry(explain(thrown));
      }
    });
  }

  listDangling() {
    return guard('listDangling', () => this.committer.listDangling());
  }

  forget(what) {
    guard('forget', () => {
      for (const transaction of what) refusePromise(this.committer.forget(transaction), 'forget');
    });
  }

  close() {
    this.committer.close?.();
  }
}

function guard(what, call) {
  try {
    const result = call();
    refusePromise(result, what);
    return result;
  } catch (thrown) {
    throw wireError(thrown);
  }
}

function checked(became, allowed, call) {
  if (allowed.has(became?.tag)) return became;
  throw new TypeError(`${call} gave ${JSON.stringify(became)}, which is no outcome`);
}
