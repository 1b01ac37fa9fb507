import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, record } from '../../../../sdk/js/src/testing.js';
import OwnCount from '../src/own-count.js';

const numbers = (...all) => all.map((number) => record('', `${number}`.padStart(20, '0')));

test('a call that fails counts nothing, and a restore goes on', () => {
  let harness = new Harness(OwnCount);
  harness.send(0, ...numbers(1, 2));
  assert.throws(() => harness.send(0, ...numbers(3, 77)), /ends in 77/);
  harness.send(0, ...numbers(3));
  const parts = harness.snapshot();
  harness = new Harness(OwnCount);
  harness.restore([...parts, ...parts]);
  harness.end();
  assert.equal(harness.take()[0].valueText, '6 12');
});
