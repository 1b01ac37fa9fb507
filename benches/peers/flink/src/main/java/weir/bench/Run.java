package weir.bench;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** One job on a cluster in this JVM, looked at through a window that opens some seconds after the first record. */
final class Run {
    /** {@code checkpoints} is null without checkpoints. */
    record Result(long records, long wallNanos, long cpuNanos, Map<String, Object> checkpoints) {}

    static Result of(StreamExecutionEnvironment environment, Configuration configuration, Options options) throws Exception {
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        MiniClusterConfiguration one = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager((int) options.number("parallelism"))
                .build();
        try (MiniCluster cluster = new MiniCluster(one)) {
            cluster.start();
            cluster.submitJob(graph).get();
            CompletableFuture<JobResult> end = cluster.requestJobResult(graph.getJobID());
            while (Meter.total() == 0 && !end.isDone()) {
                Thread.sleep(1);
            }
            if (endsWithin(end, options.number("warm"))) {
                throw new IllegalStateException("the job ended before warm=" + options.text("warm") + " seconds had passed");
            }
            long since = System.currentTimeMillis();
            Meter.Sample first = Meter.Sample.now();
            // A bounded job that ends has made its last commit: its wall clock includes that.
            boolean ended = endsWithin(end, options.number("secs"));
            Meter.Sample last = Meter.Sample.now();
            var statistics = cluster.getArchivedExecutionGraph(graph.getJobID()).get().getCheckpointStatsSnapshot();
            if (!ended) {
                cluster.cancelJob(graph.getJobID()).get();
                end.get();
            }
            return new Result(last.records() - first.records(), last.wallNanos() - first.wallNanos(),
                    last.cpuNanos() - first.cpuNanos(), Checkpoints.since(since, statistics));
        }
    }

    /** Waits so long. True if the job has ended well; a failed job throws. */
    private static boolean endsWithin(CompletableFuture<JobResult> end, long seconds) throws Exception {
        try {
            JobResult result = end.get(seconds, TimeUnit.SECONDS);
            result.toJobExecutionResult(Run.class.getClassLoader());
            return true;
        } catch (TimeoutException running) {
            return false;
        }
    }
}
