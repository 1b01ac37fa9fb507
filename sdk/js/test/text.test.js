import assert from 'node:assert/strict';
import { test } from 'node:test';

// As the engine of plugins has it, where node does not; the module is then loaded a second time.
const portable = await import('../src/text.js');
Uint8Array.prototype.toBase64 = function () {
  return Buffer.from(this).toString('base64');
};
Uint8Array.fromBase64 = (text) => Uint8Array.from(Buffer.from(text, 'base64'));
const native = await import('../src/text.js?native');

const TEXTS = ['', 'a', 'plain', 'ü', 'grüße \u{1f600} \0', 'x'.repeat(10_000) + 'é', '\ud800 lone', '日本語のテキスト'];
const BYTES = [[], [255], [0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x98, 0x80, 0x80], [65, 0xc3, 0xa9, 0xff, 0xed, 0xa0, 0x80, 66], [0xc0, 0x80]];

for (const [name, { Pieces, bytesOfBinary, binaryOf, decodeText, encodeText, isAscii }] of Object.entries({ portable, native })) {
  test(`${name}: texts become UTF-8 and come back`, () => {
    for (const text of TEXTS) {
      assert.deepEqual(encodeText(text), new TextEncoder().encode(text));
      assert.equal(decodeText(encodeText(text)), text.toWellFormed());
      assert.equal(isAscii(encodeText(text)), /^[\0-\x7f]*$/.test(text));
    }
  });

  test(`${name}: what is no UTF-8 is marked, and the rest stays`, () => {
    for (const bytes of BYTES.map((list) => Uint8Array.from(list))) {
      const text = decodeText(bytes);
      const wanted = new TextDecoder().decode(bytes);
      assert.equal(text.replace(/\ufffd+/g, '\ufffd'), wanted.replace(/\ufffd+/g, '\ufffd'));
      assert.deepEqual(bytesOfBinary(binaryOf(bytes)), bytes);
    }
    assert.equal(bytesOfBinary('\u0100 is no byte'), undefined);
  });

  test(`${name}: a column takes texts and bytes`, () => {
    const pieces = new Pieces();
    const wanted = [];
    for (let i = 0; i < 300; i++) {
      const piece = i % 3 === 0 ? Uint8Array.of(i, 255 - (i % 256), i) : i % 3 === 1 ? TEXTS[i % 7] : `text ${i}`;
      pieces.push(piece);
      wanted.push(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece);
    }
    const { data, index } = pieces.finish();
    const ends = new Uint32Array(index.buffer, index.byteOffset, index.length / 4);
    assert.equal(ends.length, 301);
    wanted.forEach((bytes, i) => assert.deepEqual(data.subarray(ends[i], ends[i + 1]), bytes));
    assert.equal(ends[300], data.length);
  });

  test(`${name}: ASCII is told at every place and alignment`, () => {
    for (let length = 0; length < 80; length++) {
      for (const offset of [0, 1, 4]) {
        const bytes = new Uint8Array(new ArrayBuffer(100), offset, length);
        assert.equal(isAscii(bytes), true);
        for (let at = 0; at < length; at++) {
          bytes[at] = 128;
          assert.equal(isAscii(bytes), false, `${at} of ${length} at ${offset}`);
          bytes[at] = 0;
        }
      }
    }
  });
}
