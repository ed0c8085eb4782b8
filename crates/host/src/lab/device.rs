//! Interfaces, parsed from the output of `ip -details -json address show`.

use serde_json::Value;

/// One interface of a namespace, with the fields that the lab uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) index: u64,
    /// Index of the peer in its own namespace (veth).
    pub(crate) peer_index: Option<u64>,
    /// Whether the peer lies in another namespace.
    pub(crate) peer_elsewhere: bool,
    pub(crate) kind: String,
    pub(crate) mac: String,
    pub(crate) mtu: u32,
    pub(crate) alias: String,
    /// Whether the administrator has set the interface up.
    pub(crate) admin_up: bool,
    /// Operational state, as in RFC 2863 (`UP`, `DOWN`, `LOWERLAYERDOWN`, …).
    pub(crate) operstate: String,
    pub(crate) tx_queues: u32,
    pub(crate) rx_queues: u32,
    /// `address/prefix length`, without link-local ones.
    pub(crate) addresses: Vec<String>,
}

/// Parses the output of `ip -details -json address show`; `None` if the text is something else.
pub(crate) fn parse(json: &str) -> Option<Vec<Device>> {
    // An empty namespace list prints nothing at all in some versions.
    if json.trim().is_empty() {
        return Some(Vec::new());
    }
    // `ip` writes control characters of names and aliases unescaped, which JSON does not allow.
    let Value::Array(items) = serde_json::from_str(&mpps_sys::text::json(json.to_owned())).ok()? else {
        return None;
    };
    Some(items.iter().filter_map(device).collect())
}

fn device(v: &Value) -> Option<Device> {
    let text = |key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |key: &str| v.get(key).and_then(Value::as_u64).unwrap_or_default();
    let small = |key: &str| u32::try_from(number(key)).unwrap_or(u32::MAX);
    let flags = v.get("flags").and_then(Value::as_array);
    let addresses = v
        .get("addr_info")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|a| {
            let scope = a.get("scope").and_then(Value::as_str).unwrap_or_default();
            let address = a.get("local").and_then(Value::as_str)?;
            let prefix = a.get("prefixlen").and_then(Value::as_u64)?;
            (scope != "link").then(|| format!("{address}/{prefix}"))
        });
    Some(Device {
        name: v.get("ifname")?.as_str()?.to_owned(),
        index: number("ifindex"),
        peer_index: v.get("link_index").and_then(Value::as_u64),
        peer_elsewhere: v.get("link_netnsid").is_some(),
        kind: v
            .pointer("/linkinfo/info_kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        mac: text("address"),
        mtu: small("mtu"),
        alias: text("ifalias"),
        admin_up: flags.is_some_and(|f| f.iter().any(|x| x == "UP")),
        operstate: text("operstate"),
        tx_queues: small("num_tx_queues"),
        rx_queues: small("num_rx_queues"),
        addresses: addresses.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK"],"mtu":65536,"operstate":"DOWN",
      "ifalias":"mpps-lab x-a","address":"00:00:00:00:00:00","num_tx_queues":1,"num_rx_queues":1,"addr_info":[]},
     {"ifindex":2,"link_index":3,"ifname":"eth1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,
      "operstate":"UP","address":"02:6d:70:70:73:01","link_netnsid":0,"linkinfo":{"info_kind":"veth"},
      "num_tx_queues":4,"num_rx_queues":4,"addr_info":[
        {"family":"inet","local":"10.99.0.1","prefixlen":24,"scope":"global"},
        {"family":"inet6","local":"fd99::1","prefixlen":64,"scope":"global","nodad":true},
        {"family":"inet6","local":"fe80::6d:70ff:fe70:7301","prefixlen":64,"scope":"link"}]}]"#;

    #[test]
    fn what_ip_prints_is_read_field_by_field() {
        let devices = parse(SAMPLE).unwrap();
        assert_eq!(devices[0].alias, "mpps-lab x-a");
        assert!(!devices[0].admin_up);
        let eth1 = &devices[1];
        assert_eq!((eth1.name.as_str(), eth1.index, eth1.peer_index), ("eth1", 2, Some(3)));
        assert!(eth1.peer_elsewhere && eth1.admin_up);
        assert_eq!((eth1.kind.as_str(), eth1.operstate.as_str()), ("veth", "UP"));
        assert_eq!((eth1.tx_queues, eth1.rx_queues, eth1.mtu), (4, 4, 1500));
        assert_eq!(eth1.addresses, ["10.99.0.1/24", "fd99::1/64"]);
    }

    #[test]
    fn a_name_with_control_characters_spoils_no_list() {
        let list = SAMPLE
            .replacen("lo", "a\x1b[31m\u{202e}", 1)
            .replace("x-a", "x\\ny\x7f\x01z");
        let devices = parse(&list).unwrap();
        assert_eq!(devices[0].name, "a\x1b[31m\u{202e}");
        assert_eq!(devices[0].alias, "mpps-lab x\ny\x7f\x01z");
        assert_eq!(devices[1].name, "eth1");
    }

    #[test]
    fn what_is_not_a_list_of_interfaces_is_told_apart_from_an_empty_one() {
        assert_eq!(parse(""), Some(vec![]));
        assert_eq!(parse("[]"), Some(vec![]));
        assert_eq!(parse("[{}]"), Some(vec![]));
        assert_eq!(parse("{}"), None);
        assert_eq!(parse("Object \"-json\" is unknown"), None);
    }
}
