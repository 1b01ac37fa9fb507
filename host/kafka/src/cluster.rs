//! The brokers of a cluster: connections that are kept, and who coordinates which transactional id.

use crate::bounds::{IDS_PER_REQUEST, MAX_CONNECTIONS, MAX_KNOWN_COORDINATORS};
use crate::clock::left_until;
use crate::code;
use crate::error::{CallError, KafkaError};
use crate::net::Connection;
use crate::net::tls::Tls;
use crate::settings::{Address, Settings};
use crate::wire::Ask;
use kafka_protocol::messages::FindCoordinatorRequest;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Kind of a coordinator's key: a transactional id.
const TRANSACTION: i8 = 1;

/// Connections and what is known of the cluster. What is known may be out of date: the brokers' answers correct it.
pub(crate) struct Cluster {
    settings: Settings,
    tls: Option<Tls>,
    connections: BTreeMap<Address, Connection>,
    /// By transactional id.
    coordinators: BTreeMap<String, Address>,
    /// Where the next search for a broker begins.
    next_bootstrap: usize,
}

impl Cluster {
    /// Reads the certificates; connects to nobody yet.
    pub(crate) fn new(settings: Settings) -> Result<Self, KafkaError> {
        let tls = settings.tls.as_ref().map(Tls::new).transpose()?;
        Ok(Cluster { settings, tls, connections: BTreeMap::new(), coordinators: BTreeMap::new(), next_bootstrap: 0 })
    }

    /// Asks one broker, over the connection that is open or a new one.
    pub(crate) fn call<R: Ask>(
        &mut self,
        address: &Address,
        deadline: Instant,
        make: impl FnOnce(i16) -> R,
    ) -> Result<R::Response, CallError> {
        let mut connection = match self.connections.remove(address).filter(Connection::is_fresh) {
            Some(connection) => connection,
            None => Connection::open(&self.settings, self.tls.as_ref(), address, deadline).map_err(CallError::unsent)?,
        };
        // On an error the connection is dropped: an answer may still be under way.
        let answer = connection.call(deadline, make)?;
        self.keep(address, connection);
        Ok(answer)
    }

    /// The highest version of a request that a broker and this client speak.
    pub(crate) fn version_of<R: Ask>(&mut self, address: &Address, deadline: Instant) -> Result<i16, KafkaError> {
        self.connect(address, deadline)?.version_of::<R>()
    }

