//! The udp path: kernel UDP sockets, driven in bursts.
