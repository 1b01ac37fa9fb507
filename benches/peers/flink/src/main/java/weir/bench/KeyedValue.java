package weir.bench;

import java.io.IOException;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The record, with a serializer by hand: key, length, bytes, and no allocation where an object can be used again. */
final class KeyedValue {
    static final int VALUE_BYTES = 100;
    static final TypeInformation<KeyedValue> TYPE = new Type();

    long key;
    byte[] value;

    KeyedValue() {
        this(new byte[VALUE_BYTES]);
    }

    KeyedValue(byte[] value) {
        this.value = value;
    }

    static final class Serializer extends TypeSerializerSingleton<KeyedValue> {
        private static final Serializer INSTANCE = new Serializer();

        @Override
        public boolean isImmutableType() {
            return false;
        }

        @Override
        public KeyedValue createInstance() {
            return new KeyedValue();
        }

        @Override
        public KeyedValue copy(KeyedValue from) {
            return copy(from, new KeyedValue());
        }

        @Override
        public KeyedValue copy(KeyedValue from, KeyedValue reuse) {
            reuse.key = from.key;
            reuse.value = from.value.clone();
            return reuse;
        }

        @Override
        public int getLength() {
            return -1;
        }

        @Override
        public void serialize(KeyedValue record, DataOutputView target) throws IOException {
            target.writeLong(record.key);
            target.writeInt(record.value.length);
            target.write(record.value, 0, record.value.length);
        }

        @Override
        public KeyedValue deserialize(DataInputView source) throws IOException {
            return deserialize(new KeyedValue(), source);
        }

        @Override
        public KeyedValue deserialize(KeyedValue reuse, DataInputView source) throws IOException {
            reuse.key = source.readLong();
            int length = source.readInt();
            if (reuse.value.length != length) {
                reuse.value = new byte[length];
            }
            source.readFully(reuse.value, 0, length);
            return reuse;
        }

        @Override
        public void copy(DataInputView source, DataOutputView target) throws IOException {
            target.writeLong(source.readLong());
            int length = source.readInt();
            target.writeInt(length);
            target.write(source, length);
        }

        @Override
        public TypeSerializerSnapshot<KeyedValue> snapshotConfiguration() {
            return new Snapshot();
        }

        /** Public, with a public constructor: Flink makes it by name. */
        public static final class Snapshot extends SimpleTypeSerializerSnapshot<KeyedValue> {
            public Snapshot() {
                super(() -> INSTANCE);
            }
        }
    }

    private static final class Type extends TypeInformation<KeyedValue> {
        @Override
        public boolean isBasicType() {
            return false;
        }

        @Override
        public boolean isTupleType() {
            return false;
        }

        @Override
        public int getArity() {
            return 1;
        }

        @Override
        public int getTotalFields() {
            return 1;
        }

        @Override
        public Class<KeyedValue> getTypeClass() {
            return KeyedValue.class;
        }

        @Override
        public boolean isKeyType() {
            return false;
        }

        @Override
        public TypeSerializer<KeyedValue> createSerializer(SerializerConfig config) {
            return Serializer.INSTANCE;
        }

        @Override
        public String toString() {
            return "KeyedValue";
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Type;
        }

        @Override
        public int hashCode() {
            return Type.class.hashCode();
        }

        @Override
        public boolean canEqual(Object other) {
            return other instanceof Type;
        }
    }
}
