package weir.bench;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * The sequence without end, one split for each reader. Many records a poll: DataGeneratorSource gives one, and so pays a turn
 * of the task's mailbox loop for each.
 */
final class SequenceSource implements Source<KeyedValue, SequenceSource.Split, Integer> {
    private static final int RECORDS_PER_POLL = 64;
    /** Numbers of a split: more than any run makes. */
    private static final long SPLIT = 1L << 48;

    private final long keys;

    SequenceSource(long keys) {
        this.keys = keys;
    }

    /** The numbers from {@code next} on. */
    record Split(long next) implements SourceSplit {
        @Override
        public String splitId() {
            return Long.toString(next / SPLIT);
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SplitEnumerator<Split, Integer> createEnumerator(SplitEnumeratorContext<Split> context) {
        return new Enumerator(context, 0);
    }

    @Override
    public SplitEnumerator<Split, Integer> restoreEnumerator(SplitEnumeratorContext<Split> context, Integer given) {
        return new Enumerator(context, given);
    }

    @Override
    public SourceReader<KeyedValue, Split> createReader(SourceReaderContext context) {
        return new Reader();
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new OfLong<>(Split::next, Split::new);
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new OfLong<>(Integer::longValue, Long::intValue);
    }

    private record OfLong<T>(Function<T, Long> to, Function<Long, T> from) implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T value) {
            return ByteBuffer.allocate(Long.BYTES).putLong(to.apply(value)).array();
        }

        @Override
        public T deserialize(int version, byte[] bytes) {
            return from.apply(ByteBuffer.wrap(bytes).getLong());
        }
    }

    /** Gives each reader that appears the next split. */
    private static final class Enumerator implements SplitEnumerator<Split, Integer> {
        private final SplitEnumeratorContext<Split> context;
        private int given;

        Enumerator(SplitEnumeratorContext<Split> context, int given) {
            this.context = context;
            this.given = given;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Split> splits, int subtask) {
            splits.forEach(split -> context.assignSplit(split, subtask));
        }

        @Override
        public void addReader(int subtask) {
            // A restored reader brings its split along.
            if (given < context.currentParallelism()) {
                context.assignSplit(new Split(given * SPLIT), subtask);
                given++;
            }
        }

        @Override
        public Integer snapshotState(long checkpoint) {
            return given;
        }

        @Override
        public void close() {}
    }

    private final class Reader implements SourceReader<KeyedValue, Split> {
        private final CompletableFuture<Void> available = new CompletableFuture<>();
        /** One for all: object reuse is on. */
        private final KeyedValue record = new KeyedValue();
        private final Sequence sequence = new Sequence();
        /** -1 until there is a split. */
        private long next = -1;

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<KeyedValue> output) {
            if (next < 0) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            for (long end = next + RECORDS_PER_POLL; next < end; next++) {
                record.key = Sequence.key(keys, next);
                sequence.writeValue(record.value, next);
                output.collect(record);
            }
            return InputStatus.MORE_AVAILABLE;
        }

        @Override
        public List<Split> snapshotState(long checkpoint) {
            return next < 0 ? List.of() : List.of(new Split(next));
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public void addSplits(List<Split> splits) {
            next = splits.get(0).next();
            available.complete(null);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }
}
