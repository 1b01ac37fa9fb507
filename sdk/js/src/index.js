// Weir operators and sinks in JavaScript. See index.d.ts for what each of these is.

export { signedKey, unsignedKey } from './collections.js';
export { BadRecord, Retry } from './errors.js';
export { log } from './host.js';
export { abortOutcome, outcome } from './sink.js';
export { bytes, json, struct, text } from './state.js';
export { decodeText, encodeText } from './text.js';
