import assert from 'node:assert/strict';
import { test } from 'node:test';
import { abortOutcome, decodeText, outcome } from '../src/index.js';
import { CallFailed, MemoryFolders, SinkHarness, record } from '../src/testing.js';

class Writer {
  static info = { name: 'lines', version: '1', committableVersions: [1] };
  open(task, config) {
    this.out = task.folder(config.folder ?? 'out');
  }
  begin(transaction) {
    this.transaction = transaction;
    this.lines = 0;
  }
  write(batch) {
    let text = '';
    for (const { valueText } of batch) text += `${valueText}\n`;
    this.lines += batch.length;
    this.out.append(`${this.transaction}.staged`, text);
  }
  prepare(checkpoint) {
    if (this.lines === 0) return undefined;
    this.out.sync(`${this.transaction}.staged`);
    this.out.sync('');
    return { version: 1, bytes: `part-${checkpoint}` };
  }
}

class Committer {
  open({ folder }) {
    this.out = folder('out');
  }
  commit({ id, bytes }) {
    const part = decodeText(bytes);
    if (part.includes('vague')) throw new Error('the line is dead');
    if (part.includes('nothing')) return undefined;
    if (this.out.exists(part)) return outcome.alreadyCommitted;
    return this.out.rename(`${id}.staged`, part) ? outcome.committed : outcome.lost('taken');
  }
  status({ bytes }) {
    return this.out.exists(decodeText(bytes)) ? outcome.alreadyCommitted : outcome.retry('not yet');
  }
  abort(transaction) {
    if (transaction === 'stuck') throw new Error('can not');
    this.out.remove(`${transaction}.staged`);
    return abortOutcome.aborted;
  }
  listDangling() {
    return this.out.list('').filter((name) => name.endsWith('.staged')).map((name) => name.slice(0, -7));
  }
  forget() {}
}

const sink = { Writer, Committer };

test('a transaction is written, prepared and committed', () => {
  const folders = new MemoryFolders('out');
  const harness = new SinkHarness(sink, folders);
  harness.begin('t1');
  assert.equal(harness.prepare('1-1'), undefined);
  harness.begin('t2');
  harness.write(record('k', 'one'), record('k', 'zwö'));
  harness.write(record('k', 'three'));
  const prepared = harness.prepare('1-2');
  assert.deepEqual([prepared.id, prepared.checkpoint, prepared.version, decodeText(prepared.bytes)], ['t2', '1-2', 1, 'part-1-2']);
  harness.begin('t3');
  harness.write(record('k', 'lost'));
  folders.crash();
  assert.deepEqual(harness.listDangling(), ['t2']);
  assert.deepEqual(harness.status(prepared), [outcome.retry('not yet')]);
  assert.deepEqual(harness.commit(prepared), [outcome.committed]);
  assert.deepEqual(harness.commit(prepared), [outcome.alreadyCommitted]);
  assert.deepEqual(folders.files('out'), { 'part-1-2': 'one\nzwö\nthree\n' });
  harness.forget('t2');
});

test('after the first that is not committed the rest is not tried, and who throws does not know', () => {
  const folders = new MemoryFolders('out');
  const harness = new SinkHarness(sink, folders);
  const committable = (id, part) => ({ id, checkpoint: '1-1', version: 1, bytes: new TextEncoder().encode(part) });
  const [first, second, third] = harness.commit(committable('a', 'vague'), committable('b', 'x'), committable('c', 'y'));
  assert.equal(first.tag, 'unknown');
  assert.match(first.val, /the line is dead/);
  assert.match(second.val + third.val, /not tried: a.*not tried: a/);
  assert.match(harness.commit(committable('a', 'nothing'))[0].val, /no outcome/);
  assert.match(harness.abort('fine', 'stuck')[1].val, /can not/);
});

test('only append and read may be called in write; errors of the folder are the sink\'s', () => {
  class Hasty extends Writer {
    write() {
      this.out.sync('');
    }
  }
  const harness = new SinkHarness({ Writer: Hasty, Committer }, new MemoryFolders('out'));
  harness.begin('t');
  assert.throws(() => harness.write(record('k', 'v')), (error) => error instanceof CallFailed && /only append and read/.test(error.message));
  const other = new SinkHarness(sink, new MemoryFolders('out'), { folder: 'elsewhere' });
  other.begin('t');
  assert.throws(() => other.write(record('k', 'v')), /no folder is granted as 'elsewhere'/);
});

test('a version that is not declared is refused', () => {
  class Newer extends Writer {
    prepare() {
      return { version: 2, bytes: '' };
    }
  }
  const harness = new SinkHarness({ Writer: Newer, Committer }, new MemoryFolders('out'));
  harness.begin('t');
  assert.throws(() => harness.prepare('1-1'), /version 2/);
});
