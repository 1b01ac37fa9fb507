package weir.bench;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** The records of Weir's {@code sequence} connector, byte for byte; see host/src/connectors/sequence.rs. */
final class Sequence {
    static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long SEED = 7;
    private static final int DIGITS = 20;
    /** Of some records; a test of Weir's compares it with the connector's. */
    private static final long CHECKSUM = 0x71c00090d7ee6a8aL;

    /** Output i of SplitMix64 with this seed. */
    static long draw(long seed, long i) {
        long x = seed + (i + 1) * 0x9e37_79b9_7f4a_7c15L;
        x = (x ^ x >>> 30) * 0xbf58_476d_1ce4_e5b9L;
        x = (x ^ x >>> 27) * 0x94d0_49bb_1331_11ebL;
        return x ^ x >>> 31;
    }

    /** The key of record i: the high half of draw × keys, both taken as unsigned. */
    static long key(long keys, long i) {
        long draw = draw(SEED, i);
        // Java 17 has the signed product only: a negative draw is 2⁶⁴ too small.
        return Math.multiplyHigh(draw, keys) + (draw >> 63 & keys);
    }

    /** The upper twelve digits, which change with every hundred millionth record, and of what they are. */
    private long high = -1;
    private int first;
    private long second;

    /** Writes the value of record i over the whole of {@code out}: 20 digits, then letters. */
    void writeValue(byte[] out, long i) {
        long high = i / 100_000_000;
        if (high != this.high) {
            this.high = high;
            first = (int) (digits((int) (high / 100_000_000)) >>> 32);
            second = digits((int) (high % 100_000_000));
        }
        INTS.set(out, 0, first);
        LONGS.set(out, 4, second);
        LONGS.set(out, 12, digits((int) (i - high * 100_000_000)));
        int at = DIGITS;
        long chunk = 0;
        for (; at + 16 <= out.length; at += 16) {
            long halves = draw(i, chunk++);
            LONGS.set(out, at, letters(halves));
            LONGS.set(out, at + 8, letters(halves >>> 4));
        }
        long halves = draw(i, chunk);
        for (int rest = 0; at < out.length; at++, rest++) {
            out[at] = (byte) (letters(rest < 8 ? halves : halves >>> 4) >>> 8 * (rest % 8));
        }
    }

    /** The lower half of each byte as a letter. */
    private static long letters(long halves) {
        return (halves & 0x0f0f_0f0f_0f0f_0f0fL) + 0x6161_6161_6161_6161L;
    }

    /** Eight decimal digits, the first in the lowest byte: halves, pairs, digits, all of a step at once. */
    private static long digits(int number) {
        long halves = number / 10_000 | (long) (number % 10_000) << 32;
        long hundreds = halves * 10_486 >>> 20 & 0x0000_007f_0000_007fL;
        long pairs = hundreds | halves - hundreds * 100 << 16;
        long tens = pairs * 103 >>> 10 & 0x000f_000f_000f_000fL;
        return (tens | pairs - tens * 10 << 8) + 0x3030_3030_3030_3030L;
    }

    /** A text file of so many values of 99 bytes. */
    static void writeLines(Path file, long lines) throws IOException {
        byte[] value = new byte[KeyedValue.VALUE_BYTES - 1];
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file), 1 << 20)) {
            Sequence sequence = new Sequence();
            for (long i = 0; i < lines; i++) {
                sequence.writeValue(value, i);
                out.write(value);
                out.write('\n');
            }
        }
    }

    /** Fails where the connector has changed, and this class was changed in part. */
    static void verify() {
        byte[] key = new byte[Long.BYTES];
        byte[] line = new byte[KeyedValue.VALUE_BYTES - 1];
        byte[] value = new byte[KeyedValue.VALUE_BYTES];
        Sequence sequence = new Sequence();
        long sum = 0;
        for (long i = 0; i < 1000; i++) {
            long number = i * 0x0123_4567_89abL;
            LONGS.set(key, 0, key(2_000_000, number));
            sequence.writeValue(line, number);
            sequence.writeValue(value, number);
            sum = add(add(add(sum, key), line), value);
        }
        if (sum != CHECKSUM) {
            throw new IllegalStateException("Sequence.java makes records with checksum 0x" + Long.toHexString(sum));
        }
    }

    private static long add(long sum, byte[] bytes) {
        for (byte b : bytes) {
            sum = sum * 31 + (b & 0xff);
        }
        return sum;
    }
}
