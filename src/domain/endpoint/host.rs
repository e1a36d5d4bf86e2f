//! Hosts as a parser of URLs would read them, so that no spelling hides an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::EndpointError;

/// Splits `host:port`.
pub(super) fn split_port(authority: &str) -> Result<(&str, Option<u16>), EndpointError> {
    let bracket = authority.find(']').unwrap_or(0);
    let Some(colon) = authority[bracket..].find(':') else {
        return Ok((authority, None));
    };
    let (host, port) = authority.split_at(bracket + colon);
    let digits = &port[1..];
    let port = digits.parse::<u16>().ok().filter(|port| *port != 0);
    match port {
        Some(port) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok((host, Some(port))),
        _ => Err(EndpointError::BadPort),
    }
}

/// The host in the one spelling we keep: lower case, addresses in their usual form.
pub(super) fn normalize(host: &str) -> Result<String, EndpointError> {
    if host.is_empty() {
        return Err(EndpointError::EmptyHost);
    }
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or(EndpointError::BadHost)?;
        let address: Ipv6Addr = inner.parse().map_err(|_| EndpointError::BadHost)?;
        return Ok(format!("[{address}]"));
    }
    let host = host.to_ascii_lowercase();
    if !host.split('.').all(is_label) {
        return Err(EndpointError::BadHost);
    }
    if looks_like_ipv4(&host) {
        let address = any_ipv4(&host).ok_or(EndpointError::BadHost)?;
        return Ok(address.to_string());
    }
    Ok(host)
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// A host whose last label is a number is an address to every parser of URLs.
fn looks_like_ipv4(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    last.bytes().all(|byte| byte.is_ascii_digit()) || number(last).is_some()
}

/// IPv4 in any spelling that a C library takes: one to four decimal, octal or hex numbers, the
/// last of which fills the remaining bytes.
fn any_ipv4(host: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u64> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = numbers.split_last()?;
    if leading.len() > 3 || leading.iter().any(|number| *number > 255) {
        return None;
    }
    let room = 8 * (4 - leading.len() as u32);
    if *last >= 1_u64 << room {
        return None;
    }
    let high = leading.iter().fold(0_u64, |address, byte| (address << 8) | byte);
    u32::try_from((high << room) | last).ok().map(Ipv4Addr::from)
}

fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return match hex {
            "" => Some(0),
            _ => u64::from_str_radix(hex, 16).ok(),
        };
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ if text.starts_with('+') => None,
        _ => text.parse().ok(),
    }
}

/// The address that a normalized host is.
fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// Whether a normalized host is an address.
pub(super) fn is_ip_address(host: &str) -> bool {
    address(host).is_some()
}

/// Whether a normalized host hands out credentials of the machine we run on.
pub(super) fn is_metadata(host: &str) -> bool {
    const NAMES: [&str; 6] = [
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
    ];
    match address(host) {
        Some(IpAddr::V4(address)) => is_metadata_v4(address),
        Some(IpAddr::V6(address)) => is_metadata_v6(address),
        None => NAMES.contains(&host),
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    // The others are Alibaba's, Azure's and Oracle's.
    const OTHERS: [Ipv4Addr; 3] =
        [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
    address.is_link_local() || OTHERS.contains(&address)
}

fn is_metadata_v6(address: Ipv6Addr) -> bool {
    // Amazon's and Google's.
    const OTHERS: [Ipv6Addr; 2] =
        [Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254)];
    if address.is_unicast_link_local() || OTHERS.contains(&address) {
        return true;
    }
    // IPv4 in disguise: mapped, compatible, NAT64.
    let bits = u128::from(address);
    let prefix = bits >> 32;
    let embeds = prefix == 0 || prefix == 0xffff || prefix == 0x0064_ff9b_u128 << 64;
    embeds && is_metadata_v4(Ipv4Addr::from(bits as u32))
}
