package weir.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;

/** Counters beside the job: the cluster lives in this JVM, so whoever measures can read them directly. */
final class Meter {
    private static final List<AtomicLong> COUNTERS = new CopyOnWriteArrayList<>();

    /** A counter with one writer. */
    static AtomicLong counter() {
        AtomicLong counter = new AtomicLong();
        COUNTERS.add(counter);
        return counter;
    }

    /** No atomic addition: there is one writer, and readers may lag. */
    static void count(AtomicLong counter) {
        counter.lazySet(counter.getPlain() + 1);
    }

    static long total() {
        return COUNTERS.stream().mapToLong(AtomicLong::get).sum();
    }

    /** What the clocks say. CPU is user and system time of the whole JVM: compilers, collector and RocksDB's threads too. */
    record Sample(long records, long wallNanos, long cpuNanos) {
        static Sample now() {
            OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            return new Sample(total(), System.nanoTime(), system.getProcessCpuTime());
        }
    }
}
