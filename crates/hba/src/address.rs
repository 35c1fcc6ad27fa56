//! The addresses of a rule.
//!
//! A rule with an IPv4 address matches IPv4 clients and one with an IPv6 address IPv6 clients, as in PostgreSQL. A
//! client that came as IPv4 within IPv6 (`::ffff:a.b.c.d`) is an IPv4 client. Host names are refused: PostgreSQL looks up
//! the client's name, and the name's addresses, at each login.
//!
//! //= pg18 auth-pg-hba-conf#address

use std::net::IpAddr;

use crate::mistake::{Wrong, quoted};
use crate::text::Word;

/// An address of this machine, and the mask of its network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub address: IpAddr,
    pub mask: IpAddr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Addresses {
    All,
    Network {
        address: IpAddr,
        mask: IpAddr,
    },
    /// samehost and samenet: as the machine's interfaces were when the file was read.
    These(Vec<Interface>),
}

impl Addresses {
    /// All of TCP, or all of IPv4, or all of IPv6.
    pub(crate) fn are_all(&self) -> bool {
        match self {
            Addresses::All => true,
            Addresses::Network { mask, .. } => mask.is_unspecified(),
            Addresses::These(_) => false,
        }
    }

    pub(crate) fn has(&self, client: IpAddr) -> bool {
        match self {
            Addresses::All => true,
            Addresses::Network { address, mask } => is_within(client, *address, *mask),
            Addresses::These(networks) => {
                networks.iter().any(|network| is_within(client, network.address, network.mask))
            }
        }
    }

    /// Takes the address from the fields, and the mask behind it if there is one.
    pub(crate) fn take(
        fields: &mut impl Iterator<Item = Vec<Word>>,
        interfaces: &[Interface],
    ) -> Result<Addresses, Wrong> {
        const EXPECTED: &str = "one address, with /bits or a mask behind it, or all, samehost, samenet";
        let word = only(fields.next(), EXPECTED)?;
        let text = word.text.as_str();
        match text {
            "all" if !word.has_quotes => return Ok(Addresses::All),
            "samehost" if !word.has_quotes => return Ok(Addresses::These(hosts(interfaces))),
            "samenet" if !word.has_quotes => return Ok(Addresses::These(interfaces.to_vec())),
            _ => {}
        }
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let Ok(address) = address.parse::<IpAddr>() else {
            let expected = format!("{EXPECTED}: host names are not looked up");
            return Err(Wrong::new(quoted(text), expected));
        };
        let mask = match bits {
            Some(bits) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.parse().ok().filter(|bits| *bits <= most && text.is_ascii());
                let bits = bits.ok_or_else(|| Wrong::new(quoted(text), format!("at most {most} bits behind the /")))?;
                mask_of(address, bits)
            }
            None => {
                let expected = "a mask behind the address, or /bits right after it";
                let word = only(fields.next(), expected)?;
                let mask = word.text.parse::<IpAddr>().ok().filter(|mask| mask.is_ipv4() == address.is_ipv4());
                mask.ok_or_else(|| Wrong::new(quoted(&word.text), expected))?
            }
        };
        Ok(Addresses::Network { address, mask })
    }
}

/// The only word of a field.
pub(crate) fn only(field: Option<Vec<Word>>, expected: &str) -> Result<Word, Wrong> {
    let mut words = field.unwrap_or_default().into_iter();
    match (words.next(), words.next()) {
        (None, _) => Err(Wrong::new("the end of the line", expected)),
        (Some(word), None) => Ok(word),
        (Some(_), Some(_)) => Err(Wrong::new("a list", expected)),
    }
}

fn hosts(interfaces: &[Interface]) -> Vec<Interface> {
    let host = |interface: &Interface| {
        let bits = if interface.address.is_ipv4() { 32 } else { 128 };
        Interface { mask: mask_of(interface.address, bits), ..*interface }
    };
    interfaces.iter().map(host).collect()
}

fn mask_of(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(u32::MAX.checked_shl(32 - bits).unwrap_or(0).into()),
        IpAddr::V6(_) => IpAddr::V6(u128::MAX.checked_shl(128 - bits).unwrap_or(0).into()),
    }
}

fn is_within(client: IpAddr, address: IpAddr, mask: IpAddr) -> bool {
    match (client.to_canonical(), address, mask) {
        (IpAddr::V4(client), IpAddr::V4(address), IpAddr::V4(mask)) => {
            (u32::from(client) ^ u32::from(address)) & u32::from(mask) == 0
        }
        (IpAddr::V6(client), IpAddr::V6(address), IpAddr::V6(mask)) => {
            (u128::from(client) ^ u128::from(address)) & u128::from(mask) == 0
        }
        _ => false,
    }
}
