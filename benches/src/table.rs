//! The one table of all benches: workload, who, records a second, CPU seconds per million records, ratio to Weir; as text, JSON and
//! SVG.

use crate::Cost;
use plotters::prelude::*;
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

/// What is no cost of a record.
#[derive(Clone, Debug)]
struct Figure {
    of: String,
    what: String,
    value: f64,
    unit: &'static str,
}

/// A picture of how something grows.
#[derive(Clone, Debug)]
pub struct Plot {
    /// End of its file's name.
    pub file: &'static str,
    /// Above it.
    pub title: &'static str,
    /// What goes to the right.
    pub x: &'static str,
    /// What goes up.
    pub y: &'static str,
    /// Its curves; those without points are left out.
    pub series: Vec<Series>,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Its points, from left to right, all above 0.
    pub points: Vec<(f64, f64)>,
}

/// All lines, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    figures: Vec<Figure>,
    plots: Vec<Plot>,
}

impl Table {
    /// Appends a line.
    pub fn push(&mut self, workload: &str, who: &str, cost: Result<Cost, String>) {
        self.rows.push(Row { workload: workload.to_owned(), who: who.to_owned(), cost });
    }

    /// Appends the line of a bench, if the filter on the command line let it run.
    pub fn push_run(&mut self, workload: &str, who: &str, cost: Cost) {
        if cost.records > 0 {
            self.push(workload, who, Ok(cost));
        }
    }

    /// Appends a figure that is no cost of a record. `of`: what was looked at.
    pub fn figure(&mut self, of: &str, what: &str, value: f64, unit: &'static str) {
        self.figures.push(Figure { of: of.to_owned(), what: what.to_owned(), value, unit });
    }

    /// Appends a picture; one without points is none.
    pub fn plot(&mut self, mut plot: Plot) {
        plot.series.retain(|series| !series.points.is_empty());
        if !plot.series.is_empty() {
            self.plots.push(plot);
        }
    }

    /// CPU seconds per million records of one line, if it was run.
    pub fn cpu(&self, workload: &str, who: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.workload == workload && row.who == who)?;
        Some(row.cost.as_ref().ok()?.cpu_per_million())
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
        for Figure { of, what, value, unit } in &self.figures {
            writeln!(text, "{:<57} {what:<56} {} {unit}", of, digits(*value)).expect("a string takes everything");
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
        let figure = |figure: &Figure| {
            let Figure { of, what, value, unit } = figure;
            json!({ "of": of, "what": what, "value": value, "unit": unit })
        };
        json!({
            "unit": "CPU seconds of the whole process per million records",
            "rows": rows.collect::<Vec<_>>(),
            "figures": self.figures.iter().map(figure).collect::<Vec<_>>(),
        })
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

    /// Writes `performance.json`, `performance.svg`, and a `performance-….svg` for each plot, into a folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let json = serde_json::to_string_pretty(&self.json()).expect("numbers and texts are always JSON");
        std::fs::write(folder.join("performance.json"), json + "\n")?;
        std::fs::write(folder.join("performance.svg"), self.svg())?;
        for plot in &self.plots {
            std::fs::write(folder.join(format!("performance-{}.svg", plot.file)), plot.svg())?;
        }
        Ok(())
    }
}

/// Three digits that count, or more before the point.
fn digits(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 6) };
    format!("{value:.*}", decimals as usize)
}

impl Plot {
    /// On two logarithmic scales: what grows as it should is a straight line.
    pub fn svg(&self) -> String {
        const COLOURS: [RGBColor; 4] =
            [RGBColor(31, 111, 235), RGBColor(46, 160, 67), RGBColor(154, 164, 178), RGBColor(219, 109, 40)];
        let range = |of: fn(&(f64, f64)) -> f64| {
            let all = || self.series.iter().flat_map(|series| &series.points).map(of);
            let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
            (low / 1.5..high * 1.5).log_scale()
        };
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (720, 400)).into_drawing_area();
        let draw = || -> Result<(), Box<dyn std::error::Error>> {
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(self.title, ("sans-serif", 16))
                .margin(12)
                .x_label_area_size(40)
                .y_label_area_size(70)
                .build_cartesian_2d(range(|point| point.0), range(|point| point.1))?;
            let label = |value: &f64| digits(*value);
            let mut mesh = chart.configure_mesh();
            mesh.x_desc(self.x).y_desc(self.y).x_label_formatter(&label).y_label_formatter(&label).draw()?;
            for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
                let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
                let drawn = chart.draw_series(line)?.label(&series.name);
                drawn.legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], *colour));
            }
            chart.configure_series_labels().border_style(BLACK.mix(0.3)).background_style(WHITE).draw()?;
            area.present()?;
            Ok(())
        };
        draw().expect("a string takes every picture");
        drop(area);
        svg
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
        table.figure("start", "first record", 123.456, "ms");
        assert!(table.text().contains("123 ms"), "{}", table.text());
        assert_eq!(table.json()["figures"][0]["value"], 123.456);
        let svg = table.svg();
        assert_eq!(svg.matches("height=\"14\"").count(), 2, "what was not run has no bar: {svg}");
    }

    #[test]
    fn a_plot_has_its_curves_and_none_without_points() {
        let series = |name: &str, points: &[(f64, f64)]| Series { name: name.into(), points: points.to_vec() };
        let curves = vec![series("grows", &[(100.0, 1.0), (1e6, 2e4)]), series("nothing", &[])];
        let mut table = Table::default();
        table.plot(Plot { file: "a", title: "All of it", x: "keys", y: "ms", series: curves });
        table.plot(Plot { file: "b", title: "None of it", x: "keys", y: "ms", series: vec![series("nothing", &[])] });
        let [plot] = &table.plots[..] else { panic!("one of the two has points") };
        let svg = plot.svg();
        assert!(svg.contains("All of it") && svg.contains("grows") && !svg.contains("nothing"), "{svg}");
    }
}
