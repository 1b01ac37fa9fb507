import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, record } from 'weir-sdk/testing';
import {{Name}} from '../src/plugin.js';

test('each key has its own count', () => {
  const harness = new Harness({{Name}});
  harness.send(0, record('ann', 'a', 1), record('bob', 'b', 2), record('ann', 'c', 3));
  assert.deepEqual(harness.take().map(({ keyText, valueText }) => `${keyText} ${valueText}`), ['ann 1', 'bob 1', 'ann 2']);
  assert.deepEqual(harness.state('count', 'ann'), { records: 2 });
});
