import assert from 'node:assert/strict';
import { test } from 'node:test';
import CarrierStats from '../src/carrier-stats.js';
import { CallFailed, Harness, record } from '../../../../sdk/js/src/testing.js';

const line = (delay) => `2013,1,1,517,515,${delay},830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z`;

test('each flight gives the running values of its key', () => {
  const flights = [
    record('UA,EWR', line('-3'), 1),
    record('B6,JFK', line('2.0'), 1),
    record('UA,EWR', line('-5'), 1),
    record('UA,EWR', line('"7"'), 1),
  ];
  for (const size of [1, 4]) {
    const harness = new Harness(CarrierStats);
    harness.sendInBatches(0, size, flights);
    const lines = harness.take().map(({ valueText }) => valueText);
    assert.deepEqual(lines, ['UA,EWR,1,-3,-3', 'B6,JFK,1,2,2', 'UA,EWR,2,-8,-3', 'UA,EWR,3,-1,7']);
  }
});

test('bad lines are named and change nothing', () => {
  const harness = new Harness(CarrierStats);
  const records = [line('1'), line('NA'), '1,2', '"1,2'].map((value) => record('k', value, 1));
  assert.throws(
    () => harness.send(0, ...records),
    (error) => {
      assert.ok(error instanceof CallFailed);
      assert.deepEqual([...error.bad.keys()], [1, 2, 3]);
      assert.match(error.bad.get(1), /dep_delay 'NA'/);
      assert.match(error.bad.get(2), /2 fields/);
      assert.match(error.bad.get(3), /quote/);
      return true;
    },
  );
  assert.deepEqual(harness.take(), []);
  assert.equal(harness.state('delays', 'k'), undefined);
});

test('the state has the layout of the other languages', () => {
  const harness = new Harness(CarrierStats);
  harness.send(0, record('k', line('-3'), 1), record('k', line('5'), 1));
  const stored = new DataView(harness.stored('delays', 'k').slice().buffer);
  assert.deepEqual([0, 8, 16].map((at) => stored.getBigInt64(at, true)), [2n, 2n, 5n]);
});