    /// Any broker that answers: one that is connected, else the first of the bootstrap servers.
    pub(crate) fn any(&mut self, deadline: Instant) -> Result<Address, KafkaError> {
        if let Some((address, _)) = self.connections.iter().find(|(_, connection)| connection.is_fresh()) {
            return Ok(address.clone());
        }
        let servers = self.settings.bootstrap.clone();
        let mut last = None;
        for tried in 0..servers.len() {
            let address = &servers[(self.next_bootstrap + tried) % servers.len()];
            // So that one server which swallows packets leaves time for the next.
            let share = left_until(deadline).unwrap_or_default() / (servers.len() - tried) as u32;
            match self.connect(address, crate::clock::at_most(deadline, share)) {
                Ok(_) => {
                    self.next_bootstrap = (self.next_bootstrap + tried) % servers.len();
                    return Ok(address.clone());
                }
                // Another server would say the same.
                Err(error) if !error.is_transient() => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("the settings name at least one server"))
    }

    /// The coordinator of one id, remembered or asked for once.
    pub(crate) fn coordinator(&mut self, id: &str, deadline: Instant) -> Result<Address, CallError> {
        if let Some(address) = self.coordinators.get(id) {
            return Ok(address.clone());
        }
        self.find(&[id], deadline)?;
        Ok(self.coordinators[id].clone())
    }

    /// Finds the coordinators of those ids that have none; all are known afterwards.
    pub(crate) fn find(&mut self, ids: &[&str], deadline: Instant) -> Result<(), CallError> {
        let mut unknown: BTreeSet<&str> = ids.iter().copied().filter(|id| !self.coordinators.contains_key(*id)).collect();
        if self.coordinators.len() + unknown.len() > MAX_KNOWN_COORDINATORS {
            self.coordinators.clear();
            unknown = ids.iter().copied().collect();
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let any = self.any(deadline).map_err(CallError::unsent)?;
        // That a search was sent changes nothing on the broker, so its failure counts as unsent.
        let harmless = |call: CallError| CallError::unsent(call.error);
        let batched = self.version_of::<FindCoordinatorRequest>(&any, deadline).map_err(CallError::unsent)? >= 4;
        let unknown: Vec<&str> = unknown.into_iter().collect();
        for some in unknown.chunks(if batched { IDS_PER_REQUEST } else { 1 }) {
            let answer = self.call(&any, deadline, |_| search(some, batched)).map_err(harmless)?;
            let found = if batched {
                answer.coordinators
            } else {
                vec![
                    Coordinator::default()
                        .with_key(StrBytes::from_string(some[0].to_owned()))
                        .with_error_code(answer.error_code)
                        .with_host(answer.host)
                        .with_port(answer.port),
                ]
            };
            self.learn(&any, some, found).map_err(CallError::unsent)?;
        }
        Ok(())
    }

    /// Takes in one answer to a search for `asked`.
    fn learn(&mut self, broker: &Address, asked: &[&str], found: Vec<Coordinator>) -> Result<(), KafkaError> {
        for one in found {
            if one.error_code != code::NONE {
                return Err(KafkaError::answered(broker, FindCoordinatorRequest::NAME, one.key.as_str(), one.error_code));
            }
            // Only what was asked for is remembered.
            if asked.contains(&one.key.as_str()) {
                let address = self.address_of(broker, &one.host, one.port)?;
                self.coordinators.insert(one.key.to_string(), address);
            }
        }
        match asked.iter().find(|id| !self.coordinators.contains_key(**id)) {
            None => Ok(()),
            Some(id) => {
                let why = format!("it was asked for the coordinator of {id}, and answered without");
                Err(KafkaError::Garbled { broker: broker.to_string(), why })
            }
        }
    }

    /// An address that a broker gave for another.
    pub(crate) fn address_of(&self, broker: &Address, host: &str, port: i32) -> Result<Address, KafkaError> {
        match u16::try_from(port) {
            Ok(port) if port > 0 && !host.is_empty() => Ok(Address { host: host.to_owned(), port }),
            _ => {
                let why = format!("it names a broker at '{host}:{port}', which is no address");
                Err(KafkaError::Garbled { broker: broker.to_string(), why })
            }
        }
    }

    /// The coordinator of this id may be another one by now.
    pub(crate) fn forget(&mut self, id: &str) {
        self.coordinators.remove(id);
    }

    /// The connection to a broker that may no longer be right; the next call opens another.
    pub(crate) fn disconnect(&mut self, address: &Address) {
        self.connections.remove(address);
    }

    fn connect(&mut self, address: &Address, deadline: Instant) -> Result<&Connection, KafkaError> {
        if !self.connections.get(address).is_some_and(Connection::is_fresh) {
            let connection = Connection::open(&self.settings, self.tls.as_ref(), address, deadline)?;
            self.keep(address, connection);
        }
        Ok(&self.connections[address])
    }

    fn keep(&mut self, address: &Address, connection: Connection) {
        if self.connections.len() >= MAX_CONNECTIONS {
            self.connections.clear();
        }
        self.connections.insert(address.clone(), connection);
    }
}

fn search(ids: &[&str], batched: bool) -> FindCoordinatorRequest {
    let request = FindCoordinatorRequest::default().with_key_type(TRANSACTION);
    let mut keys = ids.iter().map(|id| StrBytes::from_string((*id).to_owned()));
    if batched {
        request.with_coordinator_keys(keys.collect())
    } else {
        request.with_key(keys.next().expect("one id is searched for at a time"))
    }
}
