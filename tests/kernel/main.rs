//! The paths of sockets (`udp`, `io_uring`, `af_packet`), and tests that run on every path.

mod addresses;
mod af_packet;
mod arrivals;
mod both_ways;
mod capture;
mod count;
mod fill;
mod forward;
mod forward_ports;
mod io_uring;
mod loops;
mod merged;
mod packets;
mod replay;
mod sample;
mod statistics;
mod stream_faults;
mod streams;
mod two_ports;
mod udp;
