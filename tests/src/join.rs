//! The join example as a test case: hurried, with its output judged.

use crate::flights::{FLIGHTS, WEATHER, example_lines, unhurried_example};
use crate::process::Running;
use crate::scratch::Scratch;
use crate::{judge, repository};

/// The flights-weather job in a scratch folder, at 12,000 flights a second.
pub struct JoinCase {
    scratch: Scratch,
}

impl JoinCase {
    /// Writes the job file.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let job = unhurried_example(&scratch, "flights-weather");
        let text = std::fs::read_to_string(&job).expect("it was just written");
        let text = text.replacen("name = \"flights\"\n", "name = \"flights\"\nrate = 12000\n", 1);
        let text = text.replacen("interval = \"1s\"", "interval = \"200ms\"", 1);
        assert!(text.contains("rate = 12000") && text.contains("200ms"), "the example's job file has changed:\n{text}");
        std::fs::write(&job, text).expect("a scratch file can be written");
        JoinCase { scratch }
    }

    /// Takes another build of the join.
    ///
    /// # Panics
    /// If the job file does not name the usual one.
    pub fn use_plugin(&self, name: &str) {
        let job = self.scratch.path("job.toml");
        let text = std::fs::read_to_string(&job).expect("it was written");
        assert!(text.contains("/join_flights_weather.wasm"), "the example's job file has changed:\n{text}");
        let text = text.replace("/join_flights_weather.wasm", &format!("/{name}.wasm"));
        std::fs::write(&job, text).expect("a scratch file can be written");
    }

    /// Starts `weir run` on it.
    pub fn start(&self, more: &[(&str, &str)]) -> Running {
        let (flights, weather) = (repository().join(FLIGHTS), repository().join(WEATHER));
        let out = self.scratch.path("out");
        let text = |path: &std::path::Path| path.to_str().expect("scratch paths are UTF-8").to_owned();
        let (flights, weather, out) = (text(&flights), text(&weather), text(&out));
        let mut variables = vec![("OUT", out.as_str()), ("FLIGHTS", flights.as_str()), ("WEATHER", weather.as_str())];
        variables.extend_from_slice(more);
        Running::start(self.scratch.folder(), &["run", "job.toml", "--data", "data"], &variables)
    }

    /// Judges the committed output.
    pub fn judge(&self) -> Result<(), String> {
        let (matched, unmatched) = (self.scratch.path("out/matched"), self.scratch.path("out/unmatched"));
        judge::join(&example_lines(FLIGHTS), &example_lines(WEATHER), &matched, &unmatched)
    }
}

impl Default for JoinCase {
    fn default() -> Self {
        JoinCase::new()
    }
}
