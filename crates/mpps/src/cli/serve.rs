//! Arguments for metrics and the live page.

use super::values::Parsed;
use clap::Args;
use mpps_serve::HostName;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Default address to listen at: this host alone, at a free port.
pub(super) const ANYWHERE: &str = "127.0.0.1:0";

/// End of an error on an address.
const WANT: &str = "want ADDR:PORT, such as 127.0.0.1:9100, or nothing at all (127.0.0.1 and a free port)";

/// End of an error on words behind an address.
const WANT_HOST: &str = "want host=NAME behind the address, such as 127.0.0.1:9100,host=bench1.lab";

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) at: SocketAddr,
    /// Names by which it may be asked for beside its own.
    pub(crate) hosts: Vec<HostName>,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        self.hosts.iter().try_for_each(|host| write!(f, ",host={host}"))
    }
}

/// Metrics and the live page.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct Serve {
    /// Write the metrics of --metrics to FILE, once a second and at the end, each time in one step: for the textfile
    /// collector of the node exporter
    #[arg(long, value_name = "FILE")]
    pub(crate) prom: Option<PathBuf>,
    /// Serve metrics for Prometheus while the run goes on, at http://ADDR:PORT/metrics [default: 127.0.0.1 and a free
    /// port; the address is printed]
    #[arg(
        long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = ANYWHERE, value_parser = listen
    )]
    pub(crate) metrics: Option<Listen>,
    /// Serve a live page while the run goes on, for browsers; it shows, and can change nothing [default: as of
    /// --metrics]
    #[arg(
        long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = ANYWHERE, value_parser = listen
    )]
    pub(crate) web: Option<Listen>,
    /// Names, or addresses, by which --metrics and --web may be asked for beside localhost and the address that they
    /// listen at: those that a scraper, a reverse proxy or a published port uses. For one of the two:
    /// ADDR:PORT,host=NAME
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', value_parser = host)]
    pub(crate) allow_host: Vec<HostName>,
}

impl Serve {
    /// The options with an address, and these.
    pub(crate) fn addresses(&self) -> [(&'static str, Option<&Listen>); 2] {
        [("--metrics", self.metrics.as_ref()), ("--web", self.web.as_ref())]
    }
}

/// An address to listen at, and names for it.
fn listen(text: &str) -> Parsed<Listen> {
    let mut words = text.split(',');
    let at = address(words.next().unwrap_or_default())?;
    let one = |word: &str| host(word.trim().strip_prefix("host=").ok_or(WANT_HOST)?);
    let hosts = words.map(one).collect::<Parsed<_>>()?;
    Ok(Listen { at, hosts })
}

/// The name of a host.
fn host(text: &str) -> Parsed<HostName> {
    text.parse().map_err(str::to_owned)
}

/// An address to listen at; names are not looked up, but for `localhost`.
fn address(text: &str) -> Parsed<SocketAddr> {
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if host == "localhost" => (host, port.parse().map_err(|_| WANT)?),
        _ => (text, 0),
    };
    if host == "localhost" {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let ip: IpAddr = bracketed.unwrap_or(host).parse().map_err(|_| WANT)?;
    // An IPv6 address that ends as a port would: ::1:9100 is both.
    let port_like = text.rsplit_once(':').filter(|(address, port)| {
        let decimal = port.bytes().all(|digit| digit.is_ascii_digit());
        bracketed.is_none() && decimal && address.parse::<Ipv6Addr>().is_ok()
    });
    if let Some((address, port)) = port_like {
        return Err(format!(
            "is that a port behind it? want [{address}]:{port}, or [{text}] for the address {text}"
        ));
    }
    Ok((ip, port).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_names_and_says_them_again() {
        for (text, want) in [
            ("0.0.0.0:9470,host=bench1.lab", "0.0.0.0:9470,host=bench1.lab"),
            ("[::]:81,host=A.,host=192.0.2.1", "[::]:81,host=a,host=192.0.2.1"),
            ("127.0.0.1:81", "127.0.0.1:81"),
        ] {
            assert_eq!(listen(text).map(|at| at.to_string()), Ok(want.to_owned()), "{text}");
        }
        for (bad, want) in [
            ("127.0.0.1:81,", WANT_HOST),
            ("127.0.0.1:81,bench1.lab", WANT_HOST),
            ("127.0.0.1:81,host=bench1.lab:81", "without a port"),
            ("127.0.0.1:81,host=*", "want the name or address of a host"),
            ("host=bench1.lab", WANT),
        ] {
            let told = listen(bad).expect_err(bad);
            assert!(told.contains(want), "{bad}: {told}");
        }
    }

    #[test]
    fn addresses_are_read_or_refused_with_what_would_be_right() {
        for (text, want) in [
            ("127.0.0.1:9100", "127.0.0.1:9100"),
            ("127.0.0.1", "127.0.0.1:0"),
            ("localhost", "127.0.0.1:0"),
            ("localhost:81", "127.0.0.1:81"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:82", "[::1]:82"),
            ("0.0.0.0:83", "0.0.0.0:83"),
        ] {
            assert_eq!(address(text).map(|at| at.to_string()), Ok(want.to_owned()), "{text}");
        }
        for (bad, want) in [
            ("::1:9100", "want [::1]:9100, or [::1:9100] for"),
            ("fd99::2:80", "want [fd99::2]:80,"),
        ] {
            let told = address(bad).expect_err(bad);
            assert!(told.contains(want), "{told}");
        }
        assert_eq!(
            address("[::1:9100]").map(|at| at.to_string()),
            Ok("[::1:9100]:0".to_owned())
        );
        assert_eq!(
            address("fd99::2").map(|at| at.to_string()),
            Ok("[fd99::2]:0".to_owned())
        );
        for bad in [
            "",
            "loop:",
            "udp:10.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:x",
            "127.0.0.1:65536",
            "localhost:",
            "9100",
            "example.com:80",
        ] {
            assert_eq!(address(bad), Err(WANT.to_owned()), "{bad}");
        }
    }
}
