import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BadRecord, Retry, json, log, signedKey, struct, text, unsignedKey } from '../src/index.js';
import { CallFailed, Harness, MemoryFolders, record, takeLog } from '../src/testing.js';

/** Does what a record's value says. */
class Teller {
  static info = { name: 'teller', version: '1', states: [{ name: 'unused' }, { name: 'last', version: 2, codec: text }], sideOutputs: ['never', 'values'] };

  open(task, config) {
    if (task.parallelism !== 1 || config.refuse) throw new Error('told to');
  }

  process(record, out) {
    const state = record.state('last');
    switch (record.valueText) {
      case 'bad':
        throw new BadRecord('no good');
      case 'retry':
        throw new Retry('later');
      case 'fatal':
        return record.nothing.at(0);
      case 'promise':
        return Promise.resolve();
      case 'delete':
        state.delete();
        break;
      case 'empty':
        state.delete();
        state.set('');
        break;
      default:
        state.set(record.valueText);
    }
    out.forward(record);
    out.side('values').emit(record.key, state.get() ?? null, record.time);
  }
}

const plain = (records) => records.map(({ keyText, valueText, time }) => [keyText, valueText, time]);

const failure = (run) => {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof CallFailed, error);
    return error;
  }
  assert.fail('it did not fail');
};

test('state and side outputs', () => {
  const harness = new Harness(Teller);
  harness.send(0, record('a', 'one', 1), record('b', 'empty', 2), record('a', 'two', 3));
  assert.deepEqual(plain(harness.take('values')), [['a', 'one', 1], ['b', '', 2], ['a', 'two', 3]]);
  assert.equal(harness.state('last', 'a'), 'two');
  assert.equal(harness.state(1, 'b'), '');
  assert.equal(harness.state('unused', 'a'), undefined);
  harness.send(0, record('a', 'delete', 1));
  assert.equal(harness.state('last', 'a'), undefined);
  assert.deepEqual(harness.take('never'), []);
  assert.equal(harness.take().length, 4);
  assert.throws(() => harness.take('nowhere'), /nowhere/);
});

test('a failure changes nothing', () => {
  assert.match(failure(() => new Harness(Teller, { refuse: true })).message, /^fatal: Error: told to/);
  for (const [value, kind, words] of [
    ['bad', 'bad-input', /1: no good/],
    ['retry', 'retry', /later/],
    ['fatal', 'fatal', /TypeError.*at Teller.process/],
    ['promise', 'fatal', /promise/],
  ]) {
    const harness = new Harness(Teller);
    const error = failure(() => harness.send(0, record('a', 'one'), record('a', value), record('a', 'two'), record('a', value)));
    assert.equal(error.kind, kind);
    assert.match(error.message, words);
    assert.deepEqual([...error.bad.keys()], value === 'bad' ? [1, 3] : []);
    assert.equal(harness.state('last', 'a'), undefined);
    assert.equal(harness.take().length + harness.take('values').length, 0);
    harness.send(0, record('a', 'one'));
    assert.equal(harness.take().length, 1, 'it was the end');
  }
});

test('what a record has beside key and value is forwarded, and can be read', () => {
  const seen = [];
  class Look {
    static info = { name: 'look', version: '1' };
    process(record, out) {
      seen.push({ key: record.key, value: record.value, headers: record.headers, port: record.port });
      out.forward(record);
    }
  }
  const bytes = (...values) => Uint8Array.from(values);
  const headers = [{ name: 'h', value: null }, { name: 'h', value: bytes(120) }, { name: 'ä', value: bytes() }];
  const records = [record('k', 'v', 5), record('', null, -6), record(null, '', 7, headers), record(bytes(0xff, 0xc3, 0xa4), 'w', 2 ** 40)];
  const harness = new Harness(Look);
  harness.send(3, ...records);
  const given = harness.take();
  assert.deepEqual(given.map(({ time }) => time), [5, -6, 7, 2 ** 40]);
  assert.deepEqual(seen.map(({ key, value }) => [key, value]), [
    [bytes(107), bytes(118)],
    [bytes(), null],
    [null, bytes()],
    [bytes(0xff, 0xc3, 0xa4), bytes(119)],
  ]);
  assert.deepEqual(given.map(({ key, value, headers }) => ({ key, value, headers, port: 3 })), seen);
  assert.deepEqual(seen[2].headers, headers);
  assert.equal(given[3].keyText, '\ufffdä');
});

