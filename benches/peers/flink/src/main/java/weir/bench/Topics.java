package weir.bench;

import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Kafka's topics as source and sink, as bytes: keys are eight of them, little-endian. */
final class Topics {
    static DataStream<KeyedValue> read(StreamExecutionEnvironment to, Options options) {
        KafkaSource<KeyedValue> source = KafkaSource.<KeyedValue>builder()
                .setBootstrapServers(options.text("brokers"))
                .setTopics(options.text("in"))
                .setGroupId("flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setProperty("isolation.level", "read_committed")
                // Fewer and larger answers than by default.
                .setProperty("fetch.min.bytes", "65536")
                .setProperty("max.partition.fetch.bytes", "4194304")
                .setProperty("max.poll.records", "5000")
                .setDeserializer(new Reader())
                .build();
        return to.fromSource(source, WatermarkStrategy.noWatermarks(), "kafka", KeyedValue.TYPE).uid("kafka");
    }

    static KafkaSink<KeyedValue> sink(Options options) {
        Properties producer = new Properties();
        // As the other peers' producers are set; of the batch size, what was fastest.
        producer.setProperty("acks", "all");
        producer.setProperty("compression.type", "lz4");
        producer.setProperty("linger.ms", "20");
        producer.setProperty("batch.size", "262144");
        producer.setProperty("buffer.memory", "67108864");
        producer.setProperty("transaction.timeout.ms", "600000");
        var sink = KafkaSink.<KeyedValue>builder()
                .setBootstrapServers(options.text("brokers"))
                .setKafkaProducerConfig(producer)
                .setRecordSerializer(KafkaRecordSerializationSchema.<KeyedValue>builder()
                        .setTopic(options.text("out"))
                        .setKeySerializationSchema(new Key())
                        .setValueSerializationSchema(new Value())
                        .build());
        if (options.text("guarantee").equals("exactly-once")) {
            sink.setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                    .setTransactionalIdPrefix(options.text("out"))
                    .setTransactionNamingStrategy(TransactionNamingStrategy.POOLING);
        } else {
            sink.setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE);
        }
        return sink.build();
    }

    private static final class Reader implements KafkaRecordDeserializationSchema<KeyedValue> {
        private transient AtomicLong passed;

        @Override
        public void open(DeserializationSchema.InitializationContext context) {
            passed = Meter.counter();
        }

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> from, Collector<KeyedValue> out) {
            Meter.count(passed);
            // Records of a fetch are handed over together: each needs an object of its own.
            KeyedValue record = new KeyedValue(from.value());
            record.key = (long) Sequence.LONGS.get(from.key(), 0);
            out.collect(record);
        }

        @Override
        public TypeInformation<KeyedValue> getProducedType() {
            return KeyedValue.TYPE;
        }
    }

    // Classes, as Flink can't tell the type of a lambda.

    private static final class Key implements SerializationSchema<KeyedValue> {
        @Override
        public byte[] serialize(KeyedValue record) {
            byte[] key = new byte[Long.BYTES];
            Sequence.LONGS.set(key, 0, record.key);
            return key;
        }
    }

    private static final class Value implements SerializationSchema<KeyedValue> {
        @Override
        public byte[] serialize(KeyedValue record) {
            return record.value;
        }
    }
}
