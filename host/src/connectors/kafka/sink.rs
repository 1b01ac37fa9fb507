//! The sink: its settings, its transactions' timeout, writers and committer.

use super::super::{
    Committable, Committer, CommitterContext, ConnectorError, Guarantee, Outlook, OutsideTransaction, SinkConnector, SinkTask,
    SinkWriter,
};
use super::client::{self, ASK_TIMEOUT, LOOK_TIMEOUT, NO_BROKER};
use super::committable::{PreparedTransaction, SlotId};
use super::committer::KafkaCommitter;
use super::outlook;
use super::producer;
use super::slots::Slots;
use super::standby::Standby;
use super::waiting::Waits;
use super::writer::{PlainWriter, TransactionalWriter};
use crate::clock;
use crate::graph::KafkaSinkSpec;
use crate::graph::units::show_minutes;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weir_kafka::{Described, Description, KafkaError, TopicFacts, TransactionAdmin, TransactionState};
use weir_protocol::Generation;

/// Topics that a new producer learns before records name them again.
const LEARNED_AHEAD: usize = 64;
/// A stock broker's limit.
const STOCK_LIMIT: Duration = Duration::from_secs(900);

/// What writers and committer share.
pub(super) struct SinkSettings {
    /// For messages: `sink out`.
    pub(super) place: String,
    /// From the job file.
    pub(super) spec: KafkaSinkSpec,
    /// The client that ends transactions; one, as calls are few.
    admin: Mutex<Option<TransactionAdmin>>,
    /// What its writers wait for.
    pub(super) waits: Waits,
    /// Topics that records have named and that are there.
    named: Mutex<BTreeSet<String>>,
}

/// The client, made at the first use.
pub(super) struct Admin<'s>(MutexGuard<'s, Option<TransactionAdmin>>);

impl std::ops::Deref for Admin<'_> {
    type Target = TransactionAdmin;

    fn deref(&self) -> &TransactionAdmin {
        self.0.as_ref().expect("it was made before the guard was given")
    }
}

impl std::ops::DerefMut for Admin<'_> {
    fn deref_mut(&mut self) -> &mut TransactionAdmin {
        self.0.as_mut().expect("it was made before the guard was given")
    }
}

impl SinkSettings {
    /// Makes sure that a topic which records name is there: a producer that asks for it would have the brokers create it, if they
    /// are set so. Asked once for each.
    pub(super) fn find_named(&self, topic: &str) -> Result<(), ConnectorError> {
        if self.named.lock().unwrap_or_else(PoisonError::into_inner).contains(topic) {
            return Ok(());
        }
        if self.topic_facts(topic)?.is_none() {
            let (place, header) = (&self.place, self.spec.topic_header.as_deref().unwrap_or_default());
            let why = format!(
                "{place}: there is no topic {topic}, which a record's header '{header}' names: create it first; weir creates none"
            );
            return Err(ConnectorError::permanent(why));
        }
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned());
        Ok(())
    }

    /// Some of the topics that records have named.
    pub(super) fn named_topics(&self) -> Vec<String> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).iter().take(LEARNED_AHEAD).cloned().collect()
    }

    /// What the brokers say of a topic; none: it is not there.
    fn topic_facts(&self, topic: &str) -> Result<Option<TopicFacts>, ConnectorError> {
        let found = self.admin()?.topics(&[topic], clock::monotonic() + ASK_TIMEOUT);
        Ok(found.map_err(|error| self.failed(&error))?.into_iter().flatten().next())
    }

    /// The client that ends transactions.
    pub(super) fn admin(&self) -> Result<Admin<'_>, ConnectorError> {
        let mut admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if admin.is_none() {
            let made = client::admin(&self.spec.cluster, &self.spec.prefix);
            *admin = Some(made.map_err(|why| ConnectorError::permanent(format!("{}: {why}", self.place)))?);
        }
        Ok(Admin(admin))
    }

    /// What the coordinator knows of one id.
    pub(super) fn described(&self, id: &str, deadline: Instant) -> Result<Described, String> {
        let mut admin = self.admin().map_err(|error| error.message)?;
        let mut described = admin.describe(&[id], deadline).map_err(|error| error.to_string())?;
        Ok(described.pop().expect("each id that was asked for is described"))
    }

    /// Every id of this sink that the brokers know, and its state.
    pub(super) fn listed(&self) -> Result<Vec<(SlotId, TransactionState)>, ConnectorError> {
        self.listed_until(clock::monotonic() + ASK_TIMEOUT)
    }

    fn listed_until(&self, deadline: Instant) -> Result<Vec<(SlotId, TransactionState)>, ConnectorError> {
        let prefix = format!("{}-", self.spec.prefix);
        let listing = self.admin()?.list(&prefix, deadline).map_err(|error| self.failed(&error))?;
        if let Some(unchecked) = listing.unchecked {
            tracing::debug!("{}: {unchecked}", self.place);
        }
        let own = listing.transactions.into_iter();
        Ok(own.filter_map(|one| Some((SlotId::parse(&one.transactional_id, &self.spec.prefix)?, one.state))).collect())
    }

    /// What a failed question means for the job.
    pub(super) fn failed(&self, error: &KafkaError) -> ConnectorError {
        let message = match error {
            KafkaError::Unreachable { .. } | KafkaError::TimedOut { .. } => {
                format!("{}: {error}; if no broker answers: {NO_BROKER}", self.place)
            }
            error => format!("{}: {error}", self.place),
        };
        if error.is_transient() { ConnectorError::restart(message) } else { ConnectorError::permanent(message) }
    }
}

