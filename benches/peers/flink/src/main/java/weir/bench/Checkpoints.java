package weir.bench;

import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;
import org.apache.flink.runtime.checkpoint.SubtaskStateStats;

/** What the completed checkpoints of the window cost: the middle one and the worst. */
final class Checkpoints {
    /** Null if none was completed. */
    static Map<String, Object> since(long millis, CheckpointStatsSnapshot statistics) {
        List<CompletedCheckpointStats> all = statistics == null ? List.of() : statistics.getHistory().getCheckpoints().stream()
                .filter(checkpoint -> checkpoint.getTriggerTimestamp() >= millis)
                .filter(CompletedCheckpointStats.class::isInstance)
                .map(CompletedCheckpointStats.class::cast)
                .toList();
        if (all.isEmpty()) {
            return null;
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("count", all.size());
        put(told, "end_to_end_ms", all.stream().mapToLong(CompletedCheckpointStats::getEndToEndDuration));
        put(told, "sync_ms", all.stream().mapToLong(Checkpoints::syncMillis));
        put(told, "bytes", all.stream().mapToLong(CompletedCheckpointStats::getCheckpointedSize));
        return told;
    }

    /** The longest that a subtask stood still. */
    private static long syncMillis(CompletedCheckpointStats checkpoint) {
        return checkpoint.getAllTaskStateStats().stream()
                .flatMap(task -> List.of(task.getSubtaskStats()).stream())
                .map(SubtaskStateStats::getSyncCheckpointDuration)
                .max(Comparator.naturalOrder())
                .orElse(0L);
    }

    private static void put(Map<String, Object> to, String name, LongStream values) {
        long[] sorted = values.sorted().toArray();
        to.put(name + "_p50", sorted[sorted.length / 2]);
        to.put(name + "_max", sorted[sorted.length - 1]);
    }
}
