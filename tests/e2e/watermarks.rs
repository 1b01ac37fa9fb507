//! Watermarks of Kafka partitions on a real broker: held by the slowest, let go by idleness, and never going back, whatever is
//! killed when. What counts is what the checkpoints say.

use serde_json::Value;
use std::time::Duration;
use weir_tests::Seeded;
use weir_tests::kafka::{OrdersCase, broker};

/// Before any of the records here: a day long past.
const BEGAN: i64 = 1_500_000_000_000;

fn orders(partitions: &[(i32, i64)]) -> Vec<(i32, String, String, i64)> {
    let order = |&(partition, time): &(i32, i64)| {
        let account = format!("a{partition}");
        let value = format!(r#"{{"id":{time},"account":"{account}","amount":1}}"#);
        (partition, account, value, BEGAN + time)
    };
    partitions.iter().map(order).collect()
}

/// The watermarks in the newest checkpoint, as time since [`BEGAN`]: of the source's partitions by number, of its two readers,
/// and of the two subtasks of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    partitions: [Option<i64>; 4],
    readers: [Option<i64>; 2],
    subtasks: [Option<i64>; 2],
}

fn shown(case: &OrdersCase<'_>) -> Shown {
    let told = case.weir(&["checkpoint", "show", "job.toml", "--data", "data", "--json"]);
    // Before the first checkpoint there is nothing to show.
    let Ok(told) = serde_json::from_str::<Value>(&told.stdout) else { return Shown::default() };
    let since = |value: &Value| value.as_i64().map(|time| time - BEGAN);
    let watermarks = &told["sources"][0]["watermarks"];
    let subtasks = &told["operators"][0]["subtasks"];
    let partition = |number: usize| since(&watermarks["splits"][format!("{}/{number}", case.input())]);
    Shown {
        partitions: std::array::from_fn(partition),
        readers: std::array::from_fn(|reader| since(&watermarks["readers"][reader])),
        subtasks: std::array::from_fn(|subtask| since(&subtasks[subtask]["watermark"])),
    }
}

const WATERMARK: &str = "topic = \"${IN:-orders}\"\nwatermark = { delay = \"2s\" }";
const NEVER: &[(&str, &str)] = &[("UNTIL", "never")];

fn case(name: &str, idle: Option<&str>) -> OrdersCase<'static> {
    let watermark = idle.map_or(WATERMARK.to_owned(), |idle| WATERMARK.replace(" }", &format!(", idle = \"{idle}\" }}")));
    let often = ("interval = \"500ms\"", "interval = \"100ms\"");
    OrdersCase::new(broker(), name, &[often, ("topic = \"${IN:-orders}\"", &watermark)])
}

#[test]
fn a_partition_without_records_holds_event_time_for_good_without_idleness() {
    let case = case("wm-held", None);
    broker().write_at(&case.input(), orders(&[(0, 10_000), (1, 5_000), (2, 30_000)]));
    let mut running = case.start(&["--json"], NEVER);
    let read = [Some(7_999), Some(2_999), Some(27_999), None];
    running.wait_until("all is read", || shown(&case).partitions == read);
    // Reader 0 has partitions 0 and 2, reader 1 has 1 and the empty 3: it knows nothing, and who reads both knows nothing.
    let held = shown(&case);
    assert_eq!((held.readers, held.subtasks), ([Some(7_999), None], [None, None]));
    let show = case.weir(&["checkpoint", "show", "job.toml", "--data", "data"]).expect_code(0);
    show.expect_text(&[
        "in-wm-held/1 at 1, watermark 1500000002999 ms (2017-07-14 02:40:02.999 UTC)",
        "\n  watermark given out by each reader: 1500000007999 ms (2017-07-14 02:40:07.999 UTC), none yet\n",
    ]);
    running.signal(rustix::process::Signal::TERM);
    let ended = running.finish().expect_code(0).expect_text(&["watermark without 'idle'"]);
    let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let source = &told["progress"]["stages"][0]["event_time"][0];
    assert_eq!((&source["node"], &source["watermark_ms"]), (&Value::from("orders"), &Value::Null), "{told:#}");
    // The end of the input does not wait for it: all is read, the empty partition too.
    let ended = case.start(&["--fresh", "--allow-duplicates", "--json"], &[]).finish().expect_code(0);
    let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(told["progress"]["stages"][0]["event_time"][0]["ended"], Value::Bool(true), "{told:#}");
}

#[test]
fn a_partition_that_lags_holds_event_time_and_an_idle_one_does_not() {
    let case = case("wm-idle", Some("5s"));
    let input = case.input();
    // Active ones get a record now and then; partition 3 never gets any.
    let write = |lagging: i64| broker().write_at(&input, orders(&[(0, 10_000), (1, lagging), (2, 30_000)]));
    write(5_000);
    let mut running = case.start(&["--json"], NEVER);
    running.wait_until("the empty partition is left out", || {
        write(5_000);
        shown(&case).subtasks.iter().all(|watermark| watermark.is_some())
    });
    let held = shown(&case);
    assert_eq!((held.readers, held.subtasks), ([Some(7_999), Some(2_999)], [Some(2_999); 2]), "partition 1 holds all");
    running.wait_until("the lagging partition goes on", || {
        write(20_000);
        shown(&case).subtasks == [Some(7_999); 2]
    });
    running.wait_until("all are idle: nothing holds any more", || shown(&case).subtasks == [Some(27_999); 2]);
    running.signal(rustix::process::Signal::TERM);
    let told: Value = serde_json::from_str(&running.finish().expect_code(0).stdout).expect("JSON");
    let stages = told["progress"]["stages"].as_array().expect("a list");
    let times: Vec<&Value> = stages.iter().flat_map(|stage| stage["event_time"].as_array().expect("a list")).collect();
    let names: Vec<&str> = times.iter().filter_map(|time| time["node"].as_str()).collect();
    assert_eq!(names, ["orders", "balance", "balances"]);
    for time in times {
        assert_eq!((time["watermark_ms"].as_i64(), time["idle"].as_bool()), (Some(BEGAN + 27_999), Some(true)), "{time}");
        assert!(time["lag_ms"].as_i64().expect("a number") > 0, "{time}");
    }
}

#[test]
fn watermarks_never_go_back_over_kills_and_late_partitions() {
    let case = case("wm-kills", Some("300ms"));
    let mut random = Seeded(0x3A7E);
    let (mut highest, mut changes) = (Shown::default(), 0);
    for life in 0..6 {
        let mut running = case.start(&[], NEVER);
        let kill_at = 5 + random.below(15);
        for step in 0..kill_at {
            // Partitions come back late, some far behind.
            let time = (life * 20 + step) as i64 * 1_000 - random.below(30_000) as i64;
            broker().write_at(&case.input(), orders(&[(random.below(4) as i32, time)]));
            running.wait_for(Duration::from_millis(50 + random.below(200)));
            let now = shown(&case);
            let pairs = |a: &Shown, b: &Shown| {
                let all = |shown: &Shown| [&shown.partitions[..], &shown.readers, &shown.subtasks].concat();
                all(a).into_iter().zip(all(b)).collect::<Vec<_>>()
            };
            for (before, after) in pairs(&highest, &now) {
                assert!(after >= before, "life {life}: {highest:?} → {now:?}");
            }
            changes += usize::from(now.subtasks != highest.subtasks);
            highest = now;
        }
        assert!(running.kill_after(Duration::ZERO).was_killed());
    }
    assert!(changes >= 4, "event time hardly moved: nothing is proven; {highest:?}");
}
