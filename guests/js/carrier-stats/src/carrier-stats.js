// Running departure delays of each carrier and origin: for every flight one line
// carrier,origin,count,sum_dep_delay,max_dep_delay, after this flight. Delays are whole minutes. The same as guests/carrier-stats,
// down to the state that it keeps.
//
// Input: lines of the flights file, keyed carrier,origin, as parse-flights gives them.

import { BadRecord, struct } from '../../../../sdk/js/src/index.js';

// Where the delay stands in a line, and how many fields a line has.
const DEP_DELAY = 5;
const FIELDS = 19;

export default class CarrierStats {
  static info = {
    name: 'carrier-stats',
    version: '0.1.0',
    states: [{ name: 'delays', version: 1, codec: struct({ count: 'u64', sum: 's64', max: 's64' }) }],
  };

  process(record, out) {
    const delay = delayOf(record.valueText);
    const state = record.state();
    const stats = state.get() ?? state.set({ count: 0, sum: 0, max: 0 });
    if (stats.count === 0 || delay > stats.max) stats.max = delay;
    stats.count += 1;
    stats.sum += delay;
    const { keyText } = record;
    out.emit(keyText, `${keyText},${stats.count},${stats.sum},${stats.max}`, record.time);
  }
}

/** The delay of a flight's line. */
function delayOf(line) {
  const fields = line.includes('"') ? quotedFields(line) : line.split(',');
  if (fields.length !== FIELDS) throw new BadRecord(`${fields.length} fields, a flight has ${FIELDS}`);
  const field = fields[DEP_DELAY];
  const delay = wholeOf(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field);
  if (delay === undefined) throw new BadRecord(`dep_delay '${field}' is not a number`);
  return delay;
}

/** The fields of a line that has quotes, as they stand there. */
function quotedFields(line) {
  const fields = [];
  let at = 0;
  for (;;) {
    let end = line.indexOf(',', at);
    if (line[at] === '"') {
      for (end = at + 1; ; end += 1) {
        const quote = line.indexOf('"', end);
        if (quote < 0) throw new BadRecord('a quoted field does not end with its quote');
        end = quote + 1;
        if (end === line.length || line[end] === ',') break;
        if (line[end] !== '"') throw new BadRecord('a quoted field does not end with its quote');
      }
    }
    if (end < 0 || end === line.length) {
      fields.push(line.slice(at));
      return fields;
    }
    fields.push(line.slice(at, end));
    at = end + 1;
  }
}

/** A whole number: digits, or a decimal number without what is after its point; undefined if it is none, or too great. */
function wholeOf(text) {
  const number = Number(text);
  if (Number.isSafeInteger(number) && String(number) === text) return number;
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Math.abs(number) < 2 ** 53) return Math.trunc(number) + 0;
  return undefined;
}
