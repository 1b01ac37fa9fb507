import assert from 'node:assert/strict';
import { test } from 'node:test';
import { abortOutcome, outcome } from 'weir-sdk';
import { MemoryFolders, SinkHarness, record } from 'weir-sdk/testing';
import * as plugin from '../src/plugin.js';

const TRANSACTION = 'a.1.out.0.1';

/** A sink that has prepared two lines. */
function prepared() {
  const folders = new MemoryFolders('out');
  const sink = new SinkHarness(plugin, folders);
  sink.begin(TRANSACTION);
  sink.write(record('k', 'one', 1), record('k', 'two', 2));
  const what = sink.prepare('1-7');
  // What is prepared survives a loss of power.
  folders.crash();
  return { folders, sink, what };
}

test('records appear with the commit, and once', () => {
  const { folders, sink, what } = prepared();
  assert.equal(folders.files('out')['part-0-1-7'], undefined);
  assert.equal(sink.status(what)[0].tag, 'retry');
  assert.deepEqual(sink.commit(what), [outcome.committed]);
  folders.crash();
  assert.deepEqual(sink.commit(what), [outcome.alreadyCommitted]);
  assert.equal(folders.files('out')['part-0-1-7'], 'one\ntwo\n');
  sink.forget(TRANSACTION);
  assert.deepEqual(Object.keys(folders.files('out')), ['part-0-1-7']);
});

test('what is aborted is gone, and what is committed stays', () => {
  const { sink, what } = prepared();
  assert.deepEqual(sink.listDangling(), [TRANSACTION]);
  assert.throws(() => sink.forget(TRANSACTION), /not committed/);
  assert.deepEqual(sink.abort(TRANSACTION), [abortOutcome.aborted]);
  assert.deepEqual(sink.listDangling(), []);
  assert.equal(sink.status(what)[0].tag, 'lost');
  const other = prepared();
  other.sink.commit(other.what);
  assert.deepEqual(other.sink.abort(TRANSACTION), [abortOutcome.committed]);
});

test('an empty transaction leaves nothing', () => {
  const folders = new MemoryFolders('out');
  const sink = new SinkHarness(plugin, folders);
  sink.begin(TRANSACTION);
  assert.equal(sink.prepare('1-7'), undefined);
  assert.deepEqual(folders.files('out'), {});
});
