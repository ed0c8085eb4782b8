//! What comes from elsewhere: other programs, other runs, garbage, lost ends, odd surroundings.

mod faults;
mod forged;
mod hostile;
mod own_packets;
mod peers;
mod rate_step;
mod reach;
mod refused;
mod surroundings;
