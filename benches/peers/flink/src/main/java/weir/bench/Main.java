package weir.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Runs one workload and prints its figures as one line of JSON. */
public final class Main {
    public static void main(String[] arguments) {
        try {
            Options options = Options.parse(List.of(arguments));
            System.out.println(new ObjectMapper().writeValueAsString(run(options)));
            // Flink leaves threads that are not daemons.
            System.exit(0);
        } catch (IllegalArgumentException error) {
            fail(64, error.getMessage());
        } catch (Exception error) {
            error.printStackTrace();
            Throwable root = error;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            fail(1, "Flink failed: " + root);
        }
    }

    /** The last line says what is wrong: whoever runs this shows that one. */
    private static void fail(int status, String why) {
        System.err.println("weir: " + why);
        System.exit(status);
    }

    private static Map<String, Object> run(Options options) throws Exception {
        Sequence.verify();
        Path scratch = Files.createTempDirectory(Path.of(options.text("dir")), "weir-flink-");
        // A hook, so that an interrupted run leaves nothing behind either.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(scratch)));

        Configuration configuration = Settings.of(options, scratch);
        StreamExecutionEnvironment environment = new StreamExecutionEnvironment(configuration);
        Workloads.build(environment, options, scratch);
        Run.Result result = Run.of(environment, configuration, options);

        Map<String, Object> line = new LinkedHashMap<>();
        line.put("workload", options.workload);
        line.put("records", result.records());
        line.put("wall_s", result.wallNanos() / 1e9);
        line.put("cpu_s", result.cpuNanos() / 1e9);
        if (result.checkpoints() != null) {
            line.put("checkpoints", result.checkpoints());
        }
        line.put("settings", Settings.told(options, configuration));
        return line;
    }

    private static void delete(Path folder) {
        try (var paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException | UncheckedIOException error) {
            System.err.println("weir: " + folder + " is left behind: " + error.getMessage());
        }
    }
}
