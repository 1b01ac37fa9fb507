package weir.bench;

/** Upper case, eight bytes at a time: the compiler makes no vectors of a loop that decides on each byte. */
final class Ascii {
    private static final long LOW = 0x7f7f_7f7f_7f7f_7f7fL;
    private static final long HIGH = ~LOW;
    private static final long ONES = 0x0101_0101_0101_0101L;

    static void toUpperCase(byte[] text) {
        int at = 0;
        for (; at + 8 <= text.length; at += 8) {
            long eight = (long) Sequence.LONGS.get(text, at);
            long low = eight & LOW;
            // The high bit of each byte says: at least 'a', above 'z', a lower-case letter.
            long atLeastA = low + ONES * (0x80 - 'a');
            long aboveZ = low + ONES * (0x7f - 'z');
            long letters = atLeastA & ~aboveZ & ~eight & HIGH;
            Sequence.LONGS.set(text, at, eight ^ letters >>> 2);
        }
        for (; at < text.length; at++) {
            if (text[at] >= 'a' && text[at] <= 'z') {
                text[at] -= 'a' - 'A';
            }
        }
    }
}
