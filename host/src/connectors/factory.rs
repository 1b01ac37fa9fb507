//! From a job file's sections to connectors.

use super::discard::DiscardConnector;
use super::file_sink::FileSinkConnector;
use super::file_source::FileSourceConnector;
use super::kafka::{KafkaSinkConnector, KafkaSourceConnector};
use super::plugin_sink::{PluginSinkConnector, PluginSource};
use super::rate::RateLimitedConnector;
use super::sequence::SequenceConnector;
use super::{ConnectorError, Outlook, SinkConnector, SourceConnector};
use crate::graph::{FileFormat, SinkConnectorSpec, SinkSpec, SourceConnectorSpec, SourceSpec};
use std::num::NonZeroU64;
use std::sync::Arc;

/// The connector of a `[[source]]`. Looks at nothing outside.
pub fn source_connector(spec: &SourceSpec) -> Result<Box<dyn SourceConnector>, ConnectorError> {
    let inner: Box<dyn SourceConnector> = match &spec.connector {
        SourceConnectorSpec::File { path, format, skip_header } => {
            if *skip_header && *format == FileFormat::Raw {
                return Err(ConnectorError::permanent(format!(
                    "source {}: header = \"skip\" needs lines, but format is \"raw\": leave one of them out",
                    spec.name
                )));
            }
            let (name, pattern) = (spec.name.clone(), path.clone());
            Box::new(FileSourceConnector { name, pattern, format: *format, skip_header: *skip_header })
        }
        SourceConnectorSpec::Kafka(kafka) => Box::new(KafkaSourceConnector::new(&spec.name, kafka)),
        SourceConnectorSpec::Sequence { count, keys, value_bytes, seed } => {
            Box::new(SequenceConnector::new(&spec.name, *count, *keys, *value_bytes, *seed)?)
        }
    };
    match spec.rate {
        None => Ok(inner),
        Some(rate) => {
            let per_second = NonZeroU64::new(rate).ok_or_else(|| {
                ConnectorError::permanent(format!(
                    "source {}: rate = 0 would never read: leave it out, or set 1 or more",
                    spec.name
                ))
            })?;
            Ok(Box::new(RateLimitedConnector { inner, per_second }))
        }
    }
}

/// What `weir check` should know of what a `[[sink]]` writes to. Loads no plugin.
pub fn sink_outlook(spec: &SinkSpec, is_first_start: bool) -> Outlook {
    match &spec.connector {
        SinkConnectorSpec::Kafka(kafka) => KafkaSinkConnector::new(&spec.name, kafka, spec.guarantee).outlook(is_first_start),
        SinkConnectorSpec::File { .. } | SinkConnectorSpec::Discard | SinkConnectorSpec::Plugin { .. } => Outlook::default(),
    }
}

/// The connector of a `[[sink]]`. Looks at nothing outside but a plugin's component.
pub fn sink_connector(spec: &SinkSpec, plugins: &Arc<dyn PluginSource>) -> Result<Box<dyn SinkConnector>, ConnectorError> {
    match &spec.connector {
        SinkConnectorSpec::File { path } => Ok(Box::new(FileSinkConnector::new(&spec.name, path)?)),
        SinkConnectorSpec::Kafka(kafka) => Ok(Box::new(KafkaSinkConnector::new(&spec.name, kafka, spec.guarantee))),
        SinkConnectorSpec::Discard => Ok(Box::new(DiscardConnector)),
        SinkConnectorSpec::Plugin { .. } => Ok(Box::new(PluginSinkConnector::new(spec, Arc::clone(plugins))?)),
    }
}
