//! The interface of a port whose path moves Ethernet frames, with errors in the words of all such paths.

use crate::{NetDev, interface_names};
use mpps_io::{Error, ErrorKind, Result};
use std::io;

impl NetDev {
    /// Looks up the interface of a port of `path`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], with the names there are, if there is none of this name; [`ErrorKind::Unsupported`]
    /// if it moves no Ethernet frames.
    pub fn of_port(name: &str, path: &str) -> Result<Self> {
        let device = Self::by_name(name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let cause = format!("no such interface; there are: {}", interface_names().join(", "));
                Error::new("open", name, cause, ErrorKind::NotFound)
            }
            _ => Error::os("look up interface", name, &error),
        })?;
        if !device.ethernet {
            let cause = format!("not an Ethernet device: {path} moves Ethernet frames");
            return Err(Error::new("open", name, cause, ErrorKind::Unsupported));
        }
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_refused_with_those_that_are() {
        let error = NetDev::of_port("nosuch0", "af_xdp").expect_err("no interface has this name");
        assert_eq!(error.kind, ErrorKind::NotFound);
        let text = error.to_string();
        assert!(
            text.starts_with("open nosuch0: no such interface; there are: ") && text.contains("lo"),
            "{text}"
        );
        assert!(NetDev::of_port("lo", "af_packet").is_ok());
    }
}
