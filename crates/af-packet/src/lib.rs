//! The af_packet path: AF_PACKET sockets with memory-mapped rings.
