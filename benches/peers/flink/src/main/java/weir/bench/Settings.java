package weir.bench;

import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.util.EnvironmentInformation;

/** Flink's settings: what was fastest on two cores of those that its users know. */
final class Settings {
    static Configuration of(Options options, Path scratch) {
        Configuration to = new Configuration();
        to.setString("parallelism.default", options.text("parallelism"));
        to.setString("rest.bind-port", "0");
        to.setString("io.tmp.dirs", scratch.toString());
        to.setString("web.tmpdir", scratch.toString());
        to.setString("web.upload.dir", scratch.toString());
        // A fault ends the run; it would be tried again for ever.
        to.setString("restart-strategy.type", "none");
        to.setString("pipeline.object-reuse", "true");
        // A type without a serializer of its own fails, instead of being slow.
        to.setString("pipeline.generic-types", "false");
        to.setString("pipeline.auto-watermark-interval", "0 ms");
        to.setString("pipeline.operator-chaining.enabled", String.valueOf(!options.workload.equals("map-hop")));
        to.setString("taskmanager.memory.managed.size", "2g");
        to.setString("taskmanager.memory.network.min", "256m");
        to.setString("taskmanager.memory.network.max", "256m");
        // Enough to keep all of a run.
        to.setString("web.checkpoints.history", "1000");

        String backend = options.text("backend");
        to.setString("state.backend.type", backend);
        if (backend.equals("rocksdb")) {
            to.setString("execution.checkpointing.incremental", "true");
            to.setString("state.backend.rocksdb.localdir", scratch.resolve("rocksdb").toString());
            to.setString("state.backend.rocksdb.use-bloom-filter", "true");
            // Smaller than the default: the memtable's skip list is what a count spends its time in.
            to.setString("state.backend.rocksdb.writebuffer.size", "16mb");
            to.setString("state.backend.rocksdb.compression.per.level", "NO_COMPRESSION");
        }
        if (options.number("interval_ms") > 0) {
            to.setString("execution.checkpointing.interval", options.text("interval_ms") + " ms");
            to.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
            to.setString("execution.checkpointing.storage", "filesystem");
            to.setString("execution.checkpointing.dir", scratch.resolve("checkpoints").toUri().toString());
        }
        options.flink.forEach(to::setString);
        return to;
    }

    /** The settings as the report tells them. */
    static Map<String, Object> told(Options options, Configuration configuration) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("flink", EnvironmentInformation.getVersion());
        told.put("java", System.getProperty("java.version"));
        told.put("jvm", ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(argument -> !argument.startsWith("--add-opens")).toList());
        switch (options.workload) {
            case "lines" -> told.put("tuned", options.text("tuned").equals("1"));
            case "kafka", "kafka-keyed" -> told.put("guarantee", options.text("guarantee"));
            default -> told.put("keys", options.number("keys"));
        }
        told.putAll(configuration.toMap());
        return told;
    }
}
