//! What a plugin that means harm costs the other jobs of its process: CPU of a keyed count's own thread, beside each kind of
//! harm and beside an equal native load.

use crate::quick;
use criterion::Criterion;
use std::time::Duration;
use weir_benches::table::Table;
use weir_benches::{Cost, Flavor, LiveJob, cpu_of_threads, guest};

const NAME: &str = "keyed count beside another job";

/// (what stands in the table, what the other job's plugin does to every record). The control comes first.
const HARMS: [(&str, &str); 8] = [
    ("a native map", ""),
    ("loops", "loop"),
    ("memory", "memory"),
    ("recursion", "recurse"),
    ("traps", "trap"),
    ("emits", "flood"),
    ("logs", "log-flood"),
    ("bad records", "bad-record"),
];

/// The task's name, and so its thread's: what the kernel keeps of it.
const VICTIM: &str = "victim";

fn victim() -> String {
    format!(
        r#"
[job]
name = "neighbour"
[checkpoint]
interval = "1s"
[state]
cache = "256MiB"
[[source]]
name = "{VICTIM}"
connector = "sequence"
count = 1000000000000
keys = 100000
value_bytes = 100
rate = 400000
[[operator]]
name = "work"
plugin = "{}"
from = "{VICTIM}"
partition = "key"
[[sink]]
name = "nowhere"
connector = "discard"
from = "work"
"#,
        guest("keyed_count.wasm").display()
    )
}

/// The job file of the other job, and who runs its operator. Nearly every record has a `1` in its number.
fn other(action: &str) -> (String, Flavor) {
    let (plugin, config, flavor) = match action {
        "" => ("rewrite_field.wasm", String::new(), Flavor::Native),
        action => (
            "misbehave.wasm",
            format!("config = {{ on = \"1\", do = \"{action}\" }}\nlimits = {{ call = \"50ms\" }}"),
            Flavor::Wasm,
        ),
    };
    let plugin = guest(plugin);
    let text = format!(
        r#"
[job]
name = "harm"
[[source]]
name = "numbers"
connector = "sequence"
count = 1000000000000
keys = 1000
value_bytes = 100
[[operator]]
name = "work"
plugin = "{}"
from = "numbers"
on_bad_record = "drop"
{config}
[[sink]]
name = "nowhere"
connector = "discard"
from = "work"
"#,
        plugin.display()
    );
    (text, flavor)
}

/// One line for each kind of harm.
pub fn neighbours(_: &mut Criterion, table: &mut Table) {
    if !crate::wanted(NAME) {
        return;
    }
    let window = Duration::from_secs(if quick() { 2 } else { 10 });
    for (who, action) in HARMS {
        let (text, flavor) = other(action);
        let harm = LiveJob::start_text(&text, flavor);
        let mut job = LiveJob::start_text(&victim(), Flavor::Wasm);
        job.advance(400_000);
        let (begun, cpu) = (job.passed(), cpu_of_threads(VICTIM));
        let wall = job.run_for(window);
        let records = job.passed() - begun;
        let cost = Cost { records, wall, cpu: cpu_of_threads(VICTIM).saturating_sub(cpu) };
        table.push(NAME, who, Ok(cost));
        drop(job);
        drop(harm);
    }
}
