// Counts and adds up the numbers at the front of all values, whatever their key, in state of its own; tells both at the end of the input. It
// exercises operator state.
//
// A number that ends in 77 is a bad record, which shows after it was counted: the call that meets it is undone, and made again without it.

import { BadRecord, decodeText } from '../../../../sdk/js/src/index.js';

export default class OwnCount {
  static info = { name: 'own-count-js', version: '0.1.0' };

  count = 0;
  sum = 0;

  process(record) {
    const number = Number(record.valueText.slice(0, 20));
    this.count += 1;
    this.sum += number;
    if (number % 100 === 77) throw new BadRecord('it ends in 77');
  }

  onEnd(port, out) {
    out.emit('', `${this.count} ${this.sum}`, 0);
  }

  snapshot() {
    return [{ mode: 'split', bytes: JSON.stringify([this.count, this.sum]) }];
  }

  restore(parts) {
    this.count = 0;
    this.sum = 0;
    for (const { bytes } of parts) {
      const [count, sum] = JSON.parse(decodeText(bytes));
      this.count += count;
      this.sum += sum;
    }
  }
}
