// Texts and bytes, as fast as the engine lets us.
//
// QuickJS has no TextDecoder, and a loop over bytes costs it 50 ns each. Its native base64 costs 5: so bytes become a *binary
// string* (one char of 0 to 255 for each byte) by way of base64, whole batches at once, and texts are slices of that. A binary
// string without a char above 127 is its own text.

const native = typeof Uint8Array.prototype.toBase64 === 'function' && typeof Uint8Array.fromBase64 === 'function';

/** Bytes at which base64 is faster than a loop. */
const WORTH_IT = 8;

/** Arguments that a call may safely have. */
const ARGUMENTS = 4096;

/** The binary string of bytes. */
export function binaryOf(bytes) {
  if (native && bytes.length >= WORTH_IT) return atob(bytes.toBase64());
  if (bytes.length <= ARGUMENTS) return String.fromCharCode.apply(null, bytes);
  let binary = '';
  for (let from = 0; from < bytes.length; from += ARGUMENTS) {
    binary += String.fromCharCode.apply(null, bytes.subarray(from, from + ARGUMENTS));
  }
  return binary;
}

/** The bytes of a binary string; undefined if it has a char above 255. */
export function bytesOfBinary(binary) {
  if (native && binary.length >= WORTH_IT) {
    let base64;
    try {
      base64 = btoa(binary);
    } catch {
      return undefined;
    }
    return Uint8Array.fromBase64(base64);
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) {
    const char = binary.charCodeAt(i);
    if (char > 255) return undefined;
    bytes[i] = char;
  }
  return bytes;
}

/** Whether no byte is above 127. */
export function isAscii(bytes) {
  let i = 0;
  let seen = 0;
  if (bytes.byteOffset % 4 === 0) {
    const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    const end = words.length & ~7;
    let at = 0;
    while (at < end) {
      seen |= words[at++] | words[at++] | words[at++] | words[at++] | words[at++] | words[at++] | words[at++] | words[at++];
    }
    if ((seen & 0x80808080) !== 0) return false;
    i = 4 * end;
    seen = 0;
  }
  for (; i < bytes.length; i++) seen |= bytes[i];
  return seen < 128;
}

/** The text of a binary string that is UTF-8; undefined if it is none. */
export function textOfBinary(binary) {
  try {
    return binary.replace(/[\x80-\xff]+/g, decodeRun);
  } catch {
    return undefined;
  }
}

function decodeRun(run) {
  return decodeURIComponent(escape(run));
}

/** The same for any binary string: what is no UTF-8 becomes U+FFFD. */
export function lossyTextOfBinary(binary) {
  return textOfBinary(binary) ?? binary.replace(/[\x80-\xff]+/g, decodeLossy);
}

/** Tries each sequence, and gives U+FFFD for each byte that begins none. */
function decodeLossy(run) {
  let text = '';
  for (let i = 0; i < run.length; ) {
    const first = run.charCodeAt(i);
    const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    try {
      text += decodeRun(run.slice(i, i + length));
      i += length;
    } catch {
      text += '\ufffd';
      i += 1;
    }
  }
  return text;
}

/** The binary string of a text's UTF-8. */
export function binaryOfText(text) {
  return text.replace(/[^\0-\x7f]+/g, encodeRun);
}

function encodeRun(run) {
  return unescape(encodeURIComponent(run.toWellFormed()));
}

/** Text of UTF-8 bytes; what is no UTF-8 becomes U+FFFD. */
export function decodeText(bytes) {
  return lossyTextOfBinary(binaryOf(bytes));
}

/** UTF-8 bytes of a text. */
export function encodeText(text) {
  return bytesOfBinary(binaryOfText(text));
}

/**
 * A column under construction: byte strings one after the other, given as bytes or as texts, made into bytes all at once.
 */
export class Pieces {
  constructor() {
    this.clear();
    this.offsets = new Uint32Array(64);
  }

  clear() {
    /** Texts and binary strings, which are the same as long as all is ASCII. */
    this.strings = [];
    /** Places in `strings` of what is binary, not text. */
    this.binary = [];
    this.length = 0;
  }

  /** Number of strings so far. */
  get count() {
    return this.strings.length;
  }

  /** Appends a text, or bytes; null counts as empty. */
  push(piece) {
    if (typeof piece === 'string') this.pushString(piece);
    else if (piece === null) this.pushString('');
    else if (piece instanceof Uint8Array) this.pushBinary(binaryOf(piece));
    else throw new TypeError(`a string, a Uint8Array or null is wanted here, not ${typeof piece}`);
  }

  pushBinary(binary) {
    this.binary.push(this.strings.length);
    this.pushString(binary);
  }

  /** A text, or a binary string that is ASCII. */
  pushString(text) {
    const at = this.strings.push(text);
    if (at === this.offsets.length) this.offsets = doubled(this.offsets);
    this.offsets[at] = this.length += text.length;
  }

  /** The bytes, and the offsets: u32 × (count + 1). */
  finish() {
    let data = bytesOfBinary(this.strings.join(''));
    if (data === undefined || (this.binary.length < this.strings.length && !isAscii(data))) data = this.encode();
    return { data, index: bytesOf(this.offsets.slice(0, this.strings.length + 1)) };
  }

  /** Where some text is not ASCII: each is encoded for itself. */
  encode() {
    const { strings, binary, offsets } = this;
    let next = 0;
    let length = 0;
    for (let i = 0; i < strings.length; i++) {
      if (binary[next] === i) next += 1;
      else strings[i] = binaryOfText(strings[i]);
      offsets[i + 1] = length += strings[i].length;
    }
    this.length = length;
    return bytesOfBinary(strings.join(''));
  }
}

/** The same numbers with as much room again. */
export function doubled(array) {
  const more = new Uint32Array(2 * array.length);
  more.set(array);
  return more;
}

/** The memory of a typed array, as bytes. */
export function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
