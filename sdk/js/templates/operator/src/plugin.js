// {{name}}: passes each value on in capital letters.

export default class {{Name}} {
  static info = { name: '{{name}}', version: '0.1.0' };

  process(record, out) {
    // A value that is no UTF-8 makes a bad record: the job file's `on_bad_record` says what becomes of it.
    const capitals = record.valueText?.toUpperCase() ?? null;
    // Key, event time and headers stay.
    out.forward(record, capitals);
  }
}
