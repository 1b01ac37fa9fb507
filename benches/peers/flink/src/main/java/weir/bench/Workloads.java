package weir.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.BulkWriter;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** The jobs. The first operator after each source counts what passes it. */
final class Workloads {
    static void build(StreamExecutionEnvironment to, Options options, Path scratch) throws IOException {
        switch (options.workload) {
            // map-hop differs in the settings only.
            case "map", "map-hop" -> map(sequence(to, options));
            case "keyed" -> keyed(sequence(to, options));
            case "lines" -> {
                String given = options.text("file");
                Path made = scratch.resolve("lines");
                if (given.isEmpty()) {
                    Sequence.writeLines(made, options.number("lines"));
                }
                Path in = given.isEmpty() ? made : Path.of(given).toAbsolutePath();
                Path out = scratch.resolve("out");
                if (options.text("tuned").equals("1")) {
                    linesTuned(to, in, out);
                } else {
                    linesStock(to, in, out);
                }
            }
            case "kafka" -> Topics.read(to, options).sinkTo(Topics.sink(options)).uid("sink");
            case "kafka-keyed" -> Topics.read(to, options)
                    .keyBy(record -> record.key, Types.LONG)
                    .map(new CountInto()).returns(KeyedValue.TYPE).uid("count")
                    .sinkTo(Topics.sink(options)).uid("sink");
            default -> throw new IllegalStateException(options.workload);
        }
    }

    private static DataStream<KeyedValue> sequence(StreamExecutionEnvironment to, Options options) {
        SequenceSource source = new SequenceSource(options.number("keys"));
        return to.fromSource(source, WatermarkStrategy.noWatermarks(), "sequence", KeyedValue.TYPE).uid("sequence");
    }

    private static void map(DataStream<KeyedValue> in) {
        in.map(new Mix()).returns(KeyedValue.TYPE)
                .filter(record -> ((record.value[0] ^ record.value[KeyedValue.VALUE_BYTES - 1]) & 1) == 0)
                .sinkTo(new DiscardingSink<>());
    }

    /** Mixes a constant into the first eight bytes, as guests/bench/map-filter does; in place, which object reuse allows. */
    private static final class Mix extends RichMapFunction<KeyedValue, KeyedValue> {
        private transient AtomicLong passed;

        @Override
        public void open(OpenContext context) {
            passed = Meter.counter();
        }

        @Override
        public KeyedValue map(KeyedValue record) {
            Meter.count(passed);
            long first = (long) Sequence.LONGS.get(record.value, 0);
            Sequence.LONGS.set(record.value, 0, first ^ 0x0505_0a0a_0505_0a0aL);
            return record;
        }
    }

    private static void keyed(DataStream<KeyedValue> in) {
        in.keyBy(record -> record.key, Types.LONG)
                .map(new Count()).returns(TypeInformation.of(Counted.class)).uid("count")
                .sinkTo(new DiscardingSink<>());
    }

    /** What the count emits: without boxes, unlike a tuple. */
    public static final class Counted {
        public long key;
        public long count;
    }

    private static final class Count extends RichMapFunction<KeyedValue, Counted> {
        private transient AtomicLong passed;
        private transient ValueState<Long> count;
        private transient Counted out;

        @Override
        public void open(OpenContext context) {
            passed = Meter.counter();
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", LongSerializer.INSTANCE));
            out = new Counted();
        }

        @Override
        public Counted map(KeyedValue record) throws IOException {
            Meter.count(passed);
            Long before = count.value();
            out.key = record.key;
            out.count = before == null ? 1 : before + 1;
            count.update(out.count);
            return out;
        }
    }

    /** The count as the record's value; the source has counted the records. */
    private static final class CountInto extends RichMapFunction<KeyedValue, KeyedValue> {
        private transient ValueState<Long> count;
        private transient KeyedValue out;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", LongSerializer.INSTANCE));
            out = new KeyedValue();
        }

        @Override
        public KeyedValue map(KeyedValue record) throws IOException {
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            out.key = record.key;
            // The producer keeps it: it can't be used again.
            out.value = new byte[Long.BYTES];
            Sequence.LONGS.set(out.value, 0, now);
            return out;
        }
    }

    /** As the documentation shows it. */
    private static void linesStock(StreamExecutionEnvironment to, Path in, Path out) {
        var source = FileSource.forRecordStreamFormat(new TextLineInputFormat("UTF-8"), flinkPath(in)).build();
        to.fromSource(source, WatermarkStrategy.noWatermarks(), "file").uid("file")
                .map(new UpperLine()).returns(Types.STRING)
                .sinkTo(FileSink.forRowFormat(flinkPath(out), new SimpleStringEncoder<String>("UTF-8"))
                        .withRollingPolicy(OnCheckpointRollingPolicy.build())
                        .withBucketAssigner(new BasePathBucketAssigner<>())
                        .build())
                .uid("sink");
    }

    private static final class UpperLine extends RichMapFunction<String, String> {
        private transient AtomicLong passed;

        @Override
        public void open(OpenContext context) {
            passed = Meter.counter();
        }

        @Override
        public String map(String line) {
            Meter.count(passed);
            return line.toUpperCase(Locale.ROOT);
        }
    }

    /** Lines as bytes, and a bulk writer: the row format makes two unbuffered writes a record. */
    private static void linesTuned(StreamExecutionEnvironment to, Path in, Path out) {
        StreamFormat<byte[]> format = new ByteLines();
        var source = FileSource.forRecordStreamFormat(format, flinkPath(in)).build();
        to.fromSource(source, WatermarkStrategy.noWatermarks(), "file").uid("file")
                .map(new UpperBytes()).returns(ByteLines.TYPE)
                .sinkTo(FileSink.forBulkFormat(flinkPath(out), (BulkWriter.Factory<byte[]>) ByteLines.Writer::new)
                        .withBucketAssigner(new BasePathBucketAssigner<>())
                        .build())
                .uid("sink");
    }

    private static final class UpperBytes extends RichMapFunction<byte[], byte[]> {
        private transient AtomicLong passed;

        @Override
        public void open(OpenContext context) {
            passed = Meter.counter();
        }

        @Override
        public byte[] map(byte[] line) {
            Meter.count(passed);
            Ascii.toUpperCase(line);
            return line;
        }
    }

    private static org.apache.flink.core.fs.Path flinkPath(Path path) {
        return new org.apache.flink.core.fs.Path(path.toUri());
    }
}
