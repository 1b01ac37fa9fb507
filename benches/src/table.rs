//! The one table of all benches: workload, who, records a second, CPU seconds per million records, ratio to Weir; as text, JSON and
//! SVG.

use crate::Cost;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Who Weir's own figure is, in a row.
pub const WEIR: &str = "Weir, Wasm";

/// One line.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub workload: String,
    /// By whom.
    pub who: String,
    /// What it cost, or why it was not run.
    pub cost: Result<Cost, String>,
}

/// All lines, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Appends a line.
    pub fn push(&mut self, workload: &str, who: &str, cost: Result<Cost, String>) {
        self.rows.push(Row { workload: workload.to_owned(), who: who.to_owned(), cost });
    }

    /// CPU of this row over the CPU of Weir in the same workload: above 1, Weir is cheaper.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let weir = self.rows.iter().find(|other| other.workload == row.workload && other.who == WEIR)?;
        match (&row.cost, &weir.cost) {
            (Ok(own), Ok(weir)) => Some(own.cpu_per_million() / weir.cpu_per_million()),
            (Err(_), _) | (_, Err(_)) => None,
        }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<34} {:<22} {:>12} {:>20} {:>12}\n",
            "workload", "who", "M records/s", "CPU s / M records", "CPU / Weir's"
        );
        for row in &self.rows {
            let Row { workload, who, cost } = row;
            let line = match cost {
                Ok(cost) => {
                    let ratio = self.ratio(row).map_or(String::new(), |ratio| format!("{ratio:.2}"));
                    writeln!(text, "{workload:<34} {who:<22} {:>12.2} {:>20.3} {ratio:>12}", cost.rate(), cost.cpu_per_million())
                }
                Err(why) => writeln!(text, "{workload:<34} {who:<22} {why}"),
            };
            line.expect("a string takes everything");
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| match &row.cost {
            Ok(cost) => json!({
                "workload": row.workload,
                "who": row.who,
                "records": cost.records,
                "wall_s": cost.wall.as_secs_f64(),
                "records_per_s": cost.rate() * 1e6,
                "cpu_s_per_million": cost.cpu_per_million(),
                "cpu_over_weir": self.ratio(row),
            }),
            Err(why) => json!({ "workload": row.workload, "who": row.who, "not_run": why }),
        });
        json!({ "unit": "CPU seconds of the whole process per million records", "rows": rows.collect::<Vec<_>>() })
    }

    /// Bars of CPU seconds per million records, on a logarithmic scale: a tenth is as far from one as ten is.
    pub fn svg(&self) -> String {
        const LINE: usize = 18;
        const LABELS: usize = 400;
        const BARS: f64 = 460.0;
        let shown: Vec<(&Row, f64)> =
            self.rows.iter().filter_map(|row| Some((row, row.cost.as_ref().ok()?.cpu_per_million()))).collect();
        let (low, high) = (0.01, shown.iter().map(|(_, cpu)| *cpu).fold(0.1, f64::max) * 1.2);
        let length = |cpu: f64| ((cpu / low).ln() / (high / low).ln() * BARS).max(1.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"4\" y=\"14\" font-weight=\"bold\">CPU seconds per million records (logarithmic; shorter is better)</text>\n",
            LABELS + BARS as usize + 70,
            (shown.len() + 2) * LINE
        );
        for (line, (row, cpu)) in shown.iter().enumerate() {
            let y = (line + 1) * LINE + 4;
            let colour = if row.who == WEIR { "#1f6feb" } else { "#9aa4b2" };
            let label = escaped(&format!("{} · {}", row.workload, row.who));
            writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>\
                 <rect x=\"{LABELS}\" y=\"{y}\" width=\"{:.0}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.0}\" y=\"{}\">{cpu:.3}</text>",
                LABELS - 8,
                y + 11,
                length(*cpu),
                LINE - 4,
                LABELS as f64 + length(*cpu) + 6.0,
                y + 11
            )
            .expect("a string takes everything");
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Writes `performance.json` and `performance.svg` into a folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let json = serde_json::to_string_pretty(&self.json()).expect("numbers and texts are always JSON");
        std::fs::write(folder.join("performance.json"), json + "\n")?;
        std::fs::write(folder.join("performance.svg"), self.svg())
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cost(cpu_ms: u64) -> Result<Cost, String> {
        Ok(Cost { records: 1_000_000, wall: Duration::from_millis(500), cpu: Duration::from_millis(cpu_ms) })
    }

    #[test]
    fn a_peer_is_compared_with_weir_in_its_own_workload() {
        let mut table = Table::default();
        table.push("map", WEIR, cost(50));
        table.push("map", "native", cost(25));
        table.push("count", "Flink", Err("not run: there is no java".to_owned()));
        let text = table.text();
        assert!(text.contains("0.050         1.00") && text.contains("0.025         0.50") && text.contains("no java"), "{text}");
        let json = table.json();
        assert_eq!(json["rows"][1]["cpu_over_weir"], 0.5);
        assert_eq!(json["rows"][2]["not_run"], "not run: there is no java");
        let svg = table.svg();
        assert_eq!(svg.matches("height=\"14\"").count(), 2, "what was not run has no bar: {svg}");
    }
}
