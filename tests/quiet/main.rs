//! Those that need the host to themselves: searches, which count a trial in which a lane was kept from running as
//! void and go on until enough of them count; and a test whose descriptor another's child would hold.

mod compare;
mod dpdk_closing;
mod ndr;
mod overload;
mod rfc2544;