test('what is emitted may be text, bytes, null, and have headers', () => {
  class Emit {
    static info = { name: 'emit', version: '1' };
    process(record, out) {
      out.emit('schlüssel', '\u{1f600}', record.time);
      out.emit(null, Uint8Array.of(0, 255), -1);
      out.emit('', null, 0, [{ name: 'näme', value: 'wert' }, { name: 'none', value: null }]);
      out.forward(record, 'neu ü');
      out.forward(record, null);
      out.emit('last', 'one', Number.MIN_SAFE_INTEGER);
    }
  }
  const harness = new Harness(Emit);
  harness.send(0, record('k', 'v', 5, [{ name: 'kept', value: 'x' }]));
  const given = harness.take();
  assert.deepEqual(plain(given).map(([key, value]) => [key, value]), [
    ['schlüssel', '\u{1f600}'], [null, '\0\ufffd'], ['', null], ['k', 'neu ü'], ['k', null], ['last', 'one'],
  ]);
  assert.deepEqual(given.map(({ time }) => time), [5, -1, 0, 5, 5, Number.MIN_SAFE_INTEGER]);
  assert.deepEqual([...given[1].value], [0, 255]);
  assert.deepEqual(given.map(({ headers }) => headers.map(({ name }) => name)), [[], [], ['näme', 'none'], ['kept'], ['kept'], []]);
  assert.equal(given[2].headers[1].value, null);
});

test('a text that is no UTF-8 makes a bad record', () => {
  class Upper {
    static info = { name: 'upper', version: '1' };
    process(record, out) {
      out.forward(record, `${record.keyText}${record.valueText.toUpperCase()}`);
    }
  }
  const harness = new Harness(Upper);
  harness.send(0, record('ä', 'ö'));
  assert.equal(harness.take()[0].valueText, 'äÖ');
  const error = failure(() => harness.send(0, record('k', Uint8Array.of(65, 255)), record('k', 'fine'), record(Uint8Array.of(0xc3), 'v')));
  assert.deepEqual([...error.bad], [[0, 'the value is no UTF-8'], [2, 'the key is no UTF-8']]);
});

test('nonsense is refused', () => {
  for (const [key, value, time, words] of [
    [undefined, 'v', 1, /not undefined/],
    ['k', 7, 1, /not number/],
    ['k', 'v', 1.5, /not 1.5/],
    ['k', 'v', undefined, /whole number/],
  ]) {
    class Nonsense {
      static info = { name: 'nonsense', version: '1' };
      process(record, out) {
        out.emit(key, value, time);
      }
    }
    assert.match(failure(() => new Harness(Nonsense).send(0, record('a', 'b'))).message, words);
  }
});

test('a large output goes over in chunks', () => {
  class Copy {
    static info = { name: 'copy', version: '1' };
    process(record, out) {
      out.forward(record);
    }
  }
  for (const headers of [[], [{ name: 'h', value: 'x'.repeat(1000) }]]) {
    const harness = new Harness(Copy);
    const sizes = [];
    const emit = harness.driver.out.handOver;
    harness.driver.out.handOver = (port, batch) => {
      sizes.push(batch.data.length + batch.aux.length);
      emit(port, batch);
    };
    const records = Array.from({ length: 2000 }, (_, i) => record('k', 'v'.repeat(1000), i, headers));
    harness.send(0, ...records);
    assert.deepEqual(harness.take().map(({ time }) => time), records.map(({ time }) => time));
    assert.ok(sizes.length > 5 && sizes.every((size) => size < 300_000), `${sizes}`);
  }
});

