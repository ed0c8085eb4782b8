//! Names of link types, as <https://www.tcpdump.org/linktypes.html> has them.

/// Link type of Ethernet frames.
pub(crate) const ETHERNET: u32 = 1;

/// Numbers and names of the link types that captures have most often.
const NAMES: [(u32, &str); 44] = [
    (0, "null"),
    (ETHERNET, "ethernet"),
    (6, "ieee802_5"),
    (8, "slip"),
    (9, "ppp"),
    (10, "fddi"),
    (12, "raw"),
    (14, "raw"),
    (50, "ppp_hdlc"),
    (51, "ppp_ether"),
    (100, "atm_rfc1483"),
    (101, "raw"),
    (104, "c_hdlc"),
    (105, "ieee802_11"),
    (107, "frelay"),
    (108, "loop"),
    (113, "linux_sll"),
    (117, "pflog"),
    (119, "ieee802_11_prism"),
    (127, "ieee802_11_radiotap"),
    (129, "arcnet_linux"),
    (143, "docsis"),
    (147, "user0"),
    (163, "ieee802_11_avs"),
    (166, "ppp_pppd"),
    (187, "bluetooth_hci_h4"),
    (189, "usb_linux"),
    (192, "ppi"),
    (195, "ieee802_15_4_withfcs"),
    (201, "bluetooth_hci_h4_with_phdr"),
    (220, "usb_linux_mmapped"),
    (227, "can_socketcan"),
    (228, "ipv4"),
    (229, "ipv6"),
    (230, "ieee802_15_4_nofcs"),
    (239, "nflog"),
    (240, "netanalyzer"),
    (249, "usbpcap"),
    (252, "wireshark_upper_pdu"),
    (253, "netlink"),
    (254, "bluetooth_linux_monitor"),
    (258, "pktap"),
    (274, "ethernet_mpacket"),
    (276, "linux_sll2"),
];

/// Returns the name of a link type, or `unknown`.
pub fn link_name(link: u32) -> &'static str {
    NAMES
        .iter()
        .find(|(number, _)| *number == link)
        .map_or("unknown", |(_, name)| name)
}
