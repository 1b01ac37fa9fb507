// {{name}}: writes each value and a newline to files that appear whole, in the granted folder `out`.
//
// `.staging/<transaction>` is what was written; beside it `<transaction>.prepared`, once all of it is durable. A commit is one
// rename to `part-<subtask>-<checkpoint>`. Hence: both there = prepared; the marker alone = committed, even when a reader has
// taken the file away; no marker = never prepared, or aborted.

import { abortOutcome, decodeText, outcome, Retry } from 'weir-sdk';

const STAGING = '.staging';
const PREPARED = '.prepared';

const staged = (transaction) => `${STAGING}/${transaction}`;
const marker = (transaction) => `${STAGING}/${transaction}${PREPARED}`;

/** The writing half: one for each subtask. */
export class Writer {
  static info = { name: '{{name}}', version: '0.1.0', committableVersions: [1] };

  open(task) {
    this.out = task.folder('out');
    this.subtask = task.subtask;
  }

  begin(transaction) {
    this.transaction = transaction;
    this.isEmpty = true;
    this.out.mkdir(STAGING);
  }

  write(batch) {
    let lines = '';
    for (const record of batch) lines += `${record.valueText ?? ''}\n`;
    if (lines === '') return;
    this.isEmpty = false;
    this.out.append(staged(this.transaction), lines);
  }

  prepare(checkpoint) {
    if (this.isEmpty) return undefined;
    // Content first, then the marker that vouches for it, then the names of both.
    this.out.sync(staged(this.transaction));
    this.out.append(marker(this.transaction), '');
    this.out.sync(marker(this.transaction));
    this.out.sync(STAGING);
    // What the committer needs: it runs in another instance, maybe in another process years later.
    return { version: 1, bytes: `part-${this.subtask}-${checkpoint}` };
  }
}

/** The committing half: one for the job. What it throws in `commit` and `status` counts as "nobody can say". */
export class Committer {
  open(task) {
    this.out = task.folder('out');
  }

  /** Which of the two files are there. The staged one first: a rename meanwhile must not seem like nothing at all. */
  look(transaction) {
    const isStaged = this.out.exists(staged(transaction));
    return { isStaged, isMarked: this.out.exists(marker(transaction)) };
  }

  commit({ id, bytes }) {
    const target = decodeText(bytes);
    const { isStaged, isMarked } = this.look(id);
    if (!isMarked) return outcome.lost('it is not prepared any more');
    if (isStaged) {
      return this.out.rename(staged(id), target) ? outcome.committed : outcome.lost(`${target} is there already, and is another file`);
    }
    // Who renamed it may have died before the names were durable.
    this.out.sync('');
    this.out.sync(STAGING);
    return outcome.alreadyCommitted;
  }

  status({ id }) {
    const { isStaged, isMarked } = this.look(id);
    if (!isMarked) return outcome.lost('it is not prepared any more');
    return isStaged ? outcome.retry('prepared, not committed yet') : outcome.alreadyCommitted;
  }

  abort(transaction) {
    const { isStaged, isMarked } = this.look(transaction);
    if (isMarked && !isStaged) return abortOutcome.committed;
    // The marker goes first, and durably: alone it would say committed.
    for (const path of [marker(transaction), staged(transaction)]) {
      if (this.out.remove(path)) this.out.sync(STAGING);
    }
    return abortOutcome.aborted;
  }

  listDangling() {
    const names = this.ask(() => this.out.list(STAGING)).map((name) => (name.endsWith(PREPARED) ? name.slice(0, -PREPARED.length) : name));
    return [...new Set(names)].sort();
  }

  forget(transaction) {
    const { isStaged, isMarked } = this.ask(() => this.look(transaction));
    if (isStaged) throw new Error(`${transaction} is to be forgotten, but it is not committed`);
    if (isMarked) {
      this.ask(() => {
        this.out.remove(marker(transaction));
        this.out.sync(STAGING);
      });
    }
  }

  /** A folder that fails now may work again. */
  ask(call) {
    try {
      return call();
    } catch (error) {
      throw new Retry(error.message);
    }
  }
}