test('state is what the objects hold at the end of a call, and no two keys share one', () => {
  const shared = { n: 0 };
  class Count {
    static info = {
      name: 'count',
      version: '1',
      states: [{ name: 'json', codec: json }, { name: 'struct', codec: struct({ n: 'u32', sum: 's64', mean: 'f64' }) }, { name: 'bytes' }],
    };
    process(record) {
      const a = record.state('json').get() ?? record.state('json').set(shared);
      a.n += 1;
      const b = record.state('struct').get() ?? record.state('struct').set({ n: 0, sum: 0, mean: 0 });
      b.n += 1;
      b.sum -= 2 ** 40;
      b.mean = b.sum / b.n;
      Count.scratch[0] += 1;
      record.state('bytes').set(Count.scratch);
    }
    static scratch = new Uint8Array(1);
  }
  const records = ['a', 'b', 'a', 'c', 'a', 'b'].map((key) => record(key, 'x'));
  for (const size of [1, 2, 6]) {
    Count.scratch[0] = 0;
    const harness = new Harness(Count);
    harness.sendInBatches(0, size, records);
    assert.deepEqual(['a', 'b', 'c'].map((key) => harness.state('json', key)), [{ n: 3 }, { n: 2 }, { n: 1 }]);
    assert.deepEqual(harness.state('struct', 'a'), { n: 3, sum: -3 * 2 ** 40, mean: -(2 ** 40) });
    assert.deepEqual(['a', 'b', 'c'].map((key) => [...harness.state('bytes', key)]), [[5], [6], [4]]);
    assert.equal(harness.stored('struct', 'a').length, 20);
  }
  assert.deepEqual(shared, { n: 0 });
});

test('a value that is only looked at is not written', () => {
  class Peek {
    static info = { name: 'peek', version: '1', states: [{ name: 's', codec: json }] };
    process(record) {
      if (record.valueText === 'set') record.state().set({ list: [1] });
      else record.state().get();
    }
  }
  const harness = new Harness(Peek);
  harness.send(0, record('k', 'set'));
  const { store } = harness.driver.states;
  let updates;
  harness.driver.states.store = function () {
    return (updates = store.call(this));
  };
  harness.send(0, record('k', 'look'), record('absent', 'look'));
  assert.deepEqual(updates, []);
});

test('state that can not be encoded or decoded names itself', () => {
  class Wrong {
    static info = { name: 'wrong', version: '1', states: [{ name: 'numbers', codec: struct({ n: 'u64' }) }] };
    process(record) {
      record.state().set({ n: JSON.parse(record.valueText) });
    }
  }
  for (const value of ['-1', '1.5', '9007199254740993', '"1"', 'null']) {
    assert.match(failure(() => new Harness(Wrong).send(0, record('k', value))).message, /field 'n'/);
  }
  const harness = new Harness(Wrong);
  harness.stores[0].set('k', Uint8Array.of(1));
  harness.send(0, record('k', '1'));
  assert.deepEqual(harness.state(0, 'k'), { n: 1 });
  assert.throws(() => struct({ n: 'u128' }), /u128/);
});

class Window {
  static info = { name: 'window', version: '1', states: [{ name: 'count', codec: json }] };

  process(record, out, timers) {
    const count = record.state().get() ?? record.state().set({ n: 0 });
    if (record.time <= timers.watermark) return;
    count.n += 1;
    timers.setEventTime(Math.ceil(record.time / 10) * 10, 'end');
    if (record.valueText === 'soon') timers.setProcessingTime(timers.processingTime + 5);
    if (record.valueText === 'never') timers.deleteProcessingTime(timers.processingTime + 5);
  }

  onTimer(timer, out, timers) {
    if (timer.kind === 'processing-time') {
      assert.deepEqual([...timer.payload], []);
      out.emit(timer.keyText, 'tick', timer.time);
      return;
    }
    if (timer.keyText === 'bad') throw new BadRecord('no record is at hand');
    assert.equal(timer.payloadText, 'end');
    out.emit(timer.key, `${timer.state().get().n}${timers.watermark === Infinity ? ' at last' : ''}`, timer.time);
    timer.state().delete();
  }
}

test('timers fire in order, once, with their state', () => {
  const harness = new Harness(Window);
  harness.send(0, record('b', '', 1), record('a', '', 2), record('a', '', 10), record('a', '', 15), record('c', 'soon', 30));
  assert.equal(harness.timers, 5);
  harness.advanceWatermark(10);
  assert.deepEqual(plain(harness.take()), [['a', '3', 10], ['b', '1', 10]]);
  harness.reopen();
  harness.advanceProcessingTime(4);
  assert.deepEqual(harness.take(), []);
  harness.advanceProcessingTime(5);
  assert.deepEqual(plain(harness.take()), [['c', 'tick', 5]]);
  harness.send(0, record('a', '', 9), record('a', 'soon', 16), record('a', 'never', 17));
  assert.equal(harness.state('count', 'a').n, 2);
  harness.end();
  assert.deepEqual(plain(harness.take()), [['a', '2 at last', 20], ['c', '1 at last', 30]]);
  assert.equal(harness.timers, 0);
  harness.send(0, record('bad', '', 41, []));
});