/// A configured sink.
pub(in super::super) struct KafkaSinkConnector {
    name: String,
    guarantee: Guarantee,
    settings: Arc<SinkSettings>,
    slots: Arc<Slots>,
    /// How long a transaction may live; known once the brokers were asked.
    timeout: OnceLock<Duration>,
}

impl KafkaSinkConnector {
    /// `name`: of the sink in the job file.
    pub(in super::super) fn new(name: &str, spec: &KafkaSinkSpec, guarantee: Guarantee) -> Self {
        let settings = SinkSettings {
            place: format!("sink {name}"),
            spec: spec.clone(),
            admin: Mutex::new(None),
            waits: Waits::default(),
            named: Mutex::default(),
        };
        KafkaSinkConnector {
            name: name.to_owned(),
            guarantee,
            settings: Arc::new(settings),
            slots: Arc::default(),
            timeout: OnceLock::new(),
        }
    }

    /// What writers and committer share.
    pub(super) fn settings(&self) -> &SinkSettings {
        &self.settings
    }

    /// Its topic, which has to be there; none: each record names its own.
    pub(super) fn topic(&self) -> Result<Option<TopicFacts>, ConnectorError> {
        let Some(topic) = &self.settings.spec.topic else { return Ok(None) };
        let found = self.settings.topic_facts(topic)?.ok_or_else(|| {
            let why = format!("{}: there is no topic {topic}: create it first; weir creates none", self.settings.place);
            ConnectorError::permanent(why)
        })?;
        Ok(Some(found))
    }

    /// How long transactions may live: what is set, else the brokers' limit up to that of a stock broker.
    pub(super) fn timeout(&self) -> Result<Duration, ConnectorError> {
        if let Some(timeout) = self.timeout.get() {
            return Ok(*timeout);
        }
        let spec = &self.settings.spec;
        let refused = |why: String| Err(ConnectorError::permanent(format!("{}: {why}", self.settings.place)));
        let (needed, limit) = (spec.needs.lifetime(), self.broker_limit()?);
        let limits = || limit.map_or("unknown".to_owned(), show_minutes);
        let timeout = spec.transaction_timeout.unwrap_or_else(|| limit.unwrap_or(STOCK_LIMIT).min(STOCK_LIMIT).max(needed));
        if limit.is_some_and(|limit| timeout > limit) {
            return refused(format!(
                "a transaction must be able to live {} (transaction_timeout, or what interval, checkpoint timeout and restart \
                 delay need), and the brokers allow {} (transaction.max.timeout.ms): raise their limit, or shorten [checkpoint].timeout \
                 or [restart].max_delay",
                show_minutes(timeout),
                limits()
            ));
        }
        if timeout < needed {
            return refused(format!(
                "transaction_timeout = \"{}\" is too short: checkpoint interval, checkpoint timeout, a restart and a margin need {}; \
                 leave it out, or shorten [checkpoint].timeout or [restart].max_delay",
                show_minutes(timeout),
                show_minutes(needed)
            ));
        }
        Ok(*self.timeout.get_or_init(|| timeout))
    }

