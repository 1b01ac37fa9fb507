// {{name}}: counts the records of each key, and gives the count with every record.

import { struct } from 'weir-sdk';

export default class {{Name}} {
  static info = {
    name: '{{name}}',
    version: '0.1.0',
    // The state of each key, which a checkpoint finds by its name. The host keeps it: nothing that must survive belongs into `this`.
    states: [{ name: 'count', codec: struct({ records: 'u64' }) }],
  };

  process(record, out) {
    const state = record.state('count');
    const count = state.get() ?? state.set({ records: 0 });
    count.records += 1;
    out.emit(record.key, `${count.records}`, record.time);
  }
}
