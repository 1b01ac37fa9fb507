import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, record } from 'weir-sdk/testing';
import {{Name}} from '../src/plugin.js';

test('values become capitals', () => {
  const harness = new Harness({{Name}});
  harness.send(0, record('ann', 'hello', 1), record('bob', 'Weir', 2));
  assert.deepEqual(harness.take().map(({ valueText }) => valueText), ['HELLO', 'WEIR']);
});

test('a value that is no text is a bad record', () => {
  const harness = new Harness({{Name}});
  assert.throws(() => harness.send(0, record('ann', Uint8Array.of(0xff), 1)), /no UTF-8/);
});
