//! Asks a granted origin about each record, and emits the answer in its place.
//!
//! Config: `{"grant": "<name>", "path": "/…/"}`: the record's value is put behind the path, and must be text that may stand
//! there. 404 is a bad record; another status, or none, is worth another try.

use serde::Deserialize;
use weir_sdk::prelude::*;
use weir_sdk::{Origin, Response};

#[derive(Default)]
struct AskOrigin {
    asked: Option<(Origin, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    grant: String,
    path: String,
}

impl Operator for AskOrigin {
    const INFO: Info = weir_sdk::info!();

    fn open(&mut self, task: &Task, config: &str) -> Result<(), Error> {
        let Config { grant, path } = serde_json::from_str(config).map_err(|error| Error::fatal(format!("config: {error}")))?;
        self.asked = Some((task.grants.origin(&grant), path));
        Ok(())
    }

    fn process(&mut self, record: Record<'_>, out: &mut Output) -> Result<(), Error> {
        let (origin, path) = self.asked.as_ref().expect("open comes first");
        let Response { status, body, .. } = origin.get(&format!("{path}{}", record.text()?)).map_err(Error::retry)?;
        match status {
            200 => out.emit(record.key(), body, record.time()),
            404 => return Err(Error::bad_record("the origin does not know it")),
            _ => return Err(Error::retry(format!("the origin answers {status}"))),
        }
        Ok(())
    }
}

weir_sdk::export_operator!(AskOrigin);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sdk::testing::{FakeHttp, Harness};

    const CONFIG: &str = r#"{"grant": "names", "path": "/of/"}"#;

    #[test]
    fn each_record_becomes_its_answer() {
        let http = FakeHttp::new(|grant, request| {
            assert_eq!((grant, request.method.as_str()), ("names", "GET"));
            match request.path.as_str() {
                "/of/7" => Ok(Response { status: 200, body: b"seven".to_vec(), ..Response::default() }),
                "/of/8" => Ok(Response { status: 503, ..Response::default() }),
                _ => Ok(Response { status: 404, ..Response::default() }),
            }
        });
        let mut harness = Harness::open_granted(AskOrigin::default(), CONFIG, http.grants()).unwrap();
        harness.send(0, &[("k", "7", 1)]).unwrap();
        assert_eq!(harness.take_main().iter().map(|record| record.text().to_owned()).collect::<Vec<_>>(), ["seven"]);
        let bad = harness.send(0, &[("k", "9", 1)]).unwrap_err();
        assert!(format!("{bad:?}").contains("does not know"), "{bad:?}");
        let again = harness.send(0, &[("k", "8", 1)]).unwrap_err();
        assert!(format!("{again:?}").contains("answers 503"), "{again:?}");
    }

    #[test]
    fn without_a_grant_nothing_is_asked() {
        let mut harness = Harness::open(AskOrigin::default(), CONFIG).unwrap();
        let error = harness.send(0, &[("k", "7", 1)]).unwrap_err();
        assert!(format!("{error:?}").contains("no origin is granted as 'names'"), "{error:?}");
    }
}