test('what a call did to timers is not done again at the end', () => {
  class Left extends Window {
    onEndKey(ended, out) {
      out.emit(ended.key, 'ended', 0);
    }
  }
  const harness = new Harness(Left);
  harness.send(0, record('a', 'soon', 1));
  harness.send(0, record('b', 'soon', 1));
  harness.driver.timers.service.registerMany = () => assert.fail('it was set once');
  harness.queue.set.clear();
  harness.end();
  assert.deepEqual(plain(harness.take()), [['a', 'ended', 0], ['b', 'ended', 0]]);
  assert.equal(harness.timers, 0);
});

test('a bad record in onTimer fails the attempt', () => {
  const harness = new Harness(Window);
  harness.send(0, record('bad', '', 1));
  assert.equal(failure(() => harness.advanceWatermark(10)).kind, 'fatal');
});

test('the end of the input is told, and every key with it', () => {
  class Last {
    static info = { name: 'last', version: '1', inputs: 2, states: [{ name: 'last', codec: text }] };
    process(record) {
      record.state().set(record.valueText);
    }
    onEnd(port, out) {
      out.emit(null, `end of ${port}`, 0);
    }
    onEndKey(ended, out) {
      out.emit(ended.key, `${ended.keyText}=${ended.state().get()}`, 1);
      ended.state().delete();
    }
  }
  const harness = new Harness(Last);
  harness.send(1, ...['e', 'd', 'c', 'b', 'ä'].map((key) => record(key, `of ${key}`)));
  harness.end();
  const said = harness.take().map(({ valueText }) => valueText);
  assert.deepEqual(said.slice(0, 2), ['end of 0', 'end of 1']);
  assert.deepEqual(said.slice(2).sort(), ['b=of b', 'c=of c', 'd=of d', 'e=of e', 'ä=of ä']);
  assert.equal(harness.state(0, 'b'), undefined);
});

class Hoard {
  static info = {
    name: 'hoard',
    version: '1',
    states: [
      { name: 'all', kind: 'list', codec: json },
      { name: 'sum', codec: struct({ n: 'u32' }) },
      { name: 'by-time', kind: 'map', codec: text, keyCodec: signedKey },
      { name: 'by-word', kind: 'map', codec: json },
    ],
  };

  process(record, out) {
    const all = record.state('all');
    const byTime = record.state('by-time');
    const byWord = record.state('by-word');
    const sum = record.state('sum').get() ?? record.state('sum').set({ n: 0 });
    sum.n += 1;
    switch (record.valueText) {
      case 'show':
        out.emit(record.key, JSON.stringify([all.length, all.toArray(), [...byTime.entries({ from: -5, to: 3 })], [...byWord]]), 0);
        break;
      case 'clear':
        all.clear();
        byTime.clear();
        all.push('after');
        assert.equal(byTime.isEmpty, true);
        assert.equal(byTime.first(), undefined);
        assert.deepEqual(byWord.first({ from: 'a' }), ['x', 1]);
        assert.equal(byTime.has(record.time), false);
        break;
      case 'forget':
        byWord.delete('ö');
        byWord.delete('absent');
        break;
      case 'bad':
        all.push('never');
        throw new BadRecord('told to');
      default:
        all.push({ word: record.valueText });
        byTime.set(record.time, record.valueText);
        byWord.set(record.valueText, (byWord.get(record.valueText) ?? 0) + 1);
    }
  }

  onEndKey(ended, out) {
    out.emit(ended.key, `${ended.state('all').length} ${ended.state('by-word').has('x')}`, 0);
  }
}

