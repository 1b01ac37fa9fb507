import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, record } from '../../../../sdk/js/src/testing.js';
import Probe from '../src/probe.js';

test('it does what it is told', () => {
  const harness = new Harness(Probe, { greeting: 'hello' });
  harness.send(0, ...['greet', 'aside', 'timer', 'so ö'].map((value) => record('k', value, 1)));
  harness.end();
  assert.deepEqual(harness.take().map(({ valueText }) => valueText), [
    'hello',
    'watermark -Infinity',
    'SO Ö',
    'event-time 10 sooner at last, seen 4',
    'event-time 20 later at last, seen 4',
    'end of 0',
    'at the end: greet aside timer so ö',
  ]);
  assert.equal(harness.take('aside')[0].valueText, 'stood äside');
  for (const [value, words] of [['bad', /tölt to/], ['retry', /retry: told to/], ['throw', /TypeError/]]) {
    assert.throws(() => harness.send(0, record('k', value)), words);
  }
});
