//! Networks of addresses, as `10.0.0.0/8, fd00::/8, 192.0.2.1`.

use std::net::IpAddr;

/// Networks of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<(IpAddr, u8)>);

impl Networks {
    /// Addresses, each with the number of bits that its network has in common, or alone; `None`: one of them is something else, or has bits
    /// set behind these, so that it is not clear what was meant.
    #[must_use]
    pub(crate) fn read(list: &str) -> Option<Networks> {
        let all = list.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|one| !one.is_empty());
        let networks = all.map(|one| {
            let (address, bits) = one.split_once('/').map_or((one, None), |(address, bits)| (address, Some(bits)));
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let is_plain = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
            let bits = bits.map_or(Some(most), |bits| Some(bits).filter(is_plain)?.parse().ok())?;
            let is_clear =
                bits <= most && (most == bits || numbered(address) << (u32::from(bits) + 128 - u32::from(most)) == 0);
            is_clear.then_some((address, bits))
        });
        networks.collect::<Option<Vec<_>>>().map(Networks)
    }

    /// Whether the address is in one of them. IPv4 within IPv6 (`::ffff:a.b.c.d`) is IPv4.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|(network, bits)| {
            let most: u32 = if network.is_ipv4() { 32 } else { 128 };
            let apart = numbered(*network) ^ numbered(address);
            let is_within = apart.checked_shr(most - u32::from(*bits)).is_none_or(|rest| rest == 0);
            network.is_ipv4() == address.is_ipv4() && is_within
        })
    }
}

/// An address as a number.
fn numbered(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_as_it_does() {
        let cases = [
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::a00:1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.0", false),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "ff::1", true),
            ("::/0", "10.0.0.1", false),
            ("fd00::/8,10.0.0.0/31", "fdff::1", true),
            ("fd00::/8,10.0.0.0/31", "10.0.0.1", true),
            ("fd00::/8,10.0.0.0/31", "10.0.0.2", false),
            ("", "10.0.0.2", false),
        ];
        for (networks, address, expected) in cases {
            let networks = Networks::read(networks).expect("sound");
            assert_eq!(networks.contain(address.parse().expect("an address")), expected, "{networks:?} {address}");
        }
    }
}
