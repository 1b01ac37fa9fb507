// Keeps the number at the front of every value in a list, and the greatest of each key in a map; tells both at the end of the input, a line
// for each number. It exercises lists and maps: what it tells depends on no order of the input.

import { BadRecord, struct, text, unsignedKey } from '../../../../sdk/js/src/index.js';

/** Entries that the map keeps. */
const KEPT = 400;

const number = struct({ n: 'u64' });

export default class Hoard {
  static info = {
    name: 'hoard-js',
    version: '0.1.0',
    states: [
      { name: 'all', kind: 'list', codec: number },
      { name: 'count', codec: number },
      { name: 'greatest', kind: 'map', codec: text, keyCodec: unsignedKey },
    ],
  };

  process(record) {
    const digits = record.valueText.slice(0, 20);
    if (!/^\d{20}$/.test(digits)) throw new BadRecord('no number');
    const n = Number(digits);
    record.state('all').push({ n });
    const greatest = record.state('greatest');
    greatest.set(n, `of ${record.time}`);
    const count = record.state('count').get() ?? record.state('count').set({ n: 0 });
    count.n += 1;
    if (count.n > KEPT) greatest.delete(greatest.first()[0]);
  }

  onEndKey(ended, out) {
    const all = ended.state('all');
    const counted = ended.state('count').get()?.n ?? 0;
    if (all.length !== counted) throw new Error(`${all.length} in the list, ${counted} counted`);
    for (const { n } of all) out.emit(ended.key, `all ${n}`, 0);
    for (const [n, text] of ended.state('greatest')) out.emit(ended.key, `greatest ${n} ${text}`, 0);
  }
}
