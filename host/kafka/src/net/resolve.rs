//! Names → IP addresses, before a deadline.

use crate::clock::left_until;
use crate::settings::{Address, Family};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Instant;

/// The IP addresses of a broker, as many as the family allows, in the resolver's order.
///
/// # Errors
/// Why there is none, in words.
pub(super) fn resolve(address: &Address, family: Family, deadline: Instant) -> Result<Vec<SocketAddr>, String> {
    let all = match address.host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, address.port)],
        Err(_) => look_up(address, deadline)?,
    };
    let wanted: Vec<SocketAddr> = all
        .into_iter()
        .filter(|found| match family {
            Family::Any => true,
            Family::V4 => found.is_ipv4(),
            Family::V6 => found.is_ipv6(),
        })
        .collect();
    if wanted.is_empty() {
        return Err("the name has no address of the family that broker.address.family asks for".to_owned());
    }
    Ok(wanted)
}

/// Asks the system, whose resolver knows no deadline: hence on a thread of its own, which outlives this call by what the
/// resolver takes. There is one at a time for each call that waits for one.
fn look_up(address: &Address, deadline: Instant) -> Result<Vec<SocketAddr>, String> {
    let left = left_until(deadline).ok_or("no time was left to look up the name")?;
    let target = (address.host.clone(), address.port);
    let (give, take) = mpsc::channel();
    std::thread::Builder::new()
        .name("weir-kafka-dns".to_owned())
        .spawn(move || {
            // Nobody listens any more once the deadline has passed.
            drop(give.send(target.to_socket_addrs().map(|found| found.collect::<Vec<_>>())));
        })
        .map_err(|error| format!("no thread could be started to look up the name: {error}"))?;
    match take.recv_timeout(left) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(format!("the name can't be looked up: {error}")),
        Err(_) => Err("the name was not looked up in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;
    use std::time::Duration;

    #[test]
    fn names_and_numbers_become_addresses_of_the_family() {
        let deadline = monotonic() + Duration::from_secs(20);
        let at = |host: &str| Address { host: host.to_owned(), port: 9 };
        assert_eq!(resolve(&at("::1"), Family::Any, deadline), Ok(vec!["[::1]:9".parse().expect("an address")]));
        assert!(resolve(&at("127.0.0.1"), Family::V6, deadline).is_err());
        let found = resolve(&at("localhost"), Family::V4, deadline).expect("every machine has it");
        assert!(found.iter().all(SocketAddr::is_ipv4));
        assert!(resolve(&at("localhost"), Family::Any, monotonic()).is_err(), "no time is left");
    }
}
