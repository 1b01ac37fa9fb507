// Does what a record's value says, and tells what it sees: for tests of the SDK and of the engine inside the host.

import { BadRecord, Retry, json } from '../../../../sdk/js/src/index.js';

export default class Probe {
  static info = {
    name: 'probe-js',
    version: '0.1.0',
    states: [{ name: 'seen', codec: json }],
    sideOutputs: ['aside'],
  };

  open(task, config) {
    this.greeting = config.greeting ?? 'none';
    console.warn('opened', { job: task.job, subtask: task.subtask });
  }

  process(record, out, timers) {
    const seen = record.state().get() ?? record.state().set({ words: [], retried: false });
    const word = record.valueText;
    seen.words.push(word);
    switch (word) {
      case 'greet':
        out.emit(record.key, this.greeting, record.time);
        break;
      case 'aside':
        out.side('aside').emit(record.key, 'stood äside', record.time, [{ name: 'why', value: 'told' }]);
        break;
      case 'timer':
        timers.setEventTime(20, 'later');
        timers.setEventTime(10, 'sooner');
        timers.setEventTime(15, 'never');
        timers.deleteEventTime(15, 'never');
        out.emit(record.key, `watermark ${timers.watermark}`, record.time);
        break;
      case 'world':
        out.emit(record.key, `${Date.now()} ${typeof fetch} ${typeof setTimeout} ${Math.random() === Math.random()}`, record.time);
        break;
      case 'bad':
        throw new BadRecord('tölt to');
      case 'retry':
        throw new Retry('told to');
      case 'throw':
        record.nothing.at(0);
        break;
      case 'deep':
        return this.process(record, out, timers);
      default:
        out.forward(record, word.toUpperCase());
    }
    return undefined;
  }

  onTimer(timer, out, timers) {
    const late = timers.watermark === Infinity ? ' at last' : '';
    out.emit(timer.key, `${timer.kind} ${timer.time} ${timer.payloadText}${late}, seen ${timer.state().get().words.length}`, timer.time);
  }

  onEnd(port, out) {
    out.emit(null, `end of ${port}`, 0);
  }

  onEndKey(ended, out) {
    out.emit(ended.key, `at the end: ${ended.state().get().words.join(' ')}`, 0);
    ended.state().delete();
  }
}