test('lists and maps belong to keys, are in order, and see what the call did', () => {
  const records = [
    ['a', 'x', 7], ['a', 'ö', -5], ['b', 'x', 1], ['a', 'x', 2], ['a', 'show', 0],
    ['a', 'forget', 0], ['b', 'clear', 1], ['a', 'z', -6], ['b', 'show', 0], ['a', 'show', 0],
  ].map(([key, value, time]) => record(key, value, time));
  for (const size of [1, 3, 10]) {
    const harness = new Harness(Hoard);
    harness.sendInBatches(0, size, records);
    const word = (word) => ({ word });
    assert.deepEqual(harness.take().map(({ valueText }) => JSON.parse(valueText)), [
      [3, [word('x'), word('ö'), word('x')], [[-5, 'ö'], [2, 'x']], [['x', 2], ['ö', 1]]],
      [1, ['after'], [], [['x', 1]]],
      [4, [word('x'), word('ö'), word('x'), word('z')], [[-5, 'ö'], [2, 'x']], [['x', 2], ['z', 1]]],
    ]);
    assert.deepEqual(harness.state('by-time', 'a'), [[-6, 'z'], [-5, 'ö'], [2, 'x'], [7, 'x']]);
    assert.deepEqual(harness.state('all', 'b'), ['after']);
    assert.deepEqual(harness.state('sum', 'a'), { n: 7 });
    failure(() => harness.send(0, record('b', 'bad')));
    assert.deepEqual(harness.state('all', 'b'), ['after']);
    harness.end();
    assert.deepEqual(plain(harness.take()), [['a', '4 true', 0], ['b', '1 true', 0]]);
  }
});

test('map keys that are numbers keep their order', () => {
  for (const [codec, numbers] of [
    [unsignedKey, [0, 1, 255, 256, 2 ** 40, Number.MAX_SAFE_INTEGER]],
    [signedKey, [Number.MIN_SAFE_INTEGER, -256, -1, 0, 1, Number.MAX_SAFE_INTEGER]],
  ]) {
    const encodings = numbers.map((number) => Buffer.from(codec.encode(number)));
    assert.deepEqual([...encodings].sort(Buffer.compare), encodings);
    assert.deepEqual(encodings.map((stored) => codec.decode(stored)), numbers);
    assert.throws(() => codec.encode(1.5), /whole/);
  }
  assert.throws(() => unsignedKey.encode(-1), /from 0/);
  // As the Rust SDK has an i64 and a u64.
  assert.deepEqual([...signedKey.encode(-1)], [0x7f, 255, 255, 255, 255, 255, 255, 255]);
  assert.deepEqual([...unsignedKey.encode(258)], [0, 0, 0, 0, 0, 0, 1, 2]);
});

test('state of the operator itself is in its snapshot, and a failed call leaves it', () => {
  class Numbered {
    static info = { name: 'numbered', version: '1' };
    counters = [];
    process(record, out) {
      this.counters[0] = (this.counters[0] ?? 0) + 1;
      if (record.valueText === 'bad') throw new BadRecord('told to');
      out.emit(record.key, `${this.counters[0]}`, record.time);
    }
    snapshot() {
      return this.counters.map((count) => ({ mode: 'split', bytes: `${count}` }));
    }
    restore(parts) {
      this.counters = parts.map(({ version, bytes }) => Number(new TextDecoder().decode(bytes)) * version);
    }
  }
  let harness = new Harness(Numbered);
  harness.send(0, record('k', ''), record('k', ''));
  failure(() => harness.send(0, record('k', ''), record('k', 'bad')));
  const parts = harness.snapshot();
  assert.deepEqual(parts, [{ mode: 'split', version: 1, bytes: Uint8Array.of(50) }]);
  harness = new Harness(Numbered);
  harness.restore(parts);
  harness.send(0, record('k', ''));
  assert.equal(harness.take()[0].valueText, '3');
  Numbered.prototype.snapshot = () => [{ mode: 'some', bytes: '' }];
  assert.match(failure(() => harness.snapshot()).message, /mode 'some'/);
});

test('the log is kept, and folders need to be asked for', () => {
  takeLog();
  log('warn', 'look out');
  assert.deepEqual(takeLog(), [{ level: 'warn', message: 'look out' }]);
  assert.throws(() => log('loud', 'x'), /loud/);

  class Reader {
    open(task) {
      this.table = task.folder('in').read('table.csv', 0, 100);
    }
    process(record, out) {
      out.emit(record.key, this.table, record.time);
    }
  }
  const folders = new MemoryFolders('in');
  folders.functions().append('in', 'table.csv', Uint8Array.of(65, 66));
  Reader.info = { name: 'reader', version: '1', files: true };
  const harness = new Harness(Reader, {}, { folders });
  harness.send(0, record('k', 'v'));
  assert.equal(harness.take()[0].valueText, 'AB');
  Reader.info = { name: 'reader', version: '1' };
  assert.match(failure(() => new Harness(Reader, {}, { folders })).message, /files: true/);
});
