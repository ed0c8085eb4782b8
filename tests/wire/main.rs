//! Other programs, other runs, garbage, lost ends and odd surroundings on the wire.

mod faults;
mod forged;
mod hostile;
mod own_packets;
mod peers;
mod rate_step;
mod reach;
mod refused;
mod surroundings;
