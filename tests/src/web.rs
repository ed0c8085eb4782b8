//! What a run serves, as a client gets it.

use crate::Background;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An address that a run has printed.
#[derive(Clone, Debug)]
pub struct Served {
    /// Where it listens.
    pub at: SocketAddr,
    /// The path: `/metrics`, `/t/…/`.
    pub path: String,
}

impl Served {
    /// What stands behind `what` in the lines of a run: `metrics: `, `live page: `.
    ///
    /// # Panics
    /// When nothing does.
    pub fn of(run: &Background, what: &str) -> Self {
        let told = run.stderr();
        let url = told
            .lines()
            .find_map(|line| line.strip_prefix("mpps: ")?.strip_prefix(what)?.strip_prefix("http://"))
            .unwrap_or_else(|| panic!("no address: {told}"));
        let (at, path) = url.split_once('/').expect("a path");
        Self {
            at: at.parse().expect("an address"),
            path: format!("/{path}"),
        }
    }

    /// The whole of it.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.at, self.path)
    }

    /// A connection.
    ///
    /// # Panics
    /// When there is none to be had.
    pub fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.at).expect("connected");
        socket.set_read_timeout(Some(Duration::from_secs(120))).expect("a time");
        socket
    }

    /// All that comes for a request; empty where nobody is there any more.
    ///
    /// # Panics
    /// When it takes minutes.
    pub fn ask(&self, request: &str) -> String {
        let Ok(mut socket) = TcpStream::connect(self.at) else {
            return String::new();
        };
        socket.set_read_timeout(Some(Duration::from_secs(120))).expect("a time");
        // One that is refused early may be closed before all of it is sent.
        let _ = socket.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = socket.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A plain request for a path, with a host's name.
    pub fn get(&self, path: &str, host: &str) -> String {
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    }

    /// The body of what is there.
    ///
    /// # Panics
    /// When there is nothing.
    pub fn body(&self) -> String {
        let answer = self.get(&self.path, "localhost");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
            .expect("a body")
    }

    /// Waits until the metric has a value of which `holds` is true.
    pub fn wait_for(&self, metric: &str, holds: impl Fn(f64) -> bool) {
        crate::wait_until(metric, || value(&self.body(), metric).is_some_and(&holds));
    }
}

/// The value of a metric, as it stands in the text: with its labels.
pub fn value(text: &str, metric: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}
