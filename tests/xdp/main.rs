//! The paths that begin in an XDP program: `xdp` and `af_xdp`.

mod af_xdp;
mod af_xdp_faults;
mod af_xdp_forward;
mod xdp;
mod xdp_agreement;
mod xdp_faults;
mod xdp_forward;
mod xdp_two_ports;
