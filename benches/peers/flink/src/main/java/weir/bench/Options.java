package weir.bench;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The command line: a workload, then key=value. A key with a dot in it is a setting of Flink's own. */
final class Options {
    private static final Set<String> WORKLOADS = Set.of("map", "map-hop", "keyed", "lines", "kafka", "kafka-keyed");
    private static final Map<String, String> DEFAULTS = Map.ofEntries(
            Map.entry("warm", "10"), // seconds left out after the first record
            Map.entry("secs", "20"), // seconds measured; less, if the job ends before
            Map.entry("parallelism", "1"),
            Map.entry("dir", System.getProperty("java.io.tmpdir")), // for state, checkpoints and files
            Map.entry("keys", "2000000"),
            Map.entry("backend", "hashmap"), // or rocksdb
            Map.entry("interval_ms", ""), // between checkpoints; 0: none
            Map.entry("file", ""), // input of `lines`; without it one is made
            Map.entry("lines", "20000000"), // of the input that is made, 100 bytes each
            Map.entry("tuned", "0"), // 1: lines as bytes, through a writer that buffers
            Map.entry("brokers", "localhost:9092"),
            Map.entry("in", "in"), // topic, read to its end
            Map.entry("out", "out"), // topic
            Map.entry("guarantee", "exactly-once")); // or at-least-once

    final String workload;
    final Map<String, String> flink = new LinkedHashMap<>();
    private final Map<String, String> own = new LinkedHashMap<>(DEFAULTS);

    private Options(String workload) {
        this.workload = workload;
    }

    static Options parse(List<String> arguments) {
        if (arguments.isEmpty() || !WORKLOADS.contains(arguments.get(0))) {
            throw new IllegalArgumentException("name a workload: map, map-hop, keyed, lines, kafka or kafka-keyed");
        }
        Options options = new Options(arguments.get(0));
        // A file sink commits at checkpoints only; the generated workloads need none.
        options.own.put("interval_ms", switch (options.workload) {
            case "keyed" -> "10000";
            case "lines", "kafka", "kafka-keyed" -> "1000";
            default -> "0";
        });
        for (String argument : arguments.subList(1, arguments.size())) {
            int at = argument.indexOf('=');
            String key = argument.substring(0, Math.max(at, 0));
            if (!key.contains(".") && !DEFAULTS.containsKey(key)) {
                throw new IllegalArgumentException("'" + argument + "' is no option; there are "
                        + String.join(", ", DEFAULTS.keySet().stream().sorted().toList()) + ", each as key=value");
            }
            (key.contains(".") ? options.flink : options.own).put(key, argument.substring(at + 1));
        }
        if (!Set.of("hashmap", "rocksdb").contains(options.text("backend"))) {
            throw new IllegalArgumentException("backend=" + options.text("backend") + " is neither hashmap nor rocksdb");
        }
        if (!Set.of("exactly-once", "at-least-once").contains(options.text("guarantee"))) {
            throw new IllegalArgumentException(
                    "guarantee=" + options.text("guarantee") + " is neither exactly-once nor at-least-once");
        }
        return options;
    }

    String text(String key) {
        return own.get(key);
    }

    long number(String key) {
        try {
            return Long.parseLong(text(key));
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(key + "=" + text(key) + " is not a whole number");
        }
    }
}
