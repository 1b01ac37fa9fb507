import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, record } from '../../../../sdk/js/src/testing.js';
import Hoard from '../src/hoard.js';

test('the list has all and the map the greatest', () => {
  const harness = new Harness(Hoard);
  const records = Array.from({ length: 1000 }, (_, i) => record('k', `${(i * 7) % 1000}`.padStart(20, '0'), i));
  harness.sendInBatches(0, 77, records);
  assert.equal(harness.state('all', 'k').length, 1000);
  assert.equal(harness.state('greatest', 'k').length, 400);
  assert.throws(() => harness.send(0, record('k', 'none')), /no number/);
  harness.end();
  const told = harness.take().map(({ valueText }) => valueText);
  assert.deepEqual([told.length, told[1], told[1000], told[1399]], [1400, 'all 7', 'greatest 600 of 800', 'greatest 999 of 857']);
});