    /// The smallest limit of all brokers; none if this user may not ask.
    fn broker_limit(&self) -> Result<Option<Duration>, ConnectorError> {
        let asked = self.settings.admin()?.describe_broker_config("transaction.max.timeout.ms", clock::monotonic() + ASK_TIMEOUT);
        match asked {
            Ok(answers) => {
                let limits = answers.iter().filter_map(|one| one.value.as_ref()?.parse().ok());
                Ok(limits.min().map(Duration::from_millis))
            }
            Err(error @ KafkaError::NotAuthorized { .. }) => {
                tracing::info!("{}: the brokers' limit can't be asked for: {error}", self.settings.place);
                Ok(None)
            }
            Err(error) => Err(self.settings.failed(&error)),
        }
    }
}

impl SinkConnector for KafkaSinkConnector {
    fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    fn is_transactional(&self) -> bool {
        self.guarantee == Guarantee::ExactlyOnce
    }

    fn target(&self) -> Option<PathBuf> {
        Some(PathBuf::from(format!("kafka:{}", self.settings.spec.prefix)))
    }

    fn output(&self) -> Result<Option<Generation>, ConnectorError> {
        if !self.is_transactional() {
            return Ok(None);
        }
        Ok(self.settings.listed()?.into_iter().map(|(slot, _)| slot.generation).max())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn prepare_target(&self) -> Result<(), ConnectorError> {
        self.topic()?;
        if self.is_transactional() {
            self.timeout()?;
        }
        Ok(())
    }

    fn waits(&self) -> Option<(String, Duration)> {
        self.settings.waits.longest()
    }

    fn writer(&self, task: &SinkTask) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        if !self.is_transactional() {
            let producer = producer::plain(&self.settings, task.subtask)?;
            return Ok(Box::new(PlainWriter::new(Arc::clone(&self.settings), producer)));
        }
        let timeout = self.timeout()?;
        let (settings, slots) = (Arc::clone(&self.settings), Arc::clone(&self.slots));
        let standby = Standby::start(Arc::clone(&settings), Arc::clone(&slots), task.generation, task.subtask, timeout);
        Ok(Box::new(TransactionalWriter::new(settings, slots, standby, timeout)))
    }

    fn outlook(&self, is_first_start: bool) -> Outlook {
        outlook::of_sink(self, is_first_start)
    }

    fn outside(&self) -> Result<Option<Vec<OutsideTransaction>>, ConnectorError> {
        let prefix = &self.settings.spec.prefix;
        let deadline = clock::monotonic() + LOOK_TIMEOUT;
        let names: Vec<String> = self.settings.listed_until(deadline)?.into_iter().map(|(slot, _)| slot.name(prefix)).collect();
        let asked: Vec<&str> = names.iter().map(String::as_str).collect();
        let described = self.settings.admin()?.describe(&asked, deadline);
        let described = described.map_err(|error| self.settings.failed(&error))?;
        // One that is unknown has expired since it was listed.
        let known = names.into_iter().zip(described).filter_map(|(name, described)| match described {
            Described::UnknownId => None,
            Described::Known(now) => Some(outside(name, now)),
        });
        Ok(Some(known.collect()))
    }

    fn name_outside(&self, what: &Committable) -> String {
        PreparedTransaction::parse(what.version, &what.bytes).map_or(what.id.to_string(), |prepared| prepared.transactional_id)
    }

    fn abort_outside(&self, name: &str) -> Result<(), ConnectorError> {
        let prefix = &self.settings.spec.prefix;
        if SlotId::parse(name, prefix).is_none() {
            let why = format!("{}: {name} is none of this sink's, which begin with {prefix}-", self.settings.place);
            return Err(ConnectorError::permanent(why));
        }
        let fenced = self.settings.admin()?.fence(name, clock::monotonic() + ASK_TIMEOUT);
        fenced.map(drop).map_err(|error| self.settings.failed(&error))
    }

    fn committer(&self, context: &CommitterContext) -> Result<Option<Box<dyn Committer>>, ConnectorError> {
        if !self.is_transactional() {
            return Ok(None);
        }
        let (settings, slots) = (Arc::clone(&self.settings), Arc::clone(&self.slots));
        Ok(Some(Box::new(KafkaCommitter::new(settings, slots, &self.name, context))))
    }
}

fn outside(name: String, now: Description) -> OutsideTransaction {
    let is_open =
        !matches!(now.state, TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort);
    let numbers = |partitions: &[i32]| partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    OutsideTransaction {
        name,
        state: now.state.to_string(),
        is_open,
        since_ms: now.start_ms,
        timeout: Some(now.timeout),
        places: now.partitions.iter().map(|(topic, partitions)| format!("{topic}/{}", numbers(partitions))).collect(),
    }
}
