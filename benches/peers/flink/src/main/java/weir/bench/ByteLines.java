package weir.bench;

import java.io.IOException;
import java.util.Arrays;
import org.apache.flink.api.common.serialization.BulkWriter;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FSDataOutputStream;

/** Lines as bytes, never decoded, read and written in blocks. */
final class ByteLines extends SimpleStreamFormat<byte[]> {
    static final TypeInformation<byte[]> TYPE = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    /** Of a block, and so of a line at most. */
    private static final int BLOCK_BYTES = 1 << 16;

    @Override
    public TypeInformation<byte[]> getProducedType() {
        return TYPE;
    }

    @Override
    public StreamFormat.Reader<byte[]> createReader(Configuration configuration, FSDataInputStream in) {
        return new Reader(in);
    }

    private static final class Reader implements StreamFormat.Reader<byte[]> {
        private final FSDataInputStream in;
        private final byte[] block = new byte[BLOCK_BYTES];
        /** What is not given yet lies between the two. */
        private int begin;
        private int end;

        Reader(FSDataInputStream in) {
            this.in = in;
        }

        @Override
        public byte[] read() throws IOException {
            int scanned = begin;
            while (true) {
                for (; scanned < end; scanned++) {
                    if (block[scanned] == '\n') {
                        return take(scanned, scanned + 1);
                    }
                }
                scanned -= begin;
                if (!fill()) {
                    return begin == end ? null : take(end, end);
                }
            }
        }

        private byte[] take(int to, int next) {
            byte[] line = Arrays.copyOfRange(block, begin, to);
            begin = next;
            return line;
        }

        /** Moves the rest to the front and reads behind it. False at the end of the file. */
        private boolean fill() throws IOException {
            System.arraycopy(block, begin, block, 0, end - begin);
            end -= begin;
            begin = 0;
            if (end == block.length) {
                throw new IOException("a line is longer than " + BLOCK_BYTES + " bytes");
            }
            int read = in.read(block, end, block.length - end);
            end += Math.max(read, 0);
            return read > 0;
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }

    static final class Writer implements BulkWriter<byte[]> {
        private final FSDataOutputStream out;
        private final byte[] block = new byte[BLOCK_BYTES];
        private int filled;

        Writer(FSDataOutputStream out) {
            this.out = out;
        }

        @Override
        public void addElement(byte[] line) throws IOException {
            if (filled + line.length + 1 > block.length) {
                flush();
            }
            System.arraycopy(line, 0, block, filled, line.length);
            filled += line.length;
            block[filled++] = '\n';
        }

        @Override
        public void flush() throws IOException {
            out.write(block, 0, filled);
            filled = 0;
        }

        @Override
        public void finish() throws IOException {
            flush();
        }
    }
}
